"""Time that tiles spend waiting: for the launch, the first operands, the epilogue, and other slices of a split."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import falling_step, rising_step, smooth_max
from factorgraph.variables import (
    AsyncPipeline,
    DramBandwidth,
    EccFactor,
    EtaBarrier,
    GemmGroups,
    K,
    L2Bandwidth,
    L2Capacity,
    L2Partitions,
    LaunchClass,
    M,
    N,
    QuantiseLibrary,
    Quantises,
    ReachedBandwidth,
    Slices,
    SmClock,
    SmCount,
    TensorMemory,
    TileM,
    TileN,
    TLaunch,
    TMainLoop,
    TPrologue,
    TReduce,
    Waves,
)

_TABLES = "pooled fit to the vLLM bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs"
_FP8 = "pooled fit to the vLLM fp8 GEMM tables of aiconfigurator-core 0.12.0, eight GPUs"


class BarrierDuty(Factor):
    """The report's factor: a fixed share of the main loop is work, the rest waits at barriers.

    eta_barrier = duty

    Source: report E1.5: on H100 a gate_up product at T = 4096 reaches 0.46 of peak after a clock factor of 0.70; whole
    waves (0.97) and issue rate (0.99) leave 0.68 for the barrier. Its E1.15 gives 0.425 for L40S (n = 32, CV 1.8 %).
    """

    duty: Array = parameter(0.68, source="report E1.5, H100 SXM", lower=0.05, upper=1.0)

    def __call__(self, t_main_loop: TMainLoop) -> EtaBarrier:
        return self.duty + 0.0 * t_main_loop


class LaunchCost(Factor):
    """Time to launch a kernel that is ready in a CUDA graph: t_launch = t0 * launch_class."""

    t0: Array = parameter(1.97e-6, unit="s", source=_TABLES, lower=1e-7, upper=1e-4)

    monotone = {"launch_class": +1}

    def __call__(self, launch_class: LaunchClass) -> TLaunch:
        return self.t0 * launch_class


class Prologue(Factor):
    """What comes before the product: its launch and, for narrow types, a kernel that quantises the activation.

    t_rows  = m (row + element k)/(sm_count sm_clock)
    t_bytes = m k passes/bandwidth
    t_prologue = t_launch + quantises * [t_quantise + hypot(t_rows, t_bytes)]

    The bandwidth is that of L2 as far as the activation fits there, 1/(1 + (3 m k l2_partitions/l2_capacity)^4), else
    the DRAM's. In a serving step the quantisation is fused into the kernel before, or stands in the table as a light
    kernel of its own; benchmarks of one product count it in. Constants are those of the kernels of vLLM, SGLang
    and TensorRT-LLM.

    | symbol | unit | meaning |
    |---|---|---|
    | t_quantise | s | launching it, and its dependence on the product |
    | row, element | clock | an SM's clocks for a row's scale, and for an element |
    | passes | B | bytes moved for an element: read for the scale, read again, written |
    """

    t_quantise: Array = parameter((3.2e-6, 3.4e-6, 10.9e-6), unit="s", source=_FP8, lower=1e-7, upper=1e-4)
    row: Array = parameter((1660.0, 156.0, 46.9), unit="clock", source=_FP8, lower=1.0, upper=1e5)
    element: Array = parameter((0.455, 0.14, 0.336), unit="clock", source=_FP8, lower=1e-3, upper=10.0)
    passes: Array = parameter((4.1, 7.1, 5.3), unit="B", source=_FP8, lower=1.0, upper=20.0)

    kinks = ("l2_bandwidth", "dram_bandwidth", "ecc_factor", "quantise_library")
    literals = ("B",)
    monotone = {"m": +1, "k": +1, "sm_clock": -1, "sm_count": -1, "dram_bandwidth": -1, "quantises": +1, "t_launch": +1}

    def __call__(
        self,
        t_launch: TLaunch,
        quantises: Quantises,
        quantise_library: QuantiseLibrary,
        m: M,
        k: K,
        sm_count: SmCount,
        sm_clock: SmClock,
        l2_bandwidth: L2Bandwidth,
        l2_capacity: L2Capacity,
        l2_partitions: L2Partitions,
        dram_bandwidth: DramBandwidth,
        ecc_factor: EccFactor,
    ) -> TPrologue:
        dram = ecc_factor * dram_bandwidth
        filled = 3.0 * m * k * l2_partitions / l2_capacity
        missed, hit = rising_step(filled, 4.0), falling_step(filled, 4.0)
        library = jnp.clip(jnp.asarray(quantise_library), 0.0, 2.0).astype(jnp.int32)
        t_bytes = self.passes[library] * m * k * (missed / dram + hit / jnp.maximum(l2_bandwidth, dram))
        t_rows = m * (self.row[library] + self.element[library] * k) / (sm_count * sm_clock)
        return t_launch + quantises * (self.t_quantise[library] + smooth_max(t_rows, t_bytes, 2.0))


class SplitReduction(Factor):
    """A depth cut into s slices waits for its slices to meet, and their partial results go through L2 once and back.

    t_reduce = 0 for s = 1, else t_meet + 4 B * m n gemm_groups (s + 1) / max(l2_bandwidth, reached_bandwidth)

    | symbol | unit | meaning |
    |---|---|---|
    | t_meet | s | launching the reduction and waiting for the last slice |
    """

    t_meet: Array = parameter(2.484e-6, unit="s", source=_TABLES, lower=1e-7, upper=1e-4)

    kinks = ("slices", "l2_bandwidth", "reached_bandwidth")
    literals = ("B",)
    monotone = {"m": +1, "n": +1, "l2_bandwidth": -1, "reached_bandwidth": -1}

    def __call__(
        self,
        m: M,
        n: N,
        gemm_groups: GemmGroups,
        slices: Slices,
        l2_bandwidth: L2Bandwidth,
        reached_bandwidth: ReachedBandwidth,
    ) -> TReduce:
        partial = 4.0 * m * n * gemm_groups * (slices + 1.0)
        return jnp.where(slices > 1.0, self.t_meet + partial / jnp.maximum(l2_bandwidth, reached_bandwidth), 0.0)


class Epilogue(Factor):
    """Each wave empties its accumulators, each launch costs a launch, each split a reduction.

    wait = t_prologue + t_reduce + waves * epilogue' * tile_m tile_n / 16 / sm_clock;
    eta_barrier = t_main_loop / (t_main_loop + wait);
    epilogue' = epilogue / (offload where accumulators live in tensor memory, else overlap^async_pipeline)

    | symbol | unit | meaning |
    |---|---|---|
    | epilogue | clock | to write 16 results of a tile, and to fill the pipeline for the next tile |
    | overlap | 1 | how many times less is seen where asynchronous copies store them |
    | offload | 1 | the same where the next tile computes while tensor memory is read out |

    Limits: eta_barrier -> 1 for deep products, -> t_main_loop/t_prologue for tiny ones.
    """

    epilogue: Array = parameter(3.498, unit="clock", source=_TABLES, lower=0.1, upper=30.0)
    overlap: Array = parameter(1.915, source=_TABLES, lower=1.0, upper=50.0)
    offload: Array = parameter(3.702, source=_TABLES, lower=1.0, upper=50.0)

    kinks = ("tensor_memory_per_sm",)
    monotone = {"t_main_loop": +1, "t_prologue": -1, "t_reduce": -1, "sm_clock": +1}

    def __call__(
        self,
        t_main_loop: TMainLoop,
        waves: Waves,
        tile_m: TileM,
        tile_n: TileN,
        sm_clock: SmClock,
        async_pipeline: AsyncPipeline,
        tensor_memory_per_sm: TensorMemory,
        t_prologue: TPrologue,
        t_reduce: TReduce,
    ) -> EtaBarrier:
        hidden = jnp.where(tensor_memory_per_sm > 0.0, self.offload, self.overlap**async_pipeline)
        drain = self.epilogue / hidden * tile_m * tile_n / 16.0
        return t_main_loop / (t_main_loop + t_prologue + t_reduce + waves * drain / sm_clock)
