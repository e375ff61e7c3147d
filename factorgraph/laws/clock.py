"""The clock that a GPU sustains: free-running or locked, and no faster than its power cap lets it."""

import jax
import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import smooth_max, smooth_min
from factorgraph.variables import (
    BoostClock,
    DramBandwidth,
    EtaClock,
    FlopPerClock,
    GemmFlop,
    PeakFlops,
    PowerCap,
    ProcessEnergy,
    SmClock,
    SustainedClock,
    Tdp,
    Traffic,
    TUncapped,
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
        busy_compute, busy_memory = gemm_flop / peak_flops, traffic / dram_bandwidth
        longest = smooth_max(busy_compute, busy_memory, 8.0)
        budget = power_cap / tdp - self.idle - self.memory * busy_memory / longest
        # A cap below what leakage and memory draw is met by stalling, which the floor of the clock ratio stands for.
        # Idle tensor cores could run at any clock; a thousand times the boost clock stands for that.
        budget = jnp.minimum(jnp.maximum(budget, 1e-3) / (self.dynamic * busy_compute / longest), 1e3)
        ratio = _clock_ratio_of_power(budget, self.v_floor, self.v_slope)
        return smooth_min(sm_clock, jnp.maximum(ratio, 0.02) * boost_clock, 12.0)


def _clock_ratio_of_power(power: Array, v_floor: Array, v_slope: Array) -> Array:
    """x with x V(x)^2 = power, by Newton's method; the last step alone carries the (implicit) derivative."""

    def draw(x):
        voltage = smooth_max(v_floor, jnp.maximum(1.0 - v_slope * (1.0 - x), 0.0), 16.0)
        return x * voltage**2

    # Above the solution, since V >= v_floor; and near it where the clock is high, where x V^2 is about v_slope^2 x^3.
    x = jax.lax.stop_gradient(jnp.minimum(power / v_floor**2, jnp.cbrt(power / v_slope**2) + 1.0))
    for _ in range(10):
        value, slope = jax.value_and_grad(draw)(x)
        x = jax.lax.stop_gradient(x - (value - power) / slope)
    return x - (draw(x) - power) / jax.lax.stop_gradient(jax.grad(draw)(x))


class ClockRatio(Factor):
    """eta_clock = sustained_clock / boost_clock. A clock above the one behind the printed peak counts as that one."""

    monotone = {"sustained_clock": +1, "boost_clock": -1}

    def __call__(self, sustained_clock: SustainedClock, boost_clock: BoostClock) -> EtaClock:
        return jnp.where(sustained_clock > boost_clock, 1.0, sustained_clock / boost_clock)


class EnergyRoof(Factor):
    """A GEMM takes no less time than its energy needs at the power cap.

    t_energy = (e_operand + e_issue * 1024/flop_per_clock) * process_energy * gemm_flop / power_cap;
    eta_clock = (sm_clock/boost_clock) * t_uncapped / smooth_max_p(t_uncapped, t_energy)

    The energy of a product falls with the size of the matrix unit that makes it: one instruction feeds more of it.

    | symbol | unit | meaning |
    |---|---|---|
    | e_operand | J/FLOP | energy of a product |
    | e_issue | J/FLOP | energy of issuing it on a unit of 1024 FLOP a clock |
    | sharpness | 1 | p: how abruptly the cap binds |

    Limits: eta_clock -> sm_clock/boost_clock for a high cap; proportional to the cap for a low one.
    """

    e_operand: Array = parameter(0.662e-12, unit="J/FLOP", source=_TABLES, lower=1e-14, upper=1e-11)
    e_issue: Array = parameter(0.817e-12, unit="J/FLOP", source=_TABLES, lower=0.0, upper=1e-11)
    sharpness: Array = parameter(6.86, source=_TABLES, lower=1.0, upper=20.0)

    literals = ("FLOP",)
    monotone = {"power_cap": +1, "process_energy": -1, "sm_clock": +1, "boost_clock": -1}

    def __call__(
        self,
        t_uncapped: TUncapped,
        gemm_flop: GemmFlop,
        flop_per_clock: FlopPerClock,
        process_energy: ProcessEnergy,
        power_cap: PowerCap,
        sm_clock: SmClock,
        boost_clock: BoostClock,
    ) -> EtaClock:
        per_flop = (self.e_operand + self.e_issue * 1024.0 / flop_per_clock) * process_energy
        t_energy = per_flop * gemm_flop / power_cap
        free = jnp.where(sm_clock > boost_clock, 1.0, sm_clock / boost_clock)
        return free * t_uncapped / smooth_max(t_uncapped, t_energy, self.sharpness)


class ReachedClock(Factor):
    """The clock that stands for the power-limited rate: sustained_clock = eta_clock * boost_clock, at least 1 Hz."""

    kinks = ("eta_clock",)
    literals = ("s",)
    monotone = {"eta_clock": +1}

    def __call__(self, eta_clock: EtaClock, boost_clock: BoostClock) -> SustainedClock:
        return jnp.maximum(eta_clock * boost_clock, 1.0)
