"""Tensor-core rate inside the main loop: how near the matrix units come to one product a clock."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import AsyncPipeline, EtaTc, FlopPerClock, TileM, TileN

_TABLES = "pooled fit to the vLLM bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs"


class IssueRate(Factor):
    """A fixed share of the clocks issues a product.

    eta_tc = rate

    Source: report section 3.2, which gives the factor but no law for it; the value is that of large tiles.
    """

    rate: Array = parameter(0.99, source="design section 3: eta_tc of large tiles", lower=0.5, upper=1.0)

    def __call__(self, flop_per_clock: FlopPerClock) -> EtaTc:
        return self.rate + 0.0 * flop_per_clock


class OperandFeed(Factor):
    """A small tile finishes its product before the next operands arrive, and the tensor core waits for them.

    A step of depth 1 takes ideally c = 2 tile_m tile_n / flop_per_clock clocks, and at least l = latency'/64 for its
    operands to come round:  eta_tc = c / hypot(c, l),  latency' = latency * overlap^-async_pipeline.

    | symbol | unit | meaning |
    |---|---|---|
    | latency | clock | operand round trip seen by a step |
    | overlap | 1 | how much of it asynchronous pipelines hide |

    Limits: eta_tc -> 1 for large tiles, -> c/l for small ones.
    """

    latency: Array = parameter(528.0, unit="clock", source=_TABLES, lower=1.0, upper=1e4)
    overlap: Array = parameter(3.56, source=_TABLES, lower=1.0, upper=20.0)

    literals = ("FLOP",)
    monotone = {"async_pipeline": +1}

    def __call__(
        self, flop_per_clock: FlopPerClock, tile_m: TileM, tile_n: TileN, async_pipeline: AsyncPipeline
    ) -> EtaTc:
        ideal = 2.0 * tile_m * tile_n / flop_per_clock
        wait = self.latency * self.overlap ** (-async_pipeline) / 64.0
        return 1.0 / jnp.sqrt(1.0 + (wait / ideal) ** 2)
