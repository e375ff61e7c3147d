"""Laws that are wrong on purpose, each with the check that must name it; and right ones that look suspicious."""

import dataclasses
import math
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from factorgraph import Domain, Factor, Variable, parameter
from factorgraph.smooth import falling_step, smooth_max
from factorgraph.variables import (
    AsyncPipeline,
    DramBandwidth,
    EtaBarrier,
    EtaClock,
    EtaMem,
    EtaTc,
    GemmCount,
    GemmFlop,
    K,
    LightBytes,
    LightCount,
    M,
    N,
    PeakFlops,
    PowerCap,
    Sequences,
    SmClock,
    SmCount,
    Tdp,
    TGemm,
    TGemmTotal,
    TGpu,
    THost,
    TileM,
    TLight,
    TLightTotal,
    Traffic,
    TStep,
    Waves,
    WorkingSet,
)

_HERE = "the zoo"


@dataclasses.dataclass(frozen=True)
class Animal:
    """A wrong law and the check that must refuse it."""

    law: Factor
    check: str
    by_chance: bool = False  # whether it is wrong at so few places that the draw must hit them

    @property
    def name(self) -> str:
        return self.law.law_name


# --- values ----------------------------------------------------------------------------------------------------------


class JustAboveOne(Factor):
    def __call__(self, async_pipeline: AsyncPipeline) -> EtaTc:
        return 1.0000001 * (1.0 + 0.0 * async_pipeline)


class EfficiencyOfNothing(Factor):
    def __call__(self, power_cap: PowerCap, tdp: Tdp) -> EtaClock:
        return jnp.clip(power_cap / tdp - 0.2, 0.0, 1.0)


class NegativeTime(Factor):
    s0: Array = parameter(1e-3, unit="s", source=_HERE)
    s1: Array = parameter(1e-6, unit="s", source=_HERE)

    def __call__(self, sequences: Sequences) -> THost:
        return self.s0 - self.s1 * sequences


class NanAtOnePoint(Factor):
    t0: Array = parameter(1e-6, unit="s", source=_HERE)

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        t = light_bytes / dram_bandwidth
        return self.t0 + t * (light_bytes / light_bytes)


class InfiniteAtOneSm(Factor):
    t0: Array = parameter(1e-3, unit="s", source=_HERE)

    def __call__(self, sm_count: SmCount) -> THost:
        return self.t0 / (sm_count - 1.0)


class GradientOfARootAtZero(Factor):
    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth + 1e-6 * jnp.sqrt(light_bytes / (light_bytes + 1e6))


class GradientOfAGuardedQuotient(Factor):
    """The value is guarded by where, the derivative is not."""

    def __call__(self, t_gpu: TGpu, t_host: THost) -> TStep:
        return t_gpu + jnp.where(t_gpu > t_host, t_host, t_host**2 / jnp.where(t_host > 0.0, t_host, 0.0))


class OverflowsSquared(Factor):
    """Two large numbers meet in a square that float32 has no room for."""

    def __call__(
        self, gemm_flop: GemmFlop, peak_flops: PeakFlops, traffic: Traffic, dram_bandwidth: DramBandwidth
    ) -> TGemm:
        return jnp.sqrt((gemm_flop * dram_bandwidth) ** 2 + (traffic * peak_flops) ** 2) / (peak_flops * dram_bandwidth)


# --- slopes ----------------------------------------------------------------------------------------------------------


class WrongSign(Factor):
    monotone = {"dram_bandwidth": +1}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth


class NarrowBump(Factor):
    """A dip of 3 % in a band of 1 % of the bandwidth's five decades."""

    monotone = {"dram_bandwidth": -1}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        distance = jnp.log(dram_bandwidth / 2.039e12) / 0.01
        return light_bytes / dram_bandwidth * (1.0 - 0.03 * jnp.exp(-(distance**2)))


class TurnsAtTheEnd(Factor):
    """Rises nearly everywhere, and falls near the upper end of the domain."""

    monotone = {"sequences": +1}

    def __call__(self, sequences: Sequences) -> THost:
        return 1e-3 * sequences * (1.0 - 0.6 * sequences / 1e6) + 1.0


class FallsBetweenWholeNumbers(Factor):
    """Rises from even to odd counts and falls from odd to even ones."""

    monotone = {"sm_count": +1}

    def __call__(self, sm_count: SmCount) -> THost:
        return 1e-3 * (sm_count + 2.0 * jnp.abs(jnp.sin(0.5 * math.pi * sm_count)))


class ZeroGradientFromCeil(Factor):
    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return jnp.ceil(light_bytes / 4096.0) * 4096.0 / dram_bandwidth


