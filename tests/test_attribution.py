"""A waterfall adds up to the whole loss, in every reading; checked against enumeration and against predictions."""

import itertools

import numpy as np
import pytest

import factorgraph as fg
from factorgraph.attribution import waterfall
from factorgraph.errors import FactorGraphError, UnknownNameError


@pytest.fixture(scope="module", params=["per-kernel", "base"])
def graph(request):
    return fg.step_graph(request.param)


def test_the_last_efficiency_is_what_the_prediction_achieves(graph, h100, small_step):
    falls = waterfall(graph, h100, small_step)
    out = fg.predict(graph, h100, small_step)
    achieved = out.gemm_flop / (out.peak_flops * out.t_gemm)
    np.testing.assert_allclose(falls.efficiency.isel(factor=-1), achieved, rtol=1e-5)
    np.testing.assert_allclose(falls.achieved, achieved, rtol=1e-6)


def test_every_reading_adds_up_to_the_whole_loss(graph, h100, small_step):
    falls = waterfall(graph, h100, small_step, power_cap=[250.0, 700.0])
    lost = 100.0 * (1.0 - falls.efficiency.isel(factor=-1))
    assert falls.points_lost.dims == ("power_cap", "gemm", "factor")
    np.testing.assert_allclose(falls.points_lost.sum("factor"), lost, rtol=1e-12)
    np.testing.assert_allclose(falls.points_shapley.sum("factor"), lost, rtol=1e-12)
    np.testing.assert_allclose(falls.share.sum("factor"), 1.0, rtol=1e-12)
    np.testing.assert_allclose(falls.total_share.sum("factor"), 1.0, rtol=1e-12)


def test_shapley_points_are_the_mean_fall_over_all_orders(graph, h100, small_step):
    falls = waterfall(graph, h100, small_step).isel(gemm=1)
    value = {str(name): float(falls.factor_value.sel(factor=name)) for name in falls.factor.values}
    mean = dict.fromkeys(value, 0.0)
    orders = list(itertools.permutations(value))
    for order in orders:
        left = 1.0
        for name in order:
            mean[name] += left * (1.0 - value[name]) * 100.0 / len(orders)
            left *= value[name]
    for name, points in mean.items():
        assert float(falls.points_shapley.sel(factor=name)) == pytest.approx(points, rel=1e-12)


def test_the_total_is_the_gemms_together_by_time(graph, h100, small_step):
    falls = waterfall(graph, h100, small_step)
    out = fg.predict(graph, h100, small_step)
    at_peak = float((out.gemm_count * out.gemm_flop / out.peak_flops).sum())
    assert float(falls.total_efficiency.isel(factor=-1)) == pytest.approx(at_peak / float(out.t_gemm_total), rel=1e-5)
    assert float(falls.time_share.sum()) == pytest.approx(1.0)


def test_a_factor_left_out_is_noticed(graph, h100, small_step):
    with pytest.raises(FactorGraphError, match="name every factor"):
        waterfall(graph, h100, small_step, factors=["eta_clock", "eta_wave", "eta_tc", "eta_barrier"])


def test_cards_become_a_dimension(graph):
    step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
    names = ["h100-sxm", "l40s"]
    falls = waterfall(graph, [fg.load_sku(name) for name in names], step)
    assert falls.efficiency.dims == ("sku", "gemm", "factor")
    one = waterfall(graph, fg.load_sku("l40s"), step)
    # Which of two tilings that tie is taken may hang on a rounding; what is achieved does not.
    np.testing.assert_allclose(falls.achieved.sel(sku="l40s"), one.achieved, rtol=1e-5)
    assert falls.gemm.values.tolist() == list(step.coords["gemm"])


def test_no_factors_make_no_waterfall(graph, h100, small_step):
    with pytest.raises(FactorGraphError, match="no factors"):
        waterfall(graph, h100, small_step, factors=[])


def test_an_unknown_factor_is_named(graph, h100, small_step):
    with pytest.raises(UnknownNameError, match="did you mean 'eta_mem'"):
        waterfall(graph, h100, small_step, factors=["eta_men"])


def test_nothing_lost_leaves_nothing_to_share(graph, h100, small_step):
    perfect = dict.fromkeys(("eta_clock", "eta_wave", "eta_tc", "eta_barrier", "eta_mem"), 1.0)
    peak = fg.predict(graph, h100, small_step)
    falls = waterfall(graph, h100, small_step, **perfect, t_gemm=peak.gemm_flop / peak.peak_flops)
    assert float(abs(falls.share).max()) == 0.0
    assert float(abs(falls.points_lost).max()) == 0.0
