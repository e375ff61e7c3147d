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
    Slices,
    SmClock,
    SplitK,
    TCapped,
    TCompute,
    TGemm,
    Tiling,
    TMainLoop,
    Traffic,
    TTiling,
    WeightBytes,
    WeightElementSize,
    WorkingSet,
)

# No kernel is this inefficient, in one factor or in several. Dividing by the floored factor, and not by the quotient
# that a law computed it as, also keeps the compiler from merging a chain of quotients into products of FLOP/s and bytes
# that overflow float32.
_LEAST = 1e-12


def _per(eta: Array) -> Array:
    return 1.0 / jnp.maximum(eta, _LEAST)


def free_clock(sm_clock: Array, boost_clock: Array) -> Array:
    """The SM clock over the one behind the printed peak; a faster clock counts as that one.

    Not `minimum`, which would halve the derivative where the two are equal, as they are on a free-running GPU.
    """
    return jnp.where(sm_clock > boost_clock, 1.0, sm_clock / boost_clock)


class GemmWork(Factor):
    """Floating-point operations of a product: gemm_flop = 2 m n k, for each of its groups."""

    literals = ("FLOP",)
    monotone = {"m": +1, "n": +1, "k": +1, "gemm_groups": +1}

    def __call__(self, m: M, n: N, k: K, gemm_groups: GemmGroups) -> GemmFlop:
        return 2.0 * m * n * k * gemm_groups


class SplitDepth(Factor):
    """Slices that the depth of a product is cut into: as the tiling says, but for types narrower than 16 bits none.

    Source: the FP8 GEMM tables of aiconfigurator-core 0.12.0, which libraries' split kernels would beat.
    """

    kinks = ("activation_element_size", "split_k")
    literals = ("B",)

    def __call__(self, split_k: SplitK, activation_element_size: ActivationElementSize) -> Slices:
        return jnp.where(activation_element_size < 1.5, 1.0, split_k)


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

    t_main_loop = gemm_flop / (peak_flops * min(sm_clock/boost_clock, 1) * eta_wave * eta_tc)
    """

    kinks = ("eta_wave", "eta_tc", "sm_clock", "boost_clock")
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
        return gemm_flop / (peak_flops * free_clock(sm_clock, boost_clock)) * _per(eta_wave * eta_tc)


class ClockedMainLoop(Factor):
    """Time in the main loops at the clock that is sustained: the report's order, clock first.

    t_main_loop = gemm_flop / (peak_flops * eta_clock * eta_wave * eta_tc)
    """

    kinks = ("eta_clock", "eta_wave", "eta_tc")
    monotone = {"eta_clock": -1, "peak_flops": -1, "eta_wave": -1, "eta_tc": -1, "gemm_flop": +1}

    def __call__(
        self, gemm_flop: GemmFlop, peak_flops: PeakFlops, eta_clock: EtaClock, eta_wave: EtaWave, eta_tc: EtaTc
    ) -> TMainLoop:
        return gemm_flop / peak_flops * _per(eta_clock * eta_wave * eta_tc)


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


class ClockedTiling(Factor):
    """Where the clock was taken off first, the time of a tiling holds the power cap already: t_capped = t_tiling."""

    monotone = {"t_tiling": +1}

    def __call__(self, t_tiling: TTiling) -> TCapped:
        return t_tiling


class FastestTiling(Factor):
    """The library takes the tiling that is fastest; this is its index in the table of tilings."""

    kinks = ("t_capped",)

    def __call__(self, t_capped: TCapped) -> Tiling:
        return jnp.argmin(t_capped).astype(t_capped.dtype)


class GemmTime(Factor):
    """Time of the fastest tiling: t_gemm = min over tilings of t_capped. Where two tie, the derivative is the first's.

    With the factors written out: t_gemm = gemm_flop / (peak_flops eta_clock eta_wave eta_tc eta_barrier eta_mem).
    """

    monotone = {"t_capped": +1}

    def __call__(self, t_capped: TCapped) -> TGemm:
        return t_capped[jnp.argmin(t_capped)]
