"""Measuring from beginning to end: valid datasets, nothing lost, nothing measured twice."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from machines import CLOCK, EFFORT, MACHINE, FakeSampler, counting_cases
from typer.testing import CliRunner

import factorgraph as fg
from factorgraph.cli import app
from factorgraph.measuring import Effort, measure, measure_cases
from factorgraph.measuring.cases import MEASURED, cases_of, gemm_case
from factorgraph.measuring.journal import Journal


def take(out, measured, **more):
    return measure_cases(
        "gemm", counting_cases(measured), more.pop("machine", MACHINE), out, EFFORT, clock=CLOCK, **more
    )


def interrupted(out, after: int) -> list[int]:
    """Leave a run as it is after so many cases."""
    measured: list[int] = []

    def stop(done: int, of: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(out, measured, progress=stop)
    return measured


def test_what_is_written_is_a_dataset_of_the_schema(tmp_path):
    written = take(tmp_path / "a.nc", [])
    read = fg.load_dataset(tmp_path / "a.nc")
    np.testing.assert_array_equal(read.latency, written.latency)
    assert read.m.values.tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(read.latency, 1e-4)
    assert read.attrs["operand_values"] == "random"
    assert read.attrs["device"] == "Example CPU"
    assert read.attrs["clock_state"] == "unknown"
    assert [file.name for file in tmp_path.iterdir()] == ["a.nc"]


def test_the_order_is_random_and_the_seed_s(tmp_path):
    orders = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        orders.append([])
        take(tmp_path / f"{name}.nc", orders[-1], seed=seed)
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == [0, 1, 2, 3, 4, 5]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    before, after = interrupted(tmp_path / "a.nc", 4), []
    dataset = take(tmp_path / "a.nc", after, resume=True)
    assert len(before) == 4
    assert sorted(before + after) == [0, 1, 2, 3, 4, 5]
    assert dataset.sizes["row"] == 6


def test_a_line_that_was_cut_short_is_measured_again(tmp_path):
    interrupted(tmp_path / "a.nc", 4)
    partial = tmp_path / "a.nc.partial"
    partial.write_bytes(partial.read_bytes()[:-5])
    after: list[int] = []
    assert take(tmp_path / "a.nc", after, resume=True).sizes["row"] == 6
    assert len(after) == 3


_SLOW_RUN = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from machines import CLOCK, EFFORT, MACHINE, counting_cases
from factorgraph.measuring import measure_cases
measure_cases("gemm", counting_cases([], 40), MACHINE, Path(sys.argv[2]), EFFORT, clock=CLOCK,
              progress=lambda done, of: time.sleep(0.05))
"""


