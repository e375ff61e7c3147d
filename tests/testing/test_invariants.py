"""Graphs that break an invariant are caught by the one that names it."""

import jax.numpy as jnp
import pytest

from factorgraph import Factor, FactorGraph, FactorGraphError, UnknownNameError, step_graph
from factorgraph.laws.host import HostResidual
from factorgraph.testing import GraphError, check_graph
from factorgraph.variables import (
    AttnBatch,
    DramBandwidth,
    GemmCount,
    KvLen,
    LightBytes,
    PowerCap,
    Sequences,
    SmClock,
    TCapped,
    TGemm,
    TGemmTotal,
    THost,
    TLight,
)


class WaitsForTheClock(Factor):
    def __call__(self, sm_clock: SmClock) -> THost:
        return sm_clock / 1e9


class WaitsForThePowerSupply(Factor):
    def __call__(self, power_cap: PowerCap) -> THost:
        return 1e-3 * power_cap / 100.0


class StreamsBackwards(Factor):
    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return 1e-3 * dram_bandwidth / 1e12 + 0.0 * light_bytes


class HurriesWhenBusy(Factor):
    def __call__(self, sequences: Sequences) -> THost:
        return 1.0 / sequences


class ForgetsLongContexts(Factor):
    def __call__(self, kv_len: KvLen, attn_batch: AttnBatch) -> THost:
        return jnp.sum(1e3 / kv_len) + 0.0 * jnp.sum(attn_batch)


class MeanOfLayers(Factor):
    """Divides by the launches twice, so that a deeper model is faster."""

    def __call__(self, t_gemm: TGemm, gemm_count: GemmCount) -> TGemmTotal:
        return 1e6 * jnp.sum(t_gemm * gemm_count) / jnp.sum(gemm_count) ** 2


class SquaredTotal(Factor):
    """Twice the work takes four times as long, so that two halves are faster than the whole."""

    def __call__(self, t_gemm: TGemm, gemm_count: GemmCount) -> TGemmTotal:
        return jnp.sum(t_gemm * gemm_count) ** 2


class SlowerThanItsFactors(Factor):
    def __call__(self, t_capped: TCapped) -> TGemm:
        return 1.1 * jnp.min(t_capped)


@pytest.mark.parametrize(
    ("laws", "invariant"),
    [
        ({"t_host": WaitsForTheClock()}, "falls with clock"),
        ({"t_host": WaitsForThePowerSupply()}, "falls with power cap"),
        ({"t_light": StreamsBackwards()}, "falls with bandwidth"),
        ({"t_host": HurriesWhenBusy()}, "rises with batch"),
        ({"t_host": ForgetsLongContexts()}, "rises with context"),
        ({"t_gemm_total": MeanOfLayers()}, "rises with layers"),
        ({"t_gemm": SlowerThanItsFactors()}, "waterfall multiplies out"),
        ({"t_gemm_total": SquaredTotal()}, "splitting never pays"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_wrong_graph_is_caught_by_the_invariant_that_names_it(laws, invariant):
    with pytest.raises(GraphError, match=f"^the graph fails '{invariant}': ") as caught:
        check_graph(step_graph().replace(**laws), invariants=[invariant], examples=3)
    assert "smallest example: llama-3.1-8b batch = " in str(caught.value)


def test_an_unknown_invariant_is_named():
    with pytest.raises(
        UnknownNameError, match="unknown invariant 'falls with clocks'; did you mean 'falls with clock'"
    ):
        check_graph(step_graph(), invariants=["falls with clocks"])


def test_a_graph_without_a_step_is_refused():
    with pytest.raises(FactorGraphError, match="needs a graph that gives 't_step'"):
        check_graph(FactorGraph([HostResidual()]))
