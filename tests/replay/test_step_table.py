"""The table of step times against the graph that it was made from."""

import numpy as np
import pytest

import factorgraph as fg
from factorgraph.errors import FactorGraphError
from factorgraph.replay import replay, replay_on_card
from factorgraph.replay.policy import Policy
from factorgraph.replay.step_table import Grid, equivalent_prompts, tabulate
from factorgraph.replay.traces import make_requests

POLICY = Policy(step_tokens=2048, max_sequences=160)
LONGEST = 8192
BOUND = 0.01


@pytest.fixture(scope="module")
def h100():
    return fg.load_sku("h100-sxm")


@pytest.fixture(scope="module", params=["llama-3.1-8b", "gpt-oss-20b"])
def case(request, h100):
    """A dense model, and one with experts and sliding windows."""
    graph, model = fg.step_graph(), fg.load_model(request.param)
    return graph, model, tabulate(graph, h100, model, POLICY, max_context=LONGEST)


def log_uniform(rng, largest, size):
    return np.floor(np.exp(rng.uniform(0, np.log(largest + 1), size))).clip(1, largest)


def test_decode_steps_are_what_the_graph_says(case, h100):
    graph, model, table = case
    rng = np.random.default_rng(0)
    batch, context = log_uniform(rng, POLICY.max_sequences, 24), log_uniform(rng, LONGEST, 24)
    steps = [model.decode(batch=b, context=c) for b, c in zip(batch, context, strict=True)]
    direct = graph.predict(h100, steps, outputs=("t_step",)).t_step
    looked_up = [table(b, b * c, 0, 0) for b, c in zip(batch, context, strict=True)]
    np.testing.assert_allclose(looked_up, direct, rtol=BOUND)


def test_chunks_are_what_the_graph_says(case, h100):
    graph, model, table = case
    rng = np.random.default_rng(1)
    chunk = np.unique(log_uniform(rng, POLICY.step_tokens, 32))
    prefix = np.floor(rng.uniform(0, LONGEST - chunk)) * rng.integers(0, 2, chunk.size)
    steps = [model.prefill(prompt=c, prefix=p) for c, p in zip(chunk, prefix, strict=True)]
    direct = graph.predict(h100, steps, outputs=("t_step",)).t_step
    looked_up = [table(0, 0, c, c * p + c * (c + 1) / 2) for c, p in zip(chunk, prefix, strict=True)]
    np.testing.assert_allclose(looked_up, direct, rtol=BOUND)


def test_several_prompts_of_one_length_are_what_the_graph_says(case, h100):
    graph, model, table = case
    steps = [model.prefill(batch=b, prompt=p) for b, p in ((2, 1000), (7, 100), (64, 32))]
    direct = graph.predict(h100, steps, outputs=("t_step",)).t_step
    looked_up = [table(0, 0, b * p, b * p * (p + 1) / 2) for b, p in ((2, 1000), (7, 100), (64, 32))]
    np.testing.assert_allclose(looked_up, direct, rtol=BOUND)


def test_mixed_steps_are_what_the_graph_says(case, h100):
    graph, model, table = case
    rng = np.random.default_rng(2)
    batch, context = log_uniform(rng, POLICY.max_sequences, 32), log_uniform(rng, LONGEST, 32)
    chunk = log_uniform(rng, POLICY.step_tokens - 160, 32)
    prefix = np.floor(rng.uniform(0, LONGEST - chunk)) * rng.integers(0, 2, 32)
    points = list(zip(batch, context, chunk, prefix, strict=True))
    steps = [model.mixed(decode_batch=b, context=c, chunk=n, prefix=p) for b, c, n, p in points]
    direct = graph.predict(h100, steps, outputs=("t_step",)).t_step
    looked_up = [table(b, b * c, n, n * p + n * (n + 1) / 2) for b, c, n, p in points]
    np.testing.assert_allclose(looked_up, direct, rtol=BOUND)


def test_a_replay_of_one_request_is_its_steps_one_after_the_other(case, h100):
    graph, model, table = case
    served = replay(make_requests([0.0], 700, 21), table)
    prefill = graph.predict(h100, model.prefill(prompt=700), outputs=("t_step",)).t_step
    np.testing.assert_allclose(served.ttft, prefill, rtol=BOUND)
    steps = [model.decode(batch=1, context=700 + token) for token in range(1, 21)]
    np.testing.assert_allclose(served.tpot, graph.predict(h100, steps, outputs=("t_step",)).t_step.mean(), rtol=BOUND)


def test_a_card_serves_requests_in_one_call(h100):
    graph, model = fg.step_graph("base"), fg.load_model("llama-3.1-8b")
    small, settings = Policy(step_tokens=64, max_sequences=2), {"tp": 2, "weights": "fp8", "kv": "fp8"}
    served = replay_on_card(graph, h100, model, make_requests([0.0], 60, 4), small, **settings, dram_bandwidth=1e12)
    steps = [model.decode(batch=1, context=60 + token, **settings) for token in (1, 2, 3)]
    direct = graph.predict(h100, steps, outputs=("t_step",), dram_bandwidth=1e12).t_step
    np.testing.assert_allclose(served.tpot, direct.mean(), rtol=BOUND)
    with pytest.raises(FactorGraphError, match="has 131072 positions"):
        replay_on_card(graph, h100, model, make_requests([0.0], 131_000, 100), small)


def test_a_grid_is_exact_where_a_function_is_linear_in_each_axis():
    axes = {"x": np.array([1.0, 2.0, 5.0]), "y": np.array([1.0, 4.0])}
    grid = Grid(axes, 3.0 + 2.0 * axes["x"][:, None] * axes["y"])
    for x, y in ((1.0, 1.0), (1.5, 3.0), (5.0, 4.0), (4.0, 1.25)):
        assert grid(x, y) == pytest.approx(3.0 + 2.0 * x * y)


def test_outside_its_grid_a_table_says_so():
    grid = Grid({"mean context": np.array([1.0, 64.0])}, np.array([1.0, 2.0]))
    with pytest.raises(FactorGraphError, match="mean context 65, and its table reaches from 1 to 64"):
        grid(65.0)


def test_equivalent_prompts_have_the_same_tokens_and_pairs():
    tokens, keys = np.meshgrid([1.0, 7.0, 512.0], [1.0, 3.5, 200.0, 4000.0])
    prompts, prompt, prefix = equivalent_prompts(tokens, keys)
    np.testing.assert_allclose(prompts * prompt, tokens)
    np.testing.assert_allclose(prompts * (prompt * prefix + prompt * (prompt + 1) / 2), tokens * keys)


def test_a_table_is_for_one_setting(h100):
    graph, model = fg.step_graph(), fg.load_model("llama-3.1-8b")
    with pytest.raises(FactorGraphError, match="one card and setting; 'power_cap' has several"):
        tabulate(graph, h100, model, POLICY, power_cap=[400.0, 700.0])
    with pytest.raises(FactorGraphError, match="has 131072 positions"):
        tabulate(graph, h100, model, POLICY, max_context=200_000)
