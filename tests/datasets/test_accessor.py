"""`dataset.fg`, and labelled use: selecting, aligning, chunks."""

import dask.array
import numpy as np
import pytest
import xarray as xr

import factorgraph as fg


def test_units_and_provenance():
    data = fg.load_dataset("attention-decode")
    assert data.fg.units()["kv_len"] == "1"
    assert "dtype" not in data.fg.units()
    said = data.fg.provenance()
    assert said["cache_state"] == "warm"
    assert said["dtype"] == ["bf16"]
    assert "0.24.0" in said["engine_version"]


def test_selecting_is_the_same_along_dimensions_and_along_rows():
    gemm = fg.load_dataset("gemm-bf16").fg.select(sku=["l40s", "b200"], engine="vllm", m=slice(None, 16))
    assert gemm.sku.values.tolist() == ["l40s", "b200"]
    assert gemm.engine.values.tolist() == ["vllm"]
    assert int(gemm.m.max()) == 16
    rows = fg.load_dataset("serving").fg.select(sku="h200-sxm", mode="agg", concurrency=slice(8, 64))
    assert set(rows.sku.values) == {"h200-sxm"}
    assert 8 <= int(rows.concurrency.min()) <= int(rows.concurrency.max()) <= 64


def test_a_label_that_is_not_there_is_refused():
    data = fg.load_dataset("allreduce")
    with pytest.raises(fg.UnknownNameError, match="unknown sku 'h100'; did you mean 'h100-sxm'"):
        data.fg.select(sku="h100")
    with pytest.raises(fg.UnknownNameError, match="unknown coordinate 'skuu'; did you mean 'sku'"):
        data.fg.select(skuu="l40s")
    with pytest.raises(fg.FactorGraphError, match="no ranks lies within 9 to inf; there is 2 to 8"):
        data.fg.select(sku="l40s", ranks=slice(9, None))
    with pytest.raises(fg.FactorGraphError, match="kernel_source lies along"):
        fg.load_dataset("gemm-bf16").fg.select(kernel_source="torch_flow")


def test_the_error_of_an_aligned_prediction_is_one_subtraction():
    measured = fg.load_dataset("gemm-bf16").latency
    predicted = 2.0 * measured.isel(sku=[5, 3, 1])  # another order, fewer GPUs
    error = predicted / measured - 1.0
    assert set(error.sku.values) == {"b200", "l40s", "h100-sxm"}
    np.testing.assert_allclose(error.where(np.isfinite(error), 1.0), 1.0)


def test_a_dataset_on_disk_is_evaluated_chunk_by_chunk():
    lazy = fg.load_dataset("gemm-bf16", chunks={"shape": 4096})
    assert isinstance(lazy.latency.data, dask.array.Array)
    assert max(lazy.latency.chunks[2]) == 4096
    seen: list[int] = []

    def rate(block: xr.Dataset) -> xr.DataArray:
        seen.append(block.sizes["shape"])
        return 2.0 / block.latency * block.m * block.n * block.k

    chunked = xr.map_blocks(rate, lazy, template=lazy.latency).compute(scheduler="single-threaded")
    assert max(seen) <= 4096
    whole = fg.load_dataset("gemm-bf16")
    np.testing.assert_array_equal(chunked, 2.0 / whole.latency * whole.m * whole.n * whole.k)
