"""Time that tiles spend waiting: for the launch, the first operands, the epilogue, and other slices of a split."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import (
    AsyncPipeline,
    EtaBarrier,
    GemmGroups,
    L2Partitions,
    LaunchClass,
    M,
    N,
    SmClock,
    SmCount,
    SplitK,
    TensorMemory,
    TileM,
    TileN,
    TLaunch,
    TMainLoop,
    TReduce,
    Waves,
)

_TABLES = "pooled fit to the vLLM bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs"


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


class SplitReduction(Factor):
    """A depth cut into s slices waits for its slices to meet, and their partial results go through L2 once and back.

    t_reduce = 0 for s = 1, else t_meet * across^(l2_partitions - 1)
                                 + 4 m n gemm_groups (s + 1) / (l2_width * sm_count * sm_clock)

    | symbol | unit | meaning |
    |---|---|---|
    | t_meet | s | launching the reduction and waiting for the last slice |
    | across | 1 | how much longer that takes across the two halves of a divided L2 |
    | l2_width | B | bytes an SM moves through L2 a clock |
    """

    t_meet: Array = parameter(2.13e-6, unit="s", source=_TABLES, lower=1e-7, upper=1e-4)
    across: Array = parameter(1.25, source=_TABLES, lower=0.5, upper=3.0)
    l2_width: Array = parameter(15.6, unit="B", source=_TABLES, lower=0.5, upper=128.0)

    kinks = ("split_k",)
    literals = ("B",)
    monotone = {"m": +1, "n": +1, "sm_clock": -1, "sm_count": -1}

    def __call__(
        self,
        m: M,
        n: N,
        gemm_groups: GemmGroups,
        split_k: SplitK,
        sm_count: SmCount,
        sm_clock: SmClock,
        l2_partitions: L2Partitions,
    ) -> TReduce:
        meet = self.t_meet * self.across ** (l2_partitions - 1.0)
        partial = 4.0 * m * n * gemm_groups * (split_k + 1.0) / (self.l2_width * sm_count * sm_clock)
        return jnp.where(split_k > 1.0, meet + partial, 0.0)


class Epilogue(Factor):
    """Each wave empties its accumulators, each launch costs a launch, each split a reduction.

    wait = t_launch + t_reduce + waves * epilogue' * 4 tile_m tile_n / 64 / sm_clock;
    eta_barrier = t_main_loop / (t_main_loop + wait);
    epilogue' = epilogue * overlap^-async_pipeline * offload^-(1 where accumulators live in tensor memory)

    | symbol | unit | meaning |
    |---|---|---|
    | epilogue | clock | to write 64 B of a tile's FP32 accumulator, and to fill the pipeline for the next tile |
    | overlap | 1 | how much of it asynchronous copies hide |
    | offload | 1 | how much more hides where the next tile computes while tensor memory is read out |

    Limits: eta_barrier -> 1 for deep products, -> t_main_loop/t_launch for tiny ones.
    """

    epilogue: Array = parameter(3.95, unit="clock", source=_TABLES, lower=0.1, upper=30.0)
    overlap: Array = parameter(2.38, source=_TABLES, lower=1.0, upper=50.0)
    offload: Array = parameter(1.9, source=_TABLES, lower=1.0, upper=50.0)

    kinks = ("tensor_memory_per_sm",)
    monotone = {"t_main_loop": +1, "t_launch": -1, "t_reduce": -1, "sm_clock": +1}

    def __call__(
        self,
        t_main_loop: TMainLoop,
        waves: Waves,
        tile_m: TileM,
        tile_n: TileN,
        sm_clock: SmClock,
        async_pipeline: AsyncPipeline,
        tensor_memory_per_sm: TensorMemory,
        t_launch: TLaunch,
        t_reduce: TReduce,
    ) -> EtaBarrier:
        in_tensor_memory = jnp.where(tensor_memory_per_sm > 0.0, 1.0, 0.0)
        hidden = self.overlap**async_pipeline * self.offload**in_tensor_memory
        drain = self.epilogue / hidden * 4.0 * tile_m * tile_n / 64.0
        return t_main_loop / (t_main_loop + t_launch + t_reduce + waves * drain / sm_clock)
