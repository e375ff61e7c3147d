"""Any valid dataset comes back from disk exactly; a file of ours that was damaged does so too or is refused."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from strategies import datasets

import factorgraph as fg
from factorgraph.datasets import IntegrityError, conform, load_dataset, write_csv, write_netcdf


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("datasets")


@settings(max_examples=60)
@given(dataset=datasets())
def test_netcdf_and_csv_give_back_what_was_written(folder, dataset):
    for write, name in ((write_netcdf, "a.nc"), (write_csv, "a.csv"), (write_csv, "a.csv.gz")):
        back = load_dataset(write(dataset, folder / name))
        xr.testing.assert_identical(back, dataset)
        assert {n: v.dtype.kind for n, v in back.variables.items()} == {
            n: v.dtype.kind for n, v in dataset.variables.items()
        }
        assert back.dtypes == dataset.dtypes


@settings(max_examples=20)
@given(dataset=datasets())
def test_the_same_dataset_is_the_same_bytes(folder, dataset):
    once = write_netcdf(dataset, folder / "once.nc").read_bytes()
    assert write_netcdf(dataset, folder / "twice.nc").read_bytes() == once


@settings(max_examples=20)
@given(dataset=datasets())
def test_conforming_changes_nothing_that_conforms(dataset):
    xr.testing.assert_identical(conform(dataset), dataset)


@pytest.mark.parametrize(("unit", "hertz"), [("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9), ("1/minute", 1 / 60)])
def test_units_are_converted_once_at_load(folder, unit, hertz):
    data = load_dataset("power-caps").isel(row=slice(0, 5))
    data["sm_clock"] = ("row", data.sm_clock.values / hertz, {"units": unit})
    back = load_dataset(write_netcdf(data, folder / "units.nc"))
    assert back.sm_clock.units == "Hz"
    np.testing.assert_allclose(back.sm_clock, [926e6, 1152e6, 1457e6, 1935e6, 1422e6], rtol=1e-12)


@settings(max_examples=150)
@given(dataset=datasets(), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_damage_shows(folder, name, dataset, place, bit, cut):
    path = write_csv(dataset, folder / name)
    data = bytearray(path.read_bytes())
    at = int(place * len(data))
    if cut:
        del data[at:]
    else:
        data[at] ^= 1 << bit
    path.write_bytes(data)
    try:
        back = load_dataset(path)
    except fg.FactorGraphError:
        return
    xr.testing.assert_equal(back, dataset)


def test_files_that_are_none_of_ours_are_refused(folder, tmp_path):
    (tmp_path / "a.nc").write_bytes(b"CDF\x01 nonsense")
    with pytest.raises(IntegrityError, match="cannot be read as NetCDF-4, it may be damaged or cut short"):
        load_dataset(tmp_path / "a.nc")
    (tmp_path / "a.csv").write_text("m,n\n1,2\n")
    with pytest.raises(IntegrityError, match="import it with the format 'csv'"):
        load_dataset(tmp_path / "a.csv")
    with pytest.raises(IntegrityError, match="is a folder; name the NetCDF file in it"):
        load_dataset(tmp_path)
    with pytest.raises(IntegrityError, match="there is no file"):
        load_dataset(tmp_path / "none.nc")


def test_damage_is_seen_before_hdf5_opens_the_file(tmp_path, monkeypatch):
    path = write_netcdf(load_dataset("power-caps"), tmp_path / "a.nc")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr(xr, "open_dataset", lambda *_, **__: pytest.fail("HDF5 may never come back from this file"))
    with pytest.raises(IntegrityError, match=r"a\.nc was changed after it was written; take it from its source again"):
        load_dataset(path)


def test_a_file_of_another_program_may_be_loaded(tmp_path):
    points = load_dataset("power-caps")
    points.to_netcdf(tmp_path / "a.nc")
    xr.testing.assert_identical(load_dataset(tmp_path / "a.nc"), points)
