"""The step graphs that come with the package, and others composed of its laws, keep their invariants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factorgraph import load_sku, step_graph
from factorgraph.step import VARIANTS
from factorgraph.testing import INVARIANTS, check_graph, graphs, workloads


@pytest.mark.parametrize("invariant", INVARIANTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_graph_keeps_its_invariants(variant, invariant):
    check_graph(step_graph(variant), invariants=[invariant], examples=10)


@pytest.mark.nightly
@pytest.mark.parametrize("invariant", INVARIANTS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_a_step_graph_keeps_its_invariants_at_length(variant, invariant, model):
    check_graph(step_graph(variant), invariants=[invariant], model=model, examples=100, seed=1)


@settings(max_examples=8)
@given(graphs(), workloads(models=st.just("llama-3.1-8b"), phases=st.just("decode")))
def test_any_valid_composition_gives_finite_positive_times(graph, step):
    """However the laws are composed, every time is finite, and every efficiency lies in (0, 1]."""
    supplied = load_sku("h100-sxm").values() | step.values()
    given_values = {name: np.asarray(value, np.float32) for name, value in supplied.items() if name in graph.variables}
    known = graph.evaluate(given_values)
    for output in graph.outputs:
        value = np.asarray(known[output.name])
        assert np.isfinite(value).all(), output.name
        if output.name.startswith("eta_"):
            assert ((value > 0.0) & (value <= 1.0)).all(), output.name