class StoppedGradient(Factor):
    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / jax.lax.stop_gradient(dram_bandwidth)


@jax.custom_jvp
def _reciprocal(x):
    return 1.0 / x


@_reciprocal.defjvp
def _reciprocal_slope(primals, tangents):
    (x,), (dx,) = primals, tangents
    return 1.0 / x, -dx / x


class HandWrittenDerivative(Factor):
    """A derivative written by hand that forgot a square."""

    def __call__(self, power_cap: PowerCap, tdp: Tdp) -> EtaClock:
        return jnp.minimum(1.0, 30.0 * _reciprocal(power_cap)) + 0.0 * tdp


class Jump(Factor):
    """Another branch from a working set of 50 MB on, which does not meet the first."""

    def __call__(self, traffic: Traffic, working_set: WorkingSet, dram_bandwidth: DramBandwidth) -> TGemm:
        return traffic / dram_bandwidth * jnp.where(working_set < 5e7, 1.0, 1.02)


class FineStaircase(Factor):
    """Rounded to a hundred-thousandth, which no plot shows and which takes the derivative away."""

    def __call__(self, async_pipeline: AsyncPipeline) -> EtaBarrier:
        return 0.5 + 1e-5 * jnp.round(0.4 * async_pipeline * 1e5)


# --- units, scaling, limits ------------------------------------------------------------------------------------------


class UnlikeThings(Factor):
    """Adds seconds and bytes."""

    t0: Array = parameter(1e-6, unit="s", source=_HERE)

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return self.t0 + light_bytes


class HiddenConstant(Factor):
    """An L2 capacity of 50 MB hides in the text."""

    def __call__(self, working_set: WorkingSet, power_cap: PowerCap) -> EtaMem:
        return 0.1 + 0.9 * 5e7 / (5e7 + working_set) + 0.0 * power_cap


class UndeclaredUnit(Factor):
    """A latency whose unit was forgotten."""

    latency: Array = parameter(2e-6, source=_HERE)

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return self.latency + light_bytes / dram_bandwidth


class WattsForJoules(Factor):
    """Energy of an operation over power is a time; here the power was left out."""

    energy: Array = parameter(1e-12, unit="J/FLOP", source=_HERE)

    def __call__(self, gemm_flop: GemmFlop, power_cap: PowerCap) -> TGemm:
        return self.energy * gemm_flop + 0.0 * power_cap


class GigabytesForBytes(Factor):
    """A unit slip of a thousand: bandwidth taken to be in kB/s."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / (1000.0 * dram_bandwidth)


class FasterThanPeak(Factor):
    """Two per cent above what the tensor cores can do."""

    def __call__(self, gemm_flop: GemmFlop, peak_flops: PeakFlops) -> TGemm:
        return gemm_flop / (1.02 * peak_flops)


class CountsOnce(Factor):
    """The first launch is free."""

    def __call__(self, t_light: TLight, light_count: LightCount) -> TLightTotal:
        return jnp.sum(t_light * jnp.maximum(light_count - 1.0, 0.0))


class MeanForSum(Factor):
    def __call__(self, t_gemm: TGemm, gemm_count: GemmCount) -> TGemmTotal:
        return jnp.sum(t_gemm * gemm_count) / jnp.maximum(jnp.sum(gemm_count), 1.0)


class WrongLimit(Factor):
    """Says that a large transfer reaches all of the bandwidth, and leaves it at 90 %."""

    t0: Array = parameter(1e-6, unit="s", source=_HERE)
    limits = {"traffic": (None, 1.0)}

    def __call__(self, traffic: Traffic, dram_bandwidth: DramBandwidth) -> EtaMem:
        return 0.9 * traffic / (traffic + self.t0 * dram_bandwidth)


class ForgottenLaunch(Factor):
    """Says that nothing to stream still costs a launch, and multiplies the launch by the bytes."""

    t_launch: Array = parameter(1e-6, unit="s", source=_HERE)
    limits = {"light_bytes": (lambda law, values: law.t_launch, math.inf)}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth + self.t_launch * light_bytes / (
            light_bytes + self.t_launch * dram_bandwidth
        )


# --- execution -------------------------------------------------------------------------------------------------------


class RetracesOnValue(Factor):
    """A constant that is part of the structure, so that each new value compiles anew."""

    share: float = eqx.field(static=True, default=0.8)

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / (self.share * dram_bandwidth)


class NumberThatIsNoLeaf(Factor):
    """A plain float: a leaf of the tree, but no array, and so compiled into the code."""

    share: float = 0.8

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / (self.share * dram_bandwidth)


class BranchesOnValue(Factor):
    """An if on an input, which a compiled function cannot take."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        if light_bytes > 1e6:
            return light_bytes / dram_bandwidth
        return 1e6 / dram_bandwidth


