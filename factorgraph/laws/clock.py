"""The clock that a GPU sustains: free-running or locked, and no faster than its power cap lets it."""

import jax
import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.laws.gemm import free_clock
from factorgraph.smooth import smooth_max, smooth_min
from factorgraph.variables import (
    ActivationElementSize,
    BoostClock,
    BusySms,
    DramBandwidth,
    DramEnergy,
    EtaClock,
    GemmEnergy,
    GemmFlop,
    PeakFlops,
    PowerCap,
    ProcessEnergy,
    SmClock,
    SustainedClock,
    TCapped,
    TCompute,
    Tdp,
    Tiling,
    TPrologue,
    Traffic,
    TReduce,
    TTiling,
)

_CAPS = "published power-cap sweeps, B300 and RTX PRO 6000 GEMM (design section 3, clock and power)"
_TABLES = "pooled fit to the vLLM bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs"


class PowerBalance(Factor):
    """The clock at which a GEMM's power meets the cap, or the SM clock if that comes first.

    P(f) = tdp * [idle + memory * u_mem + dynamic * u * (f/f_boost) * (V(f)/V_boost)^2],
    V(f)/V_boost = smooth maximum of v_floor and 1 - v_slope (1 - f/f_boost), at p = 16.

    u is the share of time the tensor cores are busy on a perfect roofline, u_mem that of the memory. Solved for
    P(f) = power_cap by Newton's method from above: P rises and is convex in f, so no step overshoots.

    | symbol | unit | meaning |
    |---|---|---|
    | idle, memory, dynamic | 1 | shares of the design power: leakage and board; busy memory; tensor cores at boost |
    | v_floor | 1 | lowest voltage over that at the boost clock |
    | v_slope | 1 | how fast the voltage falls with the clock |

    Limits: f -> sm_clock for a high cap or an idle GPU; below v_floor the clock falls linearly with the cap, above it
    slower. No single exponent holds, which is what published sweeps show (0.6 to 2.4).
    """

    idle: Array = parameter(0.15, source=_CAPS, lower=0.01, upper=0.5)
    memory: Array = parameter(0.2, source=_CAPS, lower=0.0, upper=0.6)
    dynamic: Array = parameter(0.85, source=_CAPS, lower=0.1, upper=3.0)
    v_floor: Array = parameter(0.7, source=_CAPS, lower=0.3, upper=0.99)
    v_slope: Array = parameter(0.7, source=_CAPS, lower=0.1, upper=1.5)

    monotone = {"power_cap": +1, "sm_clock": +1}

    def __call__(
        self,
        gemm_flop: GemmFlop,
        traffic: Traffic,
        peak_flops: PeakFlops,
        dram_bandwidth: DramBandwidth,
        boost_clock: BoostClock,
        sm_clock: SmClock,
        power_cap: PowerCap,
        tdp: Tdp,
    ) -> SustainedClock:
        # By logarithms: the derivative of a quotient of times of 1e-17 s is beyond single precision.
        logarithm = jnp.log(traffic) - jnp.log(dram_bandwidth) - jnp.log(gemm_flop) + jnp.log(peak_flops)
        memory_to_compute = jnp.exp(jnp.clip(logarithm, -30.0, 30.0))
        busy_compute = 1.0 / smooth_max(1.0, memory_to_compute, 8.0)
        budget = power_cap / tdp - self.idle - self.memory * memory_to_compute * busy_compute
        # A cap below what leakage and memory draw is met by stalling, which the floor of the clock ratio stands for.
        # Idle tensor cores could run at any clock; those busy for a millionth of the time stand for them.
        busy_compute = jnp.maximum(busy_compute, 1e-6)
        budget = jnp.minimum(jnp.maximum(budget, 1e-3) / (self.dynamic * busy_compute), 1e3)
        ratio = _clock_ratio_of_power(budget, self.v_floor, self.v_slope)
        return smooth_min(sm_clock, jnp.maximum(ratio, 0.02) * boost_clock, 12.0)


def _clock_ratio_of_power(power: Array, v_floor: Array, v_slope: Array) -> Array:
    """x with x V(x)^2 = power, by Newton's method; the last step alone carries the (implicit) derivative."""

    def draw(x, v_floor, v_slope):
        voltage = smooth_max(v_floor, jnp.maximum(1.0 - v_slope * (1.0 - x), 0.0), 16.0)
        return x * voltage**2

    def newton(x, wanted, floor, slope):
        value, rise = jax.value_and_grad(draw)(x, floor, slope)
        return x - (value - wanted) / rise

    # Above the solution, since V >= v_floor; and near it where the clock is high, where x V^2 is about v_slope^2 x^3.
    known = wanted, floor, slope = jax.lax.stop_gradient((power, v_floor, v_slope))
    start = jnp.minimum(wanted / floor**2, jnp.cbrt(wanted / slope**2) + 1.0)
    x = jax.lax.fori_loop(0, 10, lambda _, x: newton(x, *known), start)
    return x - (draw(x, v_floor, v_slope) - power) / jax.grad(draw)(x, floor, slope)


