"""What explains a difference adds up to it, checked by enumerating all orders and on cases of one cause."""

import itertools
import math
from typing import Annotated

import numpy as np
import pytest
import xarray as xr
from jax import Array

import factorgraph as fg
from factorgraph.difference import explain_difference
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor
from factorgraph.graph import FactorGraph
from factorgraph.laws.total import OverlappedHost
from factorgraph.variables import TStep, Variable
from factorgraph.workload import load_model

Work = Annotated[Array, Variable("work", "1")]
Speed = Annotated[Array, Variable("speed", "1/s")]
Pause = Annotated[Array, Variable("pause", "s")]


class Simple(Factor):
    def __call__(self, work: Work, speed: Speed, pause: Pause) -> TStep:
        return work / speed + pause * work


@pytest.fixture(scope="module")
def graph():
    return fg.step_graph()


@pytest.fixture(scope="module")
def decode():
    return load_model("llama-3.1-8b").decode(batch=64, context=2048)


def test_contributions_are_the_mean_over_all_orders():
    first, second = {"work": 8.0, "speed": 2.0, "pause": 0.5}, {"work": 6.0, "speed": 4.0, "pause": 0.25}

    def time(case):
        return case["work"] / case["speed"] + case["pause"] * case["work"]

    mean = dict.fromkeys(first, 0.0)
    for order in itertools.permutations(first):
        case = dict(first)
        for name in order:
            before = time(case)
            case[name] = second[name]
            mean[name] += (time(case) - before) / math.factorial(3)
    why = explain_difference(FactorGraph([Simple()]), [first], [second])
    for name, seconds in mean.items():
        assert float(why.seconds.sel(cause=name)) == pytest.approx(seconds, rel=1e-6)
    assert float(why.ratio.prod()) == pytest.approx(time(second) / time(first), rel=1e-6)


def test_inputs_of_one_cause_move_together():
    first, second = {"work": 8.0, "speed": 2.0, "pause": 0.5}, {"work": 6.0, "speed": 4.0, "pause": 0.25}
    why = explain_difference(FactorGraph([Simple()]), [first], [second], causes={"machine": ["speed", "pause"]})
    assert set(why.cause.values) == {"machine", "work"}
    # From 8 at 1 s each to 6 at 0.5 s each: the mean of both orders.
    assert float(why.seconds.sel(cause="machine")) == pytest.approx(-0.5 * (8 + 6) / 2)


def test_a_single_cause_takes_the_whole_difference(graph, h100, decode):
    faster = {**h100, "dram_bandwidth": 4.8e12}
    why = explain_difference(graph, (h100, decode), (faster, decode))
    times = [float(graph.predict(card, decode, outputs=["t_step"]).t_step) for card in (h100, faster)]
    assert why.cause.values.tolist() == ["bandwidth"]
    assert float(why.seconds.squeeze()) == pytest.approx(times[1] - times[0], rel=1e-4)
    assert float(why.ratio.squeeze()) == pytest.approx(times[1] / times[0], rel=1e-5)


@pytest.mark.parametrize(("variant", "by"), [("per-kernel", "input"), ("per-kernel", "factor"), ("base", "factor")])
def test_contributions_add_up_to_the_difference(by, variant, h100, decode):
    graph = fg.step_graph(variant)
    other = {**h100, "dram_bandwidth": 2e12, "sm_count": 108.0, "sm_clock": 1.41e9, "boost_clock": 1.41e9}
    step = load_model("llama-3.1-8b").decode(batch=16, context=1024)
    why = explain_difference(graph, (h100, decode), (other, step, {"power_cap": 400.0}), by=by)
    assert float(why.seconds.sum()) == pytest.approx(float(why.after - why.before), abs=1e-4 * float(why.before))
    assert float(why.log_ratio.sum()) == pytest.approx(math.log(float(why.after / why.before)), abs=1e-4)
    before = graph.predict(h100, decode, outputs=["t_step"])
    assert float(why.before) == pytest.approx(float(before.t_step), rel=1e-6)
    np.testing.assert_array_equal(np.argsort(-abs(why.log_ratio.values)), np.arange(why.sizes["cause"]))


def test_overlap_of_host_and_gpu_is_a_cause_of_its_own(graph, h100, decode):
    overlapped = graph.replace(t_step=OverlappedHost())
    step = load_model("llama-3.1-8b").decode(batch=1, context=128)
    why = explain_difference(overlapped, (h100, decode), (h100, step, {"t_host": 0.004}), by="factor")
    assert "overlap" in why.cause.values
    assert float(why.seconds.sum()) == pytest.approx(float(why.after - why.before), rel=1e-4)


@pytest.mark.parametrize("by", ["input", "factor"])
def test_other_kernels_are_refused(by, graph, h100, decode):
    moe = load_model("mixtral-8x7b").decode(batch=64, context=2048)
    with pytest.raises(FactorGraphError, match="same kernels"):
        explain_difference(graph, (h100, decode), (h100, moe), by=by)


def test_what_cannot_be_explained_says_why(graph, h100, decode):
    with pytest.raises(FactorGraphError, match="no difference"):
        explain_difference(graph, (h100, decode), (h100, decode))
    caps = xr.DataArray([300.0, 400.0], dims="power_cap")
    with pytest.raises(FactorGraphError, match="spans power_cap"):
        explain_difference(graph, (h100, decode), (h100, decode, {"power_cap": caps}))
    with pytest.raises(FactorGraphError, match="tuple of sources"):
        explain_difference(graph, h100, h100)
    with pytest.raises(UnknownNameError):
        explain_difference(graph, (h100, decode), (h100, decode), by="inputs")
    with pytest.raises(FactorGraphError, match="'t_host'"):
        explain_difference(graph, (h100, decode), (h100, decode, {"t_host": 0.004}))


def test_too_many_causes_must_be_grouped(h100, small_step, graph):
    slower = {
        name: 0.9 * np.asarray(value) for name, value in h100.items() if name not in ("l2_partitions", "link_is_pcie")
    }
    smaller = {"sequences": 32.0, "weight_bytes": 8e9, "m": [32.0, 32.0]}
    with pytest.raises(FactorGraphError, match="at most 14"):
        explain_difference(graph, (h100, small_step), (h100 | slower, small_step | smaller), causes={})
