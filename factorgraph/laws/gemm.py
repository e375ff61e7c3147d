"""What a GEMM asks for and how its factors add up to a time. The five factors themselves each have a file."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor
from factorgraph.variables import (
    ActivationElementSize,
    BoostClock,
    EtaBarrier,
    EtaClock,
    EtaMem,
    EtaTc,
    EtaWave,
    GemmFlop,
    GemmGroups,
    K,
    M,
    N,
    OutputElementSize,
    PeakFlops,
    SmClock,
    TCompute,
    TGemm,
    Tiling,
    TMainLoop,
    Traffic,
    TTiling,
    TUncapped,
    WeightBytes,
    WeightElementSize,
    WorkingSet,
)

# No kernel is this inefficient. Dividing by the floored factor, and not by the quotient that a law computed it as, also
# keeps the compiler from merging a chain of quotients into products of FLOP/s and bytes that overflow float32.
_LEAST = 1e-9


def _per(eta: Array) -> Array:
    return 1.0 / jnp.maximum(eta, _LEAST)


class GemmWork(Factor):
    """Floating-point operations of a product: gemm_flop = 2 m n k, for each of its groups."""

    literals = ("FLOP",)
    monotone = {"m": +1, "n": +1, "k": +1, "gemm_groups": +1}

    def __call__(self, m: M, n: N, k: K, gemm_groups: GemmGroups) -> GemmFlop:
        return 2.0 * m * n * k * gemm_groups


class CompulsoryTraffic(Factor):
    """Bytes that must cross the memory interface once: both operands in, the result out, for each group.

    traffic = gemm_groups * (m k activation_element_size + k n weight_element_size + m n output_element_size)
    """

    monotone = {"m": +1, "n": +1, "k": +1, "gemm_groups": +1, "weight_element_size": +1}

    def __call__(
        self,
        m: M,
        n: N,
        k: K,
        gemm_groups: GemmGroups,
        activation_element_size: ActivationElementSize,
        weight_element_size: WeightElementSize,
        output_element_size: OutputElementSize,
    ) -> Traffic:
        return gemm_groups * (
            m * k * activation_element_size + k * n * weight_element_size + m * n * output_element_size
        )


class WholeModelReuse(Factor):
    """In a serving engine a weight comes round again after all others: working_set = weight_bytes.

    A benchmark that cycles a few copies of one weight reuses sooner; give its working_set instead.
    """

    monotone = {"weight_bytes": +1}

    def __call__(self, weight_bytes: WeightBytes) -> WorkingSet:
        return weight_bytes


class OwnFootprint(Factor):
    """The report's reading of its L2 law: a kernel's working set is what it streams, working_set = traffic."""

    monotone = {"traffic": +1}

    def __call__(self, traffic: Traffic) -> WorkingSet:
        return traffic


class MainLoop(Factor):
    """Time in the main loops: the work at the rate that waves and tensor cores leave of the peak, at the SM clock.

    t_main_loop = gemm_flop / (peak_flops * sm_clock/boost_clock * eta_wave * eta_tc)
    """

    kinks = ("eta_wave", "eta_tc")
    monotone = {"sm_clock": -1, "peak_flops": -1, "eta_wave": -1, "eta_tc": -1, "gemm_flop": +1}

    def __call__(
        self,
        gemm_flop: GemmFlop,
        peak_flops: PeakFlops,
        sm_clock: SmClock,
        boost_clock: BoostClock,
        eta_wave: EtaWave,
        eta_tc: EtaTc,
    ) -> TMainLoop:
        return gemm_flop / (peak_flops * (sm_clock / boost_clock)) * _per(eta_wave) * _per(eta_tc)


class ClockedMainLoop(Factor):
    """Time in the main loops at the clock that is sustained: the report's order, clock first.

    t_main_loop = gemm_flop / (peak_flops * eta_clock * eta_wave * eta_tc)
    """

    kinks = ("eta_clock", "eta_wave", "eta_tc")
    monotone = {"eta_clock": -1, "peak_flops": -1, "eta_wave": -1, "eta_tc": -1, "gemm_flop": +1}

    def __call__(
        self, gemm_flop: GemmFlop, peak_flops: PeakFlops, eta_clock: EtaClock, eta_wave: EtaWave, eta_tc: EtaTc
    ) -> TMainLoop:
        return gemm_flop / peak_flops * _per(eta_clock) * _per(eta_wave) * _per(eta_tc)


class ComputeTime(Factor):
    """GEMM time were memory free: t_compute = t_main_loop / eta_barrier."""

    kinks = ("eta_barrier",)
    monotone = {"t_main_loop": +1, "eta_barrier": -1}

    def __call__(self, t_main_loop: TMainLoop, eta_barrier: EtaBarrier) -> TCompute:
        return t_main_loop * _per(eta_barrier)


class TilingTime(Factor):
    """GEMM time of each tiling with memory: t_tiling = t_compute / eta_mem."""

    kinks = ("eta_mem",)
    monotone = {"t_compute": +1, "eta_mem": -1}

    def __call__(self, t_compute: TCompute, eta_mem: EtaMem) -> TTiling:
        return t_compute * _per(eta_mem)


class FastestTiling(Factor):
    """The library takes the tiling that is fastest; this is its index in the table of tilings."""

    kinks = ("t_tiling",)

    def __call__(self, t_tiling: TTiling) -> Tiling:
        return jnp.argmin(t_tiling).astype(t_tiling.dtype)


class FastestTime(Factor):
    """Time of the fastest tiling. Where two tie, the derivative is that of the first."""

    monotone = {"t_tiling": +1}

    def __call__(self, t_tiling: TTiling) -> TUncapped:
        return t_tiling[jnp.argmin(t_tiling)]


class GemmTime(Factor):
    """GEMM time within the power cap: t_gemm = t_uncapped * (sm_clock/boost_clock) / eta_clock.

    With the factors written out: t_gemm = gemm_flop / (peak_flops eta_clock eta_wave eta_tc eta_barrier eta_mem).
    """

    kinks = ("eta_clock",)
    monotone = {"t_uncapped": +1, "eta_clock": -1}

    def __call__(self, t_uncapped: TUncapped, sm_clock: SmClock, boost_clock: BoostClock, eta_clock: EtaClock) -> TGemm:
        return t_uncapped * (sm_clock / boost_clock) * _per(eta_clock)


class ClockedGemmTime(Factor):
    """GEMM time where the clock was taken off first: t_gemm = t_uncapped, which then holds the clock already."""

    monotone = {"t_uncapped": +1}

    def __call__(self, t_uncapped: TUncapped) -> TGemm:
        return t_uncapped