_calls: list[int] = []


class HiddenState(Factor):
    """The first calls are cold, the later ones warm."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        _calls.append(1)
        return light_bytes / dram_bandwidth * (1.0 + 1.0 / len(_calls))


class Remembers(Factor):
    """Keeps what it was asked."""

    history: Any = eqx.field(static=True, default_factory=lambda: Notes())

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        self.history.lines.append("asked")
        return light_bytes / dram_bandwidth


class Notes:
    """A mutable thing that compares and hashes by identity."""

    def __init__(self):
        self.lines: list[str] = []

    def __repr__(self) -> str:
        return f"{len(self.lines)} notes"


class Random(Factor):
    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth * (1.0 + np.random.default_rng().random())


class DtypePromotion(Factor):
    """A NumPy table in float64 takes the result with it."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / (np.asarray(0.85) * dram_bandwidth)


class Truncates(Factor):
    """A whole number between two floats."""

    def __call__(self, m: M, sm_clock: SmClock) -> THost:
        return m.astype(jnp.int32) / sm_clock


class LosesDigits(Factor):
    """The logarithm of one and a little, where log1p was meant: half of float32's digits are gone."""

    def __call__(self, async_pipeline: AsyncPipeline) -> EtaTc:
        return 0.5 + 0.4 * 1e6 * jnp.log(1.0 + 1e-6 * async_pipeline)


class OneForAll(Factor):
    """Flattens what vmap stacks; only its own points see each other."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return jnp.broadcast_to(light_bytes / dram_bandwidth, (2,))


class OtherWhenCompiled(Factor):
    """Answers otherwise under a tracer."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        slack = 1.1 if isinstance(light_bytes, jax.core.Tracer) else 1.0
        return slack * light_bytes / dram_bandwidth


class OtherWhenMapped(Factor):
    """Rounds to bfloat16 where vmap makes a batch of it."""

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return _batch_differs(light_bytes) / dram_bandwidth


@jax.custom_batching.custom_vmap
def _batch_differs(x):
    return 1.0 * x


@_batch_differs.def_vmap
def _batch_rule(axis_size, in_batched, x):
    return 1.01 * x, in_batched[0]


class ForgetsWhenCopied(Factor):
    """Keeps a number beside its fields, which a PyTree does not carry."""

    share: Array = parameter(0.8, source=_HERE)

    def __post_init__(self):
        object.__setattr__(self, "twice", 2.0 * float(self.share))

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / (self.twice * dram_bandwidth)


class ComparesByIdentity(Factor):
    """A static part that equals nothing but itself, so that a law read back from disk compiles anew."""

    notes: Any = eqx.field(static=True, default_factory=lambda: Notes())

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth


class NeitherUpNorDown(Factor):
    monotone = {"light_bytes": 2}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth


WRONG = [
    Animal(JustAboveOne(), "domain"),
    Animal(EfficiencyOfNothing(), "domain", by_chance=True),
    Animal(NegativeTime(), "domain"),
    Animal(NanAtOnePoint(), "domain", by_chance=True),
    Animal(InfiniteAtOneSm(), "domain"),
    Animal(OverflowsSquared(), "domain", by_chance=True),
    Animal(GradientOfARootAtZero(), "gradient"),
    Animal(GradientOfAGuardedQuotient(), "gradient", by_chance=True),
    Animal(WrongSign(), "monotone"),
    Animal(NarrowBump(), "monotone", by_chance=True),
    Animal(TurnsAtTheEnd(), "monotone", by_chance=True),
    Animal(FallsBetweenWholeNumbers(), "monotone"),
    Animal(ZeroGradientFromCeil(), "continuous"),
    Animal(FineStaircase(), "continuous", by_chance=True),
    Animal(Jump(), "continuous", by_chance=True),
    Animal(StoppedGradient(), "derivative"),
    Animal(HandWrittenDerivative(), "derivative"),
    Animal(UnlikeThings(), "units"),
    Animal(HiddenConstant(), "units"),
    Animal(UndeclaredUnit(), "units"),
    Animal(WattsForJoules(), "units"),
    Animal(GigabytesForBytes(), "roofline"),
    Animal(FasterThanPeak(), "roofline"),
    Animal(CountsOnce(), "scaling", by_chance=True),
    Animal(MeanForSum(), "scaling"),
    Animal(WrongLimit(), "limits"),
    Animal(ForgottenLaunch(), "limits"),
    Animal(RetracesOnValue(), "retrace"),
    Animal(NumberThatIsNoLeaf(), "retrace"),
    Animal(BranchesOnValue(), "jit"),
    Animal(OtherWhenCompiled(), "jit"),
    Animal(OtherWhenMapped(), "vmap"),
    Animal(HiddenState(), "stateless"),
    Animal(Remembers(), "stateless"),
    Animal(Random(), "stateless"),
    Animal(DtypePromotion(), "dtype"),
    Animal(Truncates(), "dtype"),
    Animal(LosesDigits(), "precision", by_chance=True),
    Animal(ForgetsWhenCopied(), "pytree"),
    Animal(ComparesByIdentity(), "pytree"),
    Animal(OneForAll(), "signature"),
    Animal(NeitherUpNorDown(), "signature"),
]


