"""The data commands: look, bring in, check."""

import json

import pytest
from typer.testing import CliRunner

import factorgraph as fg
from factorgraph.cli import app


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("FACTORGRAPH_HOME", str(tmp_path / "home"))
    file = tmp_path / "times.csv"
    file.write_text("M,N,K,time\n16,4096,4096,0.02\n32,4096,4096,0.021\n32,4096,4096,nan\n")
    return file


def bring_in(table, *more: str):
    columns = [part for pair in ("m=M", "n=N", "k=K", "latency=time:ms") for part in ("--column", pair)]
    facts = ["--fact", "sku=h100-sxm", "--fact", "dtype=bf16", "--option", "kind=gemm"]
    return CliRunner().invoke(app, ["data", "import", str(table), "--format", "csv", *columns, *facts, *more])


def test_a_file_is_brought_in_and_its_bad_rows_are_counted(table):
    result = bring_in(table, "--name", "my-gemms", "--json")
    assert json.loads(result.stdout)["sizes"] == {"row": 2}
    assert sum(json.loads(result.stdout)["rejected"].values()) == 1
    kept = fg.load_dataset("my-gemms")
    assert kept.latency.values.tolist() == pytest.approx([2.0e-5, 2.1e-5])
    assert "my-gemms" in CliRunner().invoke(app, ["data", "list"]).stdout


def test_without_a_name_a_file_is_only_looked_at(table):
    assert "not kept" in bring_in(table).stdout
    assert "times" not in [entry.name for entry in fg.list_datasets()]


def test_bundled_data_are_whole_and_shown():
    assert CliRunner().invoke(app, ["data", "verify"]).exit_code == 0
    shown = json.loads(CliRunner().invoke(app, ["data", "show", "gemm-bf16", "--json"]).stdout)
    assert shown["variables"]["latency"]["unit"] == "s"
    assert shown["provenance"]["licence"] == "Apache-2.0"


def test_a_pair_that_is_none_is_refused(table):
    result = bring_in(table, "--fact", "sku")
    assert isinstance(result.exception, fg.FactorGraphError)
    assert "write KEY=VALUE" in str(result.exception)
