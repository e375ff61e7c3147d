"""The step graphs as a whole: structure, physics, speed of change."""

import numpy as np
import pytest

from factorgraph import UnknownNameError, step_graph
from factorgraph.step import VARIANTS, fitted_on
from factorgraph.variables import vocabulary


@pytest.fixture(params=sorted(VARIANTS))
def graph(request):
    return step_graph(request.param)


def test_an_unknown_variant_names_those_there_are():
    with pytest.raises(UnknownNameError, match="unknown step graph 'perkernel'; did you mean 'per-kernel'"):
        step_graph("perkernel")
    with pytest.raises(UnknownNameError, match="unknown step graph"):
        fitted_on("perkernel")


def test_variables_are_the_vocabularys(graph):
    known = vocabulary()
    assert all(known[name] == variable for name, variable in graph.variables.items())


def test_every_constant_has_a_source_and_lies_in_its_bounds(graph):
    for path, value in graph.parameters.items():
        info = graph.parameter_info(path)
        assert info.source
        assert (np.asarray(value) >= info.lower).all(), path
        assert (np.asarray(value) <= info.upper).all(), path


@pytest.mark.parametrize(("name", "values"), [("sm_clock", [0.8e9, 1.2e9, 1.83e9]), ("power_cap", [200, 400, 700])])
def test_more_clock_or_power_is_never_slower(graph, h100, small_step, name, values):
    prefill = {**small_step, "m": [4096.0, 4096.0]}
    for step in (small_step, prefill):
        times = graph.predict(h100, step, **{name: values})["t_step"].values
        assert (np.diff(times) <= 1e-9).all()


def test_more_bandwidth_speeds_decode_up(graph, h100, small_step):
    times = graph.predict(h100, small_step, dram_bandwidth=[1e12, 2e12, 4e12])["t_step"].values
    assert (np.diff(times) < 0).all()


def test_a_step_is_no_faster_than_its_roofline(graph, h100, small_step):
    out = graph.predict(h100, small_step)
    compute = float((out["gemm_flop"] / out["peak_flops"] * out["gemm_count"]).sum())
    memory = float((out["traffic"] * out["gemm_count"]).sum() + (out["attention_bytes"] * out["attention_count"]).sum())
    assert float(out["t_gpu"]) > max(compute, memory / 3.35e12)


def test_times_add_up(h100, small_step):
    out = step_graph().predict(h100, small_step)
    by_kernel = sum(float((out[f"t_{kind}"] * out[f"{kind}_count"]).sum()) for kind in ("gemm", "attention", "light"))
    assert float(out["t_gpu"]) == pytest.approx(by_kernel, rel=1e-5)
    assert float(out["t_step"]) == pytest.approx(float(out["t_gpu"] + out["t_host"]), rel=1e-6)
