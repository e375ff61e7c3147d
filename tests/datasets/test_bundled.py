"""Bundled datasets: found, whole, labelled; and refused when they are not what their checksum was taken of."""

import json
import shutil

import numpy as np
import pytest

import factorgraph as fg
from factorgraph.datasets import show_dataset, verify
from factorgraph.paths import data_root


def test_every_dataset_is_whole_and_has_a_datasheet():
    assert set(verify().values()) == {None}
    for entry in fg.list_datasets():
        assert show_dataset(entry.name).datasheet.startswith("# ")
        assert entry.licence


def test_the_gemm_dataset_is_labelled_and_physical():
    data = fg.load_dataset("gemm-bf16")
    assert data.latency.dims == ("sku", "engine", "shape")
    assert data.latency.attrs["units"] == "s"
    for sku in data.sku.values:
        card = fg.load_sku(str(sku))
        # No measurement beats the peak at the highest clock.
        bound = (
            2.0 * data.m * data.n.astype(float) * data.k / (card.peak_flops("bf16") * card.max_clock / card.boost_clock)
        )
        times = data.latency.sel(sku=sku)
        assert not bool((times < bound).any())
    # 8192 cubed on B300 takes about 0.7 ms at the 1,600 TFLOP/s that others report.
    cube = data.latency.sel(sku="b300", engine="trtllm").where((data.m == 8192) & (data.n == 8192) & (data.k == 8192))
    assert float(cube.max()) == pytest.approx(0.7e-3, rel=0.15)


def test_an_unknown_name_offers_the_near_one():
    with pytest.raises(fg.UnknownNameError, match="unknown dataset 'gemm-bf61'; did you mean 'gemm-bf16'"):
        fg.load_dataset("gemm-bf61")


@pytest.fixture
def own_copy(tmp_path, monkeypatch):
    folder = tmp_path / "datasets" / "gemm-bf16"
    shutil.copytree(data_root("datasets") / "gemm-bf16", folder)
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    return folder


def test_ones_own_dataset_comes_first(own_copy):
    about = json.loads((own_copy / "about.json").read_text())
    (own_copy / "about.json").write_text(json.dumps(about | {"title": "mine"}))
    assert {entry.name: entry.title for entry in fg.list_datasets()}["gemm-bf16"] == "mine"
    assert np.isfinite(fg.load_dataset("gemm-bf16").latency).any()


def test_a_changed_file_is_refused(own_copy):
    data = bytearray((own_copy / "data.nc").read_bytes())
    data[len(data) // 2] ^= 1
    (own_copy / "data.nc").write_bytes(data)
    with pytest.raises(fg.FactorGraphError, match="is not the file its checksum was taken of"):
        fg.load_dataset("gemm-bf16")
    assert verify()["gemm-bf16/data.nc"] == "is not the file its checksum was taken of"


def test_a_missing_or_misdescribed_file_is_refused(own_copy):
    (own_copy / "data.nc").unlink()
    with pytest.raises(fg.FactorGraphError, match=r"data\.nc is missing"):
        fg.load_dataset("gemm-bf16")
    (own_copy / "about.json").write_text('{"kind": "gemm"}')
    with pytest.raises(fg.FactorGraphError, match="does not describe a dataset"):
        fg.list_datasets()