# --- right laws that might look wrong --------------------------------------------------------------------------------


class SteepButSmooth(Factor):
    """A step over a third of a decade."""

    at: Array = parameter(5e7, unit="B", source=_HERE)
    monotone = {"working_set": -1}

    def __call__(self, working_set: WorkingSet, power_cap: PowerCap) -> EtaMem:
        return 0.1 + 0.9 * falling_step(working_set / self.at, 24.0) + 0.0 * power_cap


class CornerOfAMaximum(Factor):
    """Two straight lines that meet: a corner, not a step."""

    monotone = {"gemm_flop": +1, "traffic": +1, "peak_flops": -1, "dram_bandwidth": -1}

    def __call__(
        self, gemm_flop: GemmFlop, peak_flops: PeakFlops, traffic: Traffic, dram_bandwidth: DramBandwidth
    ) -> TGemm:
        return jnp.maximum(gemm_flop / peak_flops, traffic / dram_bandwidth)


class DeclaredTiles(Factor):
    """Whole tiles, and says so."""

    kinks = ("m", "tile_m")
    monotone = {"m": +1}

    def __call__(self, m: M, tile_m: TileM, sm_count: SmCount) -> Waves:
        return jnp.ceil(m / tile_m) / sm_count


class DeclaredFlop(Factor):
    """Two operations a multiply-add, and says so."""

    literals = ("FLOP",)
    monotone = {"m": +1, "n": +1, "k": +1}

    def __call__(self, m: M, n: N, k: K) -> GemmFlop:
        return 2.0 * m * n * k


class EnergyOverPower(Factor):
    energy: Array = parameter(1e-12, unit="J/FLOP", source=_HERE)
    monotone = {"gemm_flop": +1, "power_cap": -1}
    scaling = {"gemm_flop": 1, "power_cap": -1}

    def __call__(self, gemm_flop: GemmFlop, power_cap: PowerCap) -> TGemm:
        return self.energy * gemm_flop / power_cap


class ReachesItsLimits(Factor):
    t_launch: Array = parameter(1e-6, unit="s", source=_HERE)
    monotone = {"light_bytes": +1}
    limits = {"light_bytes": (lambda law, values: law.t_launch, math.inf)}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return self.t_launch + light_bytes / dram_bandwidth


class OverlappedTimes(Factor):
    monotone = {"t_gpu": +1, "t_host": +1}

    def __call__(self, t_gpu: TGpu, t_host: THost) -> TStep:
        return smooth_max(t_gpu, t_host, 8.0)


class SmallExponent(Factor):
    """A power below one, away from zero."""

    exponent: Array = parameter(0.3, source=_HERE)
    monotone = {"power_cap": +1, "tdp": -1}

    def __call__(self, power_cap: PowerCap, tdp: Tdp) -> EtaClock:
        return jnp.minimum(power_cap / tdp, 1.0) ** self.exponent


Celsius = Annotated[Array, Variable("celsius", "K", Domain(-40.0, 120.0), doc="temperature above freezing")]
Derating = Annotated[Array, Variable("derating", "1", Domain(0.0, 1.0), doc="clock left at a temperature")]


class OwnVariables(Factor):
    """A variable of one's own, with negative values."""

    scale: Array = parameter(400.0, unit="K", source=_HERE)
    monotone = {"celsius": -1}

    def __call__(self, celsius: Celsius) -> Derating:
        return jnp.exp(-(celsius + 0.125 * self.scale) / self.scale)


RIGHT: list[Factor] = [
    SteepButSmooth(),
    CornerOfAMaximum(),
    DeclaredTiles(),
    DeclaredFlop(),
    EnergyOverPower(),
    ReachesItsLimits(),
    OverlappedTimes(),
    SmallExponent(),
    OwnVariables(),
]
