"""Predictions beside measurements: labels, kinds, and data in chunks."""

import numpy as np
import pytest

import factorgraph as fg


@pytest.fixture(scope="module")
def graph():
    return fg.step_graph()


def test_a_prediction_stands_where_its_measurement_stands(graph):
    few = fg.load_dataset("gemm-bf16").isel(shape=slice(0, None, 997)).fg.select(sku=["l40s", "b200"])
    found = few.fg.predict(graph)
    assert found.dims == few.latency.dims
    one = few.isel(shape=5)
    values = {name: [float(one[name])] for name in ("m", "n", "k")} | {
        name: [size] for name in ("weight_element_size", "activation_element_size") for size in (2.0,)
    }
    m, n, k = (float(one[name]) for name in ("m", "n", "k"))
    values |= {"output_element_size": [2.0], "gemm_groups": [1.0], "gemm_type": [0.0], "quantises": [0.0]}
    values |= {"quantise_library": [0.0], "working_set": [2 * (6 * n * k + m * k + m * n)]}
    alone = graph.subgraph("t_gemm").predict(fg.load_sku("b200"), values, outputs=["t_gemm"]).t_gemm
    assert float(found.sel(sku="b200", engine="vllm").isel(shape=5)) == pytest.approx(float(alone[0]), rel=1e-5)


@pytest.mark.parametrize(("name", "dim"), [("attention-decode", "case"), ("attention-prefill", "case")])
def test_attention_is_predicted_case_by_case(graph, name, dim):
    few = fg.load_dataset(name).isel({dim: slice(0, None, 2003)}).fg.select(sku="h100-sxm", kv_dtype="bf16")
    error = few.fg.error(graph)
    assert error.dims == few.latency.dims
    assert np.isfinite(error.values[np.isfinite(few.latency.values)]).all()
    assert float(abs(error).mean()) < 0.25


def test_rows_of_several_gpus_and_libraries_are_each_predicted_on_their_own(graph):
    rows = fg.load_dataset("allreduce").isel(row=slice(0, None, 37))
    error = rows.fg.error(graph)
    assert error.dims == ("row",)
    assert np.isfinite(error).all()
    alone = rows.isel(row=[11]).fg.predict(graph)
    assert float(alone[0]) == pytest.approx(float(rows.fg.predict(graph)[11]), rel=1e-6)


def test_data_in_chunks_are_predicted_when_asked_and_alike(graph, tmp_path):
    few = fg.load_dataset("gemm-bf16").isel(shape=slice(0, None, 301)).fg.select(sku="h200-sxm", engine="vllm")
    few.to_netcdf(tmp_path / "few.nc", engine="netcdf4")
    lazy = fg.load_dataset(tmp_path / "few.nc", chunks={"shape": 50}).fg.error(graph)
    assert len(lazy.chunks[lazy.dims.index("shape")]) > 1
    np.testing.assert_allclose(lazy.compute(), few.fg.error(graph), rtol=1e-5)


def test_what_cannot_be_predicted_is_named(graph):
    with pytest.raises(fg.UnknownNameError, match="unknown kind of dataset to predict 'serving'"):
        fg.load_dataset("serving").fg.predict(graph)
    with pytest.raises(fg.FactorGraphError, match="this graph gives no 't_collective'"):
        fg.load_dataset("allreduce").fg.predict(graph.subgraph("t_gemm"))
