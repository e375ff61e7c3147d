"""Recipes: what can be built here is built to the same bytes; what needs a package says which."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import factorgraph as fg
from factorgraph.datasets import load_dataset
from factorgraph.datasets.build import build, list_recipes, main
from factorgraph.paths import data_root


def test_every_bundled_dataset_has_a_recipe_and_all_fit_in_the_budget():
    bundled = {entry.name: entry for entry in fg.list_datasets() if entry.origin == "bundled"}
    assert set(bundled) == set(list_recipes())
    assert sum(path.stat().st_size for path in data_root("datasets").rglob("*")) < 12e6
    for entry in bundled.values():
        sheet = entry.whole("datasheet.md").read_text(encoding="utf-8")
        assert sheet.startswith(f"# {load_dataset(entry.name).attrs['title']}\n")
        assert f"python -m factorgraph.datasets.build {entry.name}" in " ".join(sheet.split())
        assert "**Source.**" in sheet


@pytest.mark.parametrize("name", ["power-caps", "reported-round1"])
def test_built_from_its_source_it_is_the_same_bytes(tmp_path, name):
    (tmp_path / name).mkdir()
    for file in ("datasheet.md", "source.csv"):
        shutil.copy(data_root("datasets") / name / file, tmp_path / name / file)
    built = build(name, tmp_path / name)
    bundled = next(entry for entry in fg.list_datasets() if entry.name == name)
    assert {file.name: file.sha256 for file in built.files.values()} == {
        file.name: file.sha256 for file in bundled.files.values()
    }


def test_numbers_of_the_report_are_those_it_prints():
    data = load_dataset("reported-round1")
    by_id = {
        name: (low, high) for name, low, high in zip(*(data[n].values for n in ("id", "low", "high")), strict=True)
    }
    assert by_id["peak.h100"] == (989e12, 989e12)
    assert by_id["host.floor"] == pytest.approx((2.37e-3, 2.37e-3))
    assert by_id["transfer.prefill_ours"] == pytest.approx((0.23, 0.33))
    assert by_id["l2.x_half"] == (0.477, 0.477)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package laid out as aiconfigurator-core is, with GEMM tables of two GPUs."""
    root = tmp_path / "site" / "aiconfigurator_core"
    root.mkdir(parents=True)
    (root / "__init__.py").write_text("raise RuntimeError('must not be run')")
    shape = {"kernel_source": "cublas", "gemm_dtype": "bfloat16", "m": 64, "n": 6144, "k": 4096, "latency": 0.0215}
    tables = {
        "h100_sxm/gemm/vllm/0.9.0": [shape | {"latency": 9.0}],
        "h100_sxm/gemm/vllm/0.24.0": [shape, shape | {"latency": 0.03}, shape | {"m": 8, "latency": 0.0}],
        "l40s/gemm/trtllm/1.3.0rc20": [shape | {"m": 16, "latency": 0.07}, shape | {"gemm_dtype": "fp8"}],
    }
    for place, rows in tables.items():
        folder = root / "systems" / "data" / place
        folder.mkdir(parents=True)
        pd.DataFrame(rows).to_parquet(folder / "gemm_perf.parquet")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return root


def test_tables_of_many_gpus_become_one_array(package, tmp_path):
    folder = tmp_path / "gemm-bf16"
    folder.mkdir()
    (folder / "datasheet.md").write_text("# x\n")
    entry = build("gemm-bf16", folder)
    assert entry.rejected == {
        "latency is zero or negative": 1,
        "has the same labels as an earlier row, which is kept": 1,
    }
    data = load_dataset(folder / "data.nc")
    assert data.latency.dtype == np.float32
    assert data.m.values.tolist() == [16, 64]
    # The newest version by number, not by letter.
    assert data.engine_version.sel(sku="h100-sxm", engine="vllm") == "0.24.0"
    np.testing.assert_allclose(data.latency.sel(sku="h100-sxm", engine="vllm"), [np.nan, 21.5e-6], rtol=1e-6)
    np.testing.assert_allclose(data.latency.sel(sku="l40s", engine="trtllm"), [70e-6, np.nan], rtol=1e-6)
    assert int(np.isfinite(data.latency).sum()) == 2
    once = (folder / "data.nc").read_bytes()
    build("gemm-bf16", folder)
    assert (folder / "data.nc").read_bytes() == once


def test_without_the_package_its_extra_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    assert main(["gemm-bf16", str(tmp_path)]) == 1
    assert "aiconfigurator-core is not installed; it is the extra 'silicon'" in capsys.readouterr().err
    assert main(["gemm-bf61"]) == 1
    assert "unknown recipe 'gemm-bf61'; did you mean 'gemm-bf16'" in capsys.readouterr().err
    assert main([]) == 1
    assert "name a dataset to build" in capsys.readouterr().err
