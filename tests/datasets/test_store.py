"""The local store: whole or not at all, by checksum, under names that lead nowhere else; and declared remote files."""

import functools
import http.server
import json
import os
import threading

import pandas as pd
import pytest
import xarray as xr

import factorgraph as fg
from factorgraph.datasets import (
    IntegrityError,
    SchemaError,
    add_dataset,
    fetch,
    find_dataset,
    load_dataset,
    seal,
    show_dataset,
    verify,
)
from factorgraph.datasets import files as files_module
from factorgraph.datasets.integrity import sha256


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FACTORGRAPH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def points():
    return load_dataset("power-caps")


def test_a_dataset_is_kept_shown_and_verified(home, points):
    rejected = pd.DataFrame({"time": ["-1", "nan", "-2"], "reason": ["negative", "empty", "negative"]})
    entry = add_dataset("my-caps", points, rejected=rejected)
    assert (entry.origin, entry.kind, entry.rejected) == ("imported", "clock_power", {"negative": 2, "empty": 1})
    xr.testing.assert_identical(load_dataset("my-caps"), points)
    shown = show_dataset("my-caps")
    pd.testing.assert_frame_equal(shown.rejected, rejected)
    assert shown.datasheet.startswith("# Clock, throughput")
    assert "| power_cap | W | row |" in shown.datasheet
    mine = {name: fault for name, fault in verify().items() if name.startswith("my-caps/")}
    assert mine == {"my-caps/data.nc": None, "my-caps/datasheet.md": None, "my-caps/rejected.csv": None}
    # Each file lies under its own checksum, and nothing else is left behind.
    assert {path.name for path in (home / "objects").iterdir()} == {sha256(p) for p in (home / "objects").iterdir()}


@pytest.mark.parametrize("name", ["../x", "a/b", "A", "", ".", "..", "a--b", "-a", "a\0", "a.nc", "x" * 99, "ä", None])
def test_names_cannot_lead_out_of_the_store(home, points, name):
    with pytest.raises(fg.FactorGraphError, match="cannot name a dataset; use up to 80 small letters"):
        add_dataset(name, points)
    assert not home.exists()


def test_a_bundled_name_is_taken(home, points):
    with pytest.raises(fg.FactorGraphError, match="gemm-bf16 is a bundled dataset; choose another name, such as 'my-"):
        add_dataset("gemm-bf16", points)


def test_an_invalid_dataset_leaves_the_old_one(home, points):
    add_dataset("caps", points)
    with pytest.raises(SchemaError, match="dataset caps has 2 faults"):
        add_dataset("caps", points.drop_vars(["workload", "source"]))
    xr.testing.assert_identical(load_dataset("caps"), points)


def test_a_write_that_breaks_off_leaves_the_old_one(home, points, monkeypatch):
    add_dataset("caps", points)

    def break_off(self, path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files_module.xr.Dataset, "to_netcdf", break_off)
        with pytest.raises(fg.FactorGraphError, match=r"caps cannot be kept in .*: No space left on device"):
            add_dataset("caps", points.isel(row=[0]))
    xr.testing.assert_identical(load_dataset("caps"), points)
    assert not [path for path in home.rglob("*") if "part" in path.name]


def test_replacing_takes_the_place_of_the_old_one(home, points):
    add_dataset("caps", points)
    add_dataset("caps", points.isel(row=[0]))
    assert load_dataset("caps").sizes["row"] == 1


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "data.nc is cut short: .* bytes; import it again"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"), "is not the file its checksum was taken of"),
        (os.unlink, "data.nc is missing; import it again"),
    ],
)
def test_a_partial_or_tampered_file_is_refused(home, points, harm, message):
    harm(add_dataset("caps", points).files["data.nc"].path)
    with pytest.raises(IntegrityError, match=message):
        load_dataset("caps")
    assert verify()["caps/data.nc"] is not None
    assert load_dataset("power-caps").sizes["row"] == 28


@pytest.mark.parametrize(
    "record",
    ["", "[]", "{}", '{"files": 3}', '{"files": {"../../x": {"sha256": "00", "size": 1}}}', '{"kind": "gemm", "fil'],
)
def test_a_tampered_record_is_refused_and_leads_nowhere(home, points, record):
    add_dataset("caps", points)
    (home / "datasets" / "caps.json").write_text(record)
    with pytest.raises(IntegrityError, match=r"caps\.json does not describe a dataset"):
        load_dataset("caps")
    assert "does not describe a dataset" in str(verify()["caps/caps.json"])
    add_dataset("caps", points)
    xr.testing.assert_identical(load_dataset("caps"), points)


def test_a_record_cannot_name_a_file_outside_the_store(home, points):
    add_dataset("caps", points)
    path = home / "datasets" / "caps.json"
    record = json.loads(path.read_text())
    for digest in ("../../etc/passwd", "/etc/passwd", "0" * 63):
        record["files"]["data.nc"]["sha256"] = digest
        path.write_text(json.dumps(record))
        with pytest.raises(IntegrityError, match="is not one that a dataset has"):
            load_dataset("caps")


def test_a_store_that_cannot_be_written_is_said_so(tmp_path, monkeypatch, points):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FACTORGRAPH_HOME", str(tmp_path / "file"))
    with pytest.raises(fg.FactorGraphError, match=r"dataset caps cannot be kept in .*: Not a directory"):
        add_dataset("caps", points)
    assert load_dataset("power-caps").sizes["row"] == 28


@pytest.fixture
def remote(tmp_path, monkeypatch, home, points):
    """A dataset that is declared on FACTORGRAPH_PATH and lies on a server; returns its record and its served file."""
    served = tmp_path / "served" / "remote-caps"
    served.mkdir(parents=True)
    files_module.write_netcdf(points, served / "data.nc")
    (served / "datasheet.md").write_text("# Remote\n")
    seal(served)
    handler = functools.partial(QuietHandler, directory=str(served))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    declared = tmp_path / "mine" / "datasets" / "remote-caps"
    declared.mkdir(parents=True)
    (declared / "datasheet.md").write_text("# Remote\n")
    record = json.loads((served / "about.json").read_text())
    record["files"]["data.nc"]["url"] = f"http://127.0.0.1:{server.server_port}/data.nc"
    (declared / "about.json").write_text(json.dumps(record))
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path / "mine"))
    yield served / "data.nc"
    server.shutdown()
    thread.join()
    server.server_close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_a_declared_file_is_fetched_only_when_asked(remote, points):
    with pytest.raises(IntegrityError, match=r"has not been fetched; fetch it with .*fetch\('remote-caps'\)"):
        load_dataset("remote-caps")
    assert verify()["remote-caps/data.nc"] == "has not been fetched"
    assert fetch("remote-caps").files["data.nc"].fault() is None
    xr.testing.assert_identical(load_dataset("remote-caps"), points)
    remote.unlink()
    fetch("remote-caps")  # nothing is missing, so nothing is asked for
    xr.testing.assert_identical(load_dataset("remote-caps"), points)


def test_a_fetched_file_that_is_not_the_declared_one_is_refused(remote, home):
    remote.write_bytes(remote.read_bytes()[:-1] + b"!")
    with pytest.raises(IntegrityError, match=r"remote-caps: data\.nc cannot be fetched from http.*hash"):
        fetch("remote-caps")
    assert find_dataset("remote-caps").files["data.nc"].fault() == "has not been fetched"
    assert not list((home / "objects").iterdir())
    remote.unlink()
    with pytest.raises(IntegrityError, match=r"cannot be fetched from .*404"):
        fetch("remote-caps")
