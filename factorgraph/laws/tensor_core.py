"""Tensor-core rate inside the main loop: how near the matrix units come to one product a clock."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import (
    ActivationElementSize,
    AsyncPipeline,
    EtaTc,
    FlopPerClock,
    K,
    OperandLatency,
    Slices,
    TileM,
    TileN,
)

_TABLES = "pooled fit to the vLLM bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs"
# Depth of a step of the main loop: a cache line of each operand.
_STEP_BYTES = 128.0


class IssueRate(Factor):
    """A fixed share of the clocks issues a product.

    eta_tc = rate

    Source: report section 3.2, which gives the factor but no law for it; the value is that of large tiles.
    """

    rate: Array = parameter(0.99, source="design section 3: eta_tc of large tiles", lower=0.5, upper=1.0)

    def __call__(self, flop_per_clock: FlopPerClock) -> EtaTc:
        return self.rate + 0.0 * flop_per_clock


class PipelinedLatency(Factor):
    """Clocks until the operands of the next step of a main loop are there: latency * overlap^-async_pipeline.

    | symbol | unit | meaning |
    |---|---|---|
    | latency | clock | round trip of a step's operands, seen by a kernel that waits for them |
    | overlap | 1 | how many times less is seen where asynchronous copies run ahead |
    """

    latency: Array = parameter(473.8, unit="clock", source=_TABLES, lower=1.0, upper=1e4)
    overlap: Array = parameter(3.135, source=_TABLES, lower=1.0, upper=20.0)

    monotone = {"async_pipeline": -1}

    def __call__(self, async_pipeline: AsyncPipeline) -> OperandLatency:
        return self.latency * self.overlap ** (-async_pipeline)


class OperandFeed(Factor):
    """A small tile finishes its product before the next operands arrive, and the tensor core waits for them.

    An element of depth takes ideally c = 2 tile_m tile_n / flop_per_clock clocks, and at least
    l = operand_latency * activation_element_size / 128 B, since operands come round in steps 128 B deep;
    eta_tc = c / hypot(c, l) * (share of the steps' depth that a slice of the product fills)

    Limits: eta_tc -> 1 for large tiles, -> c/l for small ones; proportional to k below one step.
    """

    kinks = ("k", "slices", "activation_element_size")
    literals = ("FLOP", "B")
    monotone = {"operand_latency": -1, "k": +1, "slices": -1}

    fitted_in = {"k": (32, 65536)}

    def __call__(
        self,
        flop_per_clock: FlopPerClock,
        k: K,
        activation_element_size: ActivationElementSize,
        tile_m: TileM,
        tile_n: TileN,
        slices: Slices,
        operand_latency: OperandLatency,
    ) -> EtaTc:
        ideal = 2.0 * tile_m * tile_n / flop_per_clock
        wait = operand_latency * activation_element_size / _STEP_BYTES
        filled = jnp.minimum(k / slices * activation_element_size / _STEP_BYTES, 1.0)
        return filled / jnp.sqrt(1.0 + (wait / ideal) ** 2)