def test_a_killed_process_loses_nothing(tmp_path):
    out, partial = tmp_path / "a.nc", tmp_path / "a.nc.partial"
    process = subprocess.Popen([sys.executable, "-c", _SLOW_RUN, os.path.dirname(__file__), str(out)])
    while process.poll() is None and not (partial.exists() and partial.read_bytes().count(b"\n") > 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    kept = [json.loads(line) for line in partial.read_text().splitlines()[1:]]
    assert 3 <= len(kept) < 40
    again: list[int] = []
    dataset = measure_cases("gemm", counting_cases(again, 40), MACHINE, out, EFFORT, resume=True, clock=CLOCK)
    assert {row["m"] - 1 for _, row in kept} | set(again) == set(range(40))
    assert len(kept) + len(again) == 40
    for _, row in kept:
        assert row["latency"] == dataset.latency.values[row["m"] - 1]
    assert not partial.exists()


def test_what_a_gpu_does_meanwhile_is_recorded(tmp_path):
    dataset = take(tmp_path / "a.nc", [], sampler=FakeSampler())
    assert (dataset.sm_clock == 1.5e9).all()
    assert dataset.power_cap.attrs["units"] == "W"
    assert set(dataset.throttle_reasons.values) <= {"none", "SwPowerCap"}
    assert dataset.attrs["clock_state"] == dataset.attrs["power_state"] == "recorded"
    assert fg.load_dataset(tmp_path / "a.nc").temperature.attrs["units"] == "K"


@pytest.mark.parametrize("kind", MEASURED)
def test_every_kind_is_measured_for_real(kind, tmp_path):
    cases = sorted(cases_of(kind, MACHINE, quick=True), key=lambda case: case.memory)[:3]
    measure_cases(kind, cases, MACHINE, tmp_path / "a.nc", Effort(least=5e-3, repeats=5))
    dataset = fg.load_dataset(tmp_path / "a.nc")
    assert dataset.attrs["kind"] == kind
    assert np.isfinite(dataset.latency.values).all()
    assert (dataset.spread >= 0.0).all()


def test_cases_fit_the_memory_and_have_names_of_their_own():
    for kind in MEASURED:
        for quick in (True, False):
            cases = cases_of(kind, MACHINE, quick=quick)
            assert all(case.memory <= MACHINE.memory / 4 for case in cases)
            assert len({case.name for case in cases}) == len(cases) > 3


def test_the_command_measures_and_the_dataset_is_shown(tmp_path, monkeypatch):
    few = [gemm_case(m, 64, 64, MACHINE, 1) for m in (8, 64, 256)]
    monkeypatch.setattr("factorgraph.measuring.session.cases_of", lambda kind, machine, quick: few)
    ask, out = ["measure", "gemm", "--quick", "--out", str(tmp_path / "a.nc")], str(tmp_path / "a.nc")
    said = json.loads(CliRunner().invoke(app, [*ask, "--json"], catch_exceptions=False).stdout)
    assert said["rows"] + said["left_out"] == 3
    shown = json.loads(CliRunner().invoke(app, ["data", "show", out, "--json"]).stdout)
    assert shown["variables"]["spread"]["unit"] == "1"
    again = CliRunner().invoke(app, [*ask, "--resume"])
    assert "exists; name another file" in str(again.exception)


# --- what cannot be done is said in a sentence ------------------------------------------------------------------------


def test_a_kind_that_is_not_measured_here(tmp_path):
    with pytest.raises(fg.FactorGraphError, match="unknown kind of measurement 'gem'; did you mean 'gemm'"):
        measure("gem", tmp_path / "a.nc")


def test_a_card_that_there_is_not(tmp_path):
    with pytest.raises(fg.FactorGraphError, match="unknown GPU 'h100sxm'"):
        measure("gemm", tmp_path / "a.nc", sku="h100sxm")


def test_a_folder_for_a_file(tmp_path):
    with pytest.raises(fg.FactorGraphError, match="is a folder; name a file in it"):
        take(tmp_path, [])


def test_a_folder_that_there_is_not(tmp_path):
    with pytest.raises(fg.FactorGraphError, match=r"there is no folder .*none to write a.nc to"):
        take(tmp_path / "none" / "a.nc", [])


def test_a_path_that_cannot_be_written(tmp_path):
    (tmp_path / "a.nc.partial").mkdir()
    with pytest.raises(fg.FactorGraphError, match=r"a.nc.partial cannot be written \(Is a directory\)"):
        take(tmp_path / "a.nc", [])


def test_what_is_there_is_not_written_over(tmp_path):
    take(tmp_path / "a.nc", [])
    with pytest.raises(fg.FactorGraphError, match="exists; name another file"):
        take(tmp_path / "a.nc", [], resume=True)


def test_an_interrupted_run_is_not_begun_anew_by_accident(tmp_path):
    interrupted(tmp_path / "a.nc", 4)
    with pytest.raises(fg.FactorGraphError, match=r"holds 4 measurements of an interrupted run; go on .* --resume"):
        take(tmp_path / "a.nc", [])


@pytest.mark.parametrize(
    ("change", "named"),
    [({"machine": dataclasses.replace(MACHINE, device="Other CPU")}, "machine"), ({"seed": 1}, "seed"),
     ({"sku": "h100-sxm"}, "sku")],
)  # fmt: skip
def test_an_interrupted_run_of_another_machine_or_settings(change, named, tmp_path):
    interrupted(tmp_path / "a.nc", 4)
    with pytest.raises(fg.FactorGraphError, match=f"is of another {named}; name another file"):
        take(tmp_path / "a.nc", [], resume=True, **change)


@pytest.mark.parametrize("content", [b"hello\n", b"\xff\xfe\n", b"[1]\n2\n", b'{"a": 1}\n[[1], 2]\n'])
def test_a_file_that_is_no_journal(content, tmp_path):
    (tmp_path / "a.nc.partial").write_bytes(content)
    with pytest.raises(fg.FactorGraphError, match="is no journal of a measurement"):
        take(tmp_path / "a.nc", [], resume=True)
    assert (tmp_path / "a.nc.partial").read_bytes() == content


def test_no_space_left(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "a.nc", {"machine": 1}, resume=False)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(fg.FactorGraphError, match=r"cannot be written \(No space left on device\)"):
        journal.add("a", {"m": 1})
    journal.close()


def test_no_space_left_for_the_dataset_keeps_what_was_measured(tmp_path, monkeypatch):
    def full(dataset, path):
        raise RuntimeError("NetCDF: HDF error")

    with monkeypatch.context() as patch:
        patch.setattr("factorgraph.measuring.session.write_netcdf", full)
        with pytest.raises(fg.FactorGraphError, match="make room and add --resume"):
            take(tmp_path / "a.nc", [])
    measured: list[int] = []
    assert take(tmp_path / "a.nc", measured, resume=True).sizes["row"] == 6
    assert measured == []
