"""Time that tiles spend waiting: for the launch, the first operands, the epilogue, and other slices of a split."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import (
    AsyncPipeline,
    EtaBarrier,
    FlopPerClock,
    K,
    SmClock,
    SplitK,
    TileM,
    TileN,
    TMainLoop,
    Waves,
)

_TABLES = "bf16 GEMM tables of aiconfigurator-core 0.12.0; design reference fit over nine GPUs"


class BarrierDuty(Factor):
    """The report's factor: a fixed share of the main loop is work, the rest waits at barriers.

    eta_barrier = duty

    Source: report E1.5: on H100 a gate_up product at T = 4096 reaches 0.46 of peak after a clock factor of 0.70; whole
    waves (0.97) and issue rate (0.99) leave 0.68 for the barrier. Its E1.15 gives 0.425 for L40S (n = 32, CV 1.8 %).
    """

    duty: Array = parameter(0.68, source="report E1.5, H100 SXM", lower=0.05, upper=1.0)

    def __call__(self, t_main_loop: TMainLoop) -> EtaBarrier:
        return self.duty + 0.0 * t_main_loop


class PipelineFill(Factor):
    """Each wave fills a pipeline and empties an accumulator, each launch costs a launch, each split a reduction.

    wait = waves * (latency' + epilogue * 4 tile_m tile_n / 64) / sm_clock + t_launch * (1 if unsplit, else 2);
    eta_barrier = t_main_loop / (t_main_loop + wait),  latency' = latency * overlap^-async_pipeline

    | symbol | unit | meaning |
    |---|---|---|
    | t_launch | s | launch of a kernel from a graph |
    | latency | clock | first operands' way from memory |
    | overlap | 1 | how much of it asynchronous pipelines hide |
    | epilogue | 1 | clocks to write 64 B of a tile's accumulator |
    | min_depth | 1 | least depth a slice is computed at |

    Limits: eta_barrier -> 1 for deep products, -> t_main_loop/t_launch for tiny ones.
    """

    t_launch: Array = parameter(2.0e-6, unit="s", source=_TABLES, lower=1e-7, upper=1e-4)
    latency: Array = parameter(500.0, unit="clock", source=_TABLES, lower=1.0, upper=1e4)
    overlap: Array = parameter(3.2, source=_TABLES, lower=1.0, upper=20.0)
    epilogue: Array = parameter(3.1, source=_TABLES, lower=0.0, upper=30.0)
    min_depth: Array = parameter(64.0, source=_TABLES, lower=1.0, upper=1024.0)

    monotone = {"sm_clock": +1}

    def __call__(
        self,
        t_main_loop: TMainLoop,
        waves: Waves,
        k: K,
        tile_m: TileM,
        tile_n: TileN,
        split_k: SplitK,
        flop_per_clock: FlopPerClock,
        sm_clock: SmClock,
        async_pipeline: AsyncPipeline,
    ) -> EtaBarrier:
        fill = self.latency * self.overlap ** (-async_pipeline)
        shallow = jnp.maximum(self.min_depth - k / split_k, 0.0) * 2.0 * tile_m * tile_n / flop_per_clock
        drain = self.epilogue * 4.0 * tile_m * tile_n / 64.0
        launches = jnp.where(split_k > 1.0, 2.0, 1.0)
        wait = waves * (fill + shallow + drain) / sm_clock + self.t_launch * launches
        return t_main_loop / (t_main_loop + wait)