class ClockRatio(Factor):
    """eta_clock = sustained_clock / boost_clock. A clock above the one behind the printed peak counts as that one."""

    monotone = {"sustained_clock": +1, "boost_clock": -1}

    def __call__(self, sustained_clock: SustainedClock, boost_clock: BoostClock) -> EtaClock:
        return jnp.where(sustained_clock > boost_clock, 1.0, sustained_clock / boost_clock)


class SwitchedEnergy(Factor):
    """Energy of a GEMM above idle: its products, the clocks of its busy SMs, and its DRAM traffic.

    gemm_energy = process_energy * (e_mac * gemm_flop/2 * activation_element_size + e_sm * busy_sms * clock * t_busy)
                  + dram_energy * traffic
    t_busy = t_compute - t_prologue - t_reduce,  clock = min(sm_clock, boost_clock)

    | symbol | unit | meaning |
    |---|---|---|
    | e_mac | J/B | of a multiply-add, for each byte of an operand |
    | e_sm | J | of a clock of a busy SM: fetching, moving operands, waiting |
    """

    e_mac: Array = parameter(0.529e-12, unit="J/B", source=_TABLES, lower=1e-14, upper=1e-11)
    e_sm: Array = parameter(0.709e-9, unit="J", source=_TABLES, lower=1e-11, upper=1e-7)

    kinks = ("t_compute", "t_prologue", "t_reduce", "sm_clock", "boost_clock")
    literals = ("FLOP",)
    monotone = {"process_energy": +1, "dram_energy": +1, "traffic": +1, "gemm_flop": +1, "t_compute": +1}

    def __call__(
        self,
        gemm_flop: GemmFlop,
        activation_element_size: ActivationElementSize,
        busy_sms: BusySms,
        sm_clock: SmClock,
        boost_clock: BoostClock,
        t_compute: TCompute,
        t_prologue: TPrologue,
        t_reduce: TReduce,
        process_energy: ProcessEnergy,
        dram_energy: DramEnergy,
        traffic: Traffic,
    ) -> GemmEnergy:
        t_busy = jnp.maximum(t_compute - t_prologue - t_reduce, 0.0)
        products = self.e_mac * (0.5 * gemm_flop) * activation_element_size
        clocks = busy_sms * boost_clock * free_clock(sm_clock, boost_clock) * t_busy
        return process_energy * (products + self.e_sm * clocks) + dram_energy * traffic


class EnergyRoof(Factor):
    """A GEMM takes no less time than its energy needs at the power cap.

    t_capped = t_prologue + smooth_max8(t_tiling - t_prologue, gemm_energy / (usable * power_cap))

    | symbol | unit | meaning |
    |---|---|---|
    | usable | 1 | share of the cap that is left above idle |

    Limits: t_capped -> t_tiling for a high cap; -> gemm_energy over the cap for a low one.
    """

    usable: Array = parameter(0.9, source="idle boards draw about a tenth of their cap", lower=0.3, upper=1.0)

    kinks = ("t_tiling",)
    monotone = {"power_cap": -1, "gemm_energy": +1, "t_tiling": +1}

    fitted_in = {"power_cap": (350.0, 1400.0)}

    def __call__(
        self, t_tiling: TTiling, t_prologue: TPrologue, gemm_energy: GemmEnergy, power_cap: PowerCap
    ) -> TCapped:
        t_energy = gemm_energy / (self.usable * power_cap)
        return t_prologue + smooth_max(jnp.maximum(t_tiling - t_prologue, 0.0), t_energy, 8.0)


class ClockLoss(Factor):
    """What the clock costs the tiling that is taken: a lower SM clock, and the wait for energy at the cap.

    eta_clock = min(sm_clock/boost_clock, 1) * t_tiling/t_capped
    """

    kinks = ("sm_clock", "boost_clock", "t_capped", "tiling_choice")
    monotone = {"sm_clock": +1, "boost_clock": -1}

    def __call__(
        self, t_tiling: TTiling, t_capped: TCapped, tiling_choice: Tiling, sm_clock: SmClock, boost_clock: BoostClock
    ) -> EtaClock:
        taken = tiling_choice.astype(jnp.int32)
        return free_clock(sm_clock, boost_clock) * jnp.minimum(t_tiling[taken] / t_capped[taken], 1.0)


class ReachedClock(Factor):
    """The clock that stands for the power-limited rate: sustained_clock = eta_clock * boost_clock, at least 1 Hz."""

    kinks = ("eta_clock",)
    literals = ("s",)
    monotone = {"eta_clock": +1}

    def __call__(self, eta_clock: EtaClock, boost_clock: BoostClock) -> SustainedClock:
        return jnp.maximum(eta_clock * boost_clock, 1.0)
