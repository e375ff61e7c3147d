"""Labelled prediction: dimensions, units, domains, provenance, round trip."""

import json

import jax
import numpy as np
import pytest
import xarray as xr

from factorgraph import FactorGraphError, UnknownNameError, predict, results, step_graph


@pytest.fixture(params=["per-kernel", "base"])
def graph(request):
    return step_graph(request.param)


def test_every_variable_carries_its_unit_and_name(graph, h100, small_step):
    out = graph.predict(h100, small_step)
    assert out["t_step"].attrs == {"units": "s", "long_name": "latency of one engine step"}
    assert all("units" in out[name].attrs for name in out.data_vars)
    assert out["t_gemm"].dims == ("gemm",)


def test_choices_are_shown_at_the_alternative_taken(graph, h100, small_step):
    out = graph.predict(h100, small_step)
    assert out["eta_wave"].dims == ("gemm",)
    assert out["tile_m"].dims == ("gemm",)
    assert "tiling" not in out.dims


def test_a_sequence_adds_a_dimension_and_only_dependents_have_it(graph, h100, small_step):
    out = graph.predict(h100, small_step, power_cap=[300.0, 500.0, 700.0])
    assert out["t_step"].dims == ("power_cap",)
    assert out["t_gemm"].dims == ("power_cap", "gemm")
    assert out["traffic"].dims == ("gemm",)
    assert out["power_cap"].values.tolist() == [300.0, 500.0, 700.0]


def test_a_sweep_equals_its_points(graph, h100, small_step):
    swept = graph.predict(h100, small_step, power_cap=[300.0, 700.0], dram_bandwidth=[2e12, 3e12, 4e12])
    assert swept["t_step"].dims == ("power_cap", "dram_bandwidth")
    for cap in (300.0, 700.0):
        for bandwidth in (2e12, 4e12):
            one = graph.predict(h100, small_step, power_cap=cap, dram_bandwidth=bandwidth)
            np.testing.assert_allclose(
                one["t_step"], swept["t_step"].sel(power_cap=cap, dram_bandwidth=bandwidth), rtol=1e-6
            )


def test_a_labelled_array_brings_its_dimension_and_its_unit(graph, h100, small_step):
    clock = xr.DataArray([1000.0, 1830.0], dims="setting", coords={"setting": ["slow", "fast"]}, attrs={"units": "MHz"})
    out = graph.predict(h100, small_step, sm_clock=clock)
    fast = graph.predict(h100, small_step, sm_clock=1.83e9)
    assert out["t_step"].dims == ("setting",)
    np.testing.assert_allclose(out["t_step"].sel(setting="fast"), fast["t_step"], rtol=1e-6)
    assert out["sm_clock"].attrs["units"] == "Hz"


def test_the_five_factors_multiply_out(graph, h100, small_step):
    prefill = {**small_step, "m": [4096.0, 17.0]}
    for step in (small_step, prefill):
        out = graph.predict(h100, step, sm_clock=[1.2e9, 1.83e9])
        achieved = out["gemm_flop"] / out["t_gemm"]
        product = out["eta_clock"] * out["eta_wave"] * out["eta_tc"] * out["eta_barrier"] * out["eta_mem"]
        np.testing.assert_allclose((product * out["peak_flops"] / achieved).values, 1.0, rtol=1e-6)


def test_outputs_limit_what_is_returned(graph, h100, small_step):
    assert set(graph.predict(h100, small_step, outputs=["t_step"]).data_vars) == {"t_step"}
    with pytest.raises(UnknownNameError, match="unknown variable 't_stepp'; did you mean 't_step'"):
        graph.predict(h100, small_step, outputs=["t_stepp"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"power_cap": -5.0},
            r"power_cap = -5 W is outside its domain \[30, 3000\]; power_cap is the board power limit",
        ),
        ({"sm_clock": float("nan")}, "sm_clock = nan Hz is outside its domain"),
        ({"sm_clock": 1830.0}, "sm_clock = 1830 Hz is outside its domain"),
        ({"dram_bandwidth": "fast"}, "dram_bandwidth='fast' is no number; give it in B/s"),
        ({"power_cap": []}, "power_cap is an empty list"),
        ({"power_cap": [[300.0]]}, "power_cap has 2 axes; name them by passing an xarray.DataArray"),
        ({"powercap": 300.0}, "unknown variable 'powercap'; did you mean 'power_cap'"),
        ({"sm_clock": xr.DataArray(1.0, attrs={"units": "W"})}, "sm_clock is in 'W', which cannot be read as 'Hz'"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(h100, small_step, values, message):
    with pytest.raises(FactorGraphError, match=message):
        step_graph().predict(h100, small_step, **values)


def test_a_missing_input_is_named(h100, small_step):
    del small_step["k"]
    with pytest.raises(FactorGraphError, match="'k' has no value and law GemmWork needs it"):
        step_graph().predict(h100, small_step)


def test_what_is_no_source_is_refused():
    with pytest.raises(FactorGraphError, match="'h100-sxm' supplies no values"):
        step_graph().predict("h100-sxm")


def test_predictions_round_trip_through_netcdf(graph, h100, small_step, tmp_path):
    out = graph.predict(h100, small_step, power_cap=[300.0, 700.0])
    back = results.read(results.write(out, tmp_path / "out.nc"))
    xr.testing.assert_identical(out, back)
    assert json.loads(back.attrs["laws"])["t_step"] == "SerialHost"
    assert {name: v.dtype for name, v in out.variables.items()} == {name: v.dtype for name, v in back.variables.items()}


def test_a_failed_write_leaves_the_old_file(h100, small_step, tmp_path):
    path = results.write(step_graph().predict(h100, small_step), tmp_path / "out.nc")
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError)):
        results.write(xr.Dataset({"broken": ((), object())}), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_reading_what_is_no_result_is_said(tmp_path):
    with pytest.raises(FactorGraphError, match="there is no result file"):
        results.read(tmp_path / "none.nc")
    (tmp_path / "junk.nc").write_bytes(b"not a file of numbers")
    with pytest.raises(FactorGraphError, match="cannot be read as NetCDF-4"):
        results.read(tmp_path / "junk.nc")
    with pytest.raises(FactorGraphError, match="is a folder"):
        results.write(xr.Dataset(), tmp_path)


def test_one_trace_serves_other_cards_and_constants(h100, small_step):
    traces = []

    class Counting(type(step_graph()["t_host"])):
        def __call__(self, sequences):
            traces.append(1)
            return self.s0 + self.s1 * sequences

    Counting.__call__.__annotations__ = type(step_graph()["t_host"]).__call__.__annotations__
    graph = step_graph().replace(t_host=Counting())
    other = {**h100, "sm_count": 108.0, "boost_clock": 1.41e9, "sm_clock": 1.41e9, "dram_bandwidth": 2.039e12}
    times = [float(predict(graph, card, small_step)["t_step"]) for card in (h100, other)]
    times.append(float(predict(graph.with_parameters({"t_host.s0": 1e-3}), h100, small_step)["t_step"]))
    assert len(traces) == 1
    assert len(set(times)) == 3


@pytest.mark.parametrize("variant", ["per-kernel", "base"])
def test_float32_and_float64_agree(variant, h100, small_step):
    single = step_graph(variant).predict(h100, small_step)
    with jax.enable_x64(True):
        double = step_graph(variant).predict(h100, small_step)
    assert double["t_step"].dtype == np.float64
    # Times only: where two tilings tie, rounding decides which one's factors are shown.
    for name in ("t_step", "t_gemm", "t_attention"):
        np.testing.assert_allclose(single[name], double[name], rtol=1e-4)
