"""Figures: what they draw is what the data say, in names and units; saved, the same figure is the same file."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from factorgraph import plotting
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.plotting.style import SHADES, lightness, scale

FACTORS = ["eta_clock", "eta_wave", "eta_tc", "eta_barrier", "eta_mem"]


@pytest.fixture
def falls():
    """Two cards, one GEMM: 0.9 0.8 0.5 on the first, nothing but memory on the second."""
    values = np.array([[0.9, 0.8, 1.0, 1.0, 0.5], [1.0, 1.0, 1.0, 1.0, 0.25]])
    after = values.cumprod(axis=1)
    lost = 100.0 * (np.concatenate([np.ones((2, 1)), after[:, :-1]], axis=1) - after)
    coords = {"sku": ["one", "two"], "factor": FACTORS, "gemm": ["o_proj"]}
    data = {
        "efficiency": (("sku", "gemm", "factor"), after[:, None]),
        "points_lost": (("sku", "gemm", "factor"), lost[:, None]),
        "total_efficiency": (("sku", "factor"), after),
        "total_points_lost": (("sku", "factor"), lost),
    }
    return xr.Dataset(data, coords=coords)


def test_a_waterfall_falls_from_peak_to_what_is_achieved(falls):
    axes = plotting.waterfall(falls.sel(sku="one"), gemm="o_proj").axes[0]
    bars = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches]
    expected = [(0, 100), (90, 100), (72, 90), (72, 72), (72, 72), (36, 72), (0, 36)]
    np.testing.assert_allclose(np.sort(bars, axis=1), expected, atol=1e-9)
    assert axes.get_title(loc="left") == "o_proj: memory takes 36 of the 64 points lost"


def test_a_pull_down_fills_every_card_to_the_peak(falls):
    axes = plotting.pull_down(falls).axes[0]
    for row in range(2):
        bars = [bar for bar in axes.patches if int(bar.get_y() + bar.get_height() / 2 + 0.5) == row]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(100.0)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["two", "one"]


def test_a_figure_of_one_card_refuses_two(falls):
    with pytest.raises(FactorGraphError, match="one card"):
        plotting.waterfall(falls)
    with pytest.raises(FactorGraphError, match="dimension sku"):
        plotting.pull_down(falls.sel(sku="one"))
    with pytest.raises(UnknownNameError, match="did you mean 'o_proj'"):
        plotting.waterfall(falls.sel(sku="one"), gemm="oproj")


@pytest.fixture
def prediction():
    kernels = {
        "gemm_flop": ("gemm", [1e12, 1e10]),
        "traffic": ("gemm", [1e9, 1e9]),
        "t_gemm": ("gemm", [2e-3, 1e-3]),
        "gemm_count": ("gemm", [1.0, 1.0]),
        "peak_flops": ("gemm", [1e15, 1e15]),
        "attention_flop": ("attention", [4e9]),
        "attention_bytes": ("attention", [1e9]),
        "t_attention": ("attention", [1e-3]),
        "attention_count": ("attention", [1.0]),
        "dram_bandwidth": ((), 2e12),
    }
    return xr.Dataset(kernels, coords={"gemm": ["large", "small"]})


def test_a_roofline_has_its_ridge_where_peak_meets_bandwidth(prediction):
    axes = plotting.roofline(prediction).axes[0]
    x, y = axes.lines[0].get_data()
    assert y.max() == pytest.approx(1e3)  # TFLOP/s
    np.testing.assert_allclose(y[x < 500.0], x[x < 500.0] * 2.0)
    marks = np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections])
    np.testing.assert_allclose(marks[:, 0], [1000.0, 10.0, 4.0])
    np.testing.assert_allclose(marks[:, 1], [500.0, 10.0, 4.0])
    assert axes.get_title(loc="left").startswith("50 %")
    with pytest.raises(FactorGraphError, match="one card"):
        plotting.roofline(prediction.expand_dims(sku=2))


def test_a_tornado_puts_the_widest_swing_on_top():
    swings = xr.Dataset(
        {
            "low": (("parameter", "output"), [[9.0], [8.0]]),
            "high": (("parameter", "output"), [[10.0], [14.0]]),
            "baseline": ("output", [10.0]),
            "change": (("parameter", "output"), [[1.0], [6.0]]),
        },
        coords={
            "parameter": ["tp", "batch"],
            "output": ["t_step"],
            "start": ("parameter", ["1", "32"]),
            "stop": ("parameter", ["2", "96"]),
        },
    )
    axes = plotting.tornado(swings).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["tp", "batch"]
    assert axes.get_title(loc="left") == "batch moves t_step most: 60 % between its two values"
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths[:4], [-10.0, 0.0, -20.0, 40.0])


def test_a_map_shows_the_largest_elasticity_first():
    elasticity = (("parameter", "sku", "output"), [[[0.1], [-0.2]], [[-0.9], [0.5]]])
    coords = {"parameter": ["sm_clock", "dram_bandwidth"], "sku": ["one", "two"], "output": ["t_step"]}
    found = xr.Dataset({"elasticity": elasticity}, coords=coords)
    axes = plotting.elasticity_map(found).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["dram_bandwidth", "sm_clock"]
    assert [text.get_text() for text in axes.texts] == ["−0.90", "+0.50", "+0.10", "−0.20"]
    with pytest.raises(FactorGraphError, match="cards and parameters"):
        plotting.elasticity_map(found.isel(sku=0))


def test_a_difference_leads_from_one_time_to_the_other():
    why = xr.Dataset(
        {"seconds": ("cause", [-0.004, 0.001, 1e-9]), "before": 0.013, "after": 0.010},
        coords={"cause": ["bandwidth", "clock", "L2"]},
    )
    axes = plotting.difference(why, before="H100", after="H200").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["H100", "bandwidth", "clock", "H200"]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    np.testing.assert_allclose(ends, [(0, 13), (0, 10), (13, 9), (9, 10)], atol=1e-9)
    assert axes.get_title(loc="left") == "H200 is 1.30x faster than H100, most of it by bandwidth"


def test_convergence_shows_estimates_and_their_intervals():
    shares = xr.Dataset(
        {
            "first_order": (("samples", "parameter"), [[0.5, 0.2], [0.4, 0.3]]),
            "first_order_interval": (("samples", "parameter"), [[0.2, 0.1], [0.05, 0.04]]),
        },
        coords={"samples": [64, 128], "parameter": ["sm_clock", "context"]},
    )
    axes = plotting.convergence(shares).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.5, 0.4])
    assert axes.get_title(loc="left") == "settled to ±0.05 with 128 samples"
    with pytest.raises(UnknownNameError, match="known: first_order"):
        plotting.convergence(shares, estimate="total")


@pytest.fixture
def times():
    caps = ("power_cap", [200.0, 400.0, 700.0], {"units": "W", "long_name": "board power limit"})
    values = [[0.03, 0.02, 0.01], [0.05, 0.03, 0.02]]
    attrs = {"units": "s", "long_name": "latency of one engine step"}
    return xr.DataArray(values, coords={"batch": [1, 2], "power_cap": caps}, dims=("batch", "power_cap"), attrs=attrs)


def test_lines_are_labelled_and_in_readable_units(times):
    axes = plotting.latency_lines(times, x="power_cap", lines="batch").axes[0]
    assert axes.get_xlabel() == "board power limit (W)"
    assert axes.get_ylabel() == "latency of one engine step (ms)"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [30.0, 20.0, 10.0])
    assert [text.get_text() for text in axes.texts] == ["batch 1", "batch 2"]
    with pytest.raises(FactorGraphError, match="select the rest away"):
        plotting.latency_lines(times, x="power_cap")


def test_contours_need_two_values_each_way(times):
    axes = plotting.latency_contour(times, x="power_cap", y="batch").axes[0]
    assert axes.get_ylabel() == "batch"
    with pytest.raises(FactorGraphError, match="at least two values"):
        plotting.latency_contour(times.isel(batch=[0]), x="power_cap", y="batch")


def test_data_of_another_kind_are_refused(prediction, falls):
    for draw, maker in (
        (plotting.waterfall, "waterfall"),
        (plotting.tornado, "swing"),
        (plotting.elasticity_map, "sensitivity"),
        (plotting.difference, "explain_difference"),
    ):
        with pytest.raises(FactorGraphError, match=f"what {maker} returns"):
            draw(prediction)
    with pytest.raises(FactorGraphError, match="what predict returns"):
        plotting.roofline(falls)


def test_the_same_figure_is_the_same_file(times, tmp_path):
    first, second = (
        plotting.save(plotting.latency_lines(times, x="power_cap", lines="batch"), tmp_path / name) for name in "ab"
    )
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert first[0].read_bytes().startswith(b"<?xml")
    with pytest.raises(FactorGraphError, match="is a folder"):
        plotting.save(plotting.latency_lines(times, x="power_cap", lines="batch"), tmp_path)


def test_shades_keep_their_order_in_grey():
    assert np.all(np.diff([lightness(shade) for shade in SHADES]) > 0.08)


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([1.83e9], "Hz", (1e9, "GHz")),
        ([0.0], "s", (1.0, "s")),
        ([5e7], "B", (1e6, "MB")),
        ([0.5], "1", (1.0, "")),
        ([2e-10], "s", (1e-9, "ns")),
    ],
)
def test_units_are_scaled_to_readable_numbers(values, unit, expected):
    assert scale(values, unit) == expected


def test_nothing_heavy_is_loaded_before_it_is_asked_for_and_never_a_window():
    code = """
import sys, factorgraph
assert not {"matplotlib", "SALib", "distributed", "zarr"} & set(sys.modules), "too much for a prediction"
import factorgraph.plotting
assert "matplotlib.pyplot" not in sys.modules, "a figure needs no window"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
