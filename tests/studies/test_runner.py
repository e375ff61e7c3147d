"""Studies are found, run, traced and reported; one that fails does not stop the others."""

import json

import pytest
from typer.testing import CliRunner

import factorgraph as fg
from factorgraph.cli import app
from factorgraph.studies import list_studies, report, run_studies

OWN = """
import xarray as xr
from factorgraph import FactorGraphError
from factorgraph.studies import Findings, number
ID, QUESTION, DATASETS, METHOD, HOME, UNSEEN = "{id}", "Is it {id}?", ("gemm-bf16",), "Made up.", (), ("l40s",)
def run():
    {body}
"""
GOOD = """result = xr.Dataset({"eta": ("sku", [0.25, 0.5], {"units": "1"})}, coords={"sku": ["l4", "l40s"]})
    return Findings(result, (number(result, "share", "eta", sku="l40s", reported=0.4),), "Differs.", "None.")"""
BAD = 'raise FactorGraphError("it cannot be asked")'


@pytest.fixture
def own(tmp_path, monkeypatch):
    folder = tmp_path / "studies"
    folder.mkdir()
    for name, body in (("X1", BAD), ("X2", GOOD)):
        (folder / f"{name}.py").write_text(OWN.replace("{id}", name).replace("{body}", body))
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    return tmp_path


def test_every_bundled_study_states_its_data_and_who_saw_them():
    known = {entry.name for entry in fg.list_datasets()}
    for study in list_studies():
        assert set(study.datasets) <= known
        assert not set(study.home) & set(study.unseen)


def test_numbers_are_traced_to_the_result(own):
    ((study, findings),) = run_studies(("X2",), own / "out")
    document = json.loads((own / "out" / "X2" / "numbers.json").read_text())
    (one,) = document["numbers"]
    stored = fg.results.read(own / "out" / one["file"])
    assert float(stored[one["variable"]].sel(one["selection"])) == one["value"] == 0.5
    assert len(document["datasets"]["gemm-bf16"]["data.nc"]) == 64
    assert (study.id, findings.verdict) == ("X2", "Differs.")
    assert "| share | 0.5 | - | 1 | 0.4 | X2/result.nc: eta[sku=l40s] |" in report(own / "out")


def test_a_failing_study_does_not_stop_the_others(own):
    result = CliRunner().invoke(app, ["study", "run", "X1", "X2", "--out", str(own / "out"), "--json"])
    document = json.loads(result.stdout)
    assert [study["id"] for study in document["studies"]] == ["X2"]
    assert document["failed"] == ["X1: it cannot be asked"]
    assert result.exit_code != 0


def test_a_run_is_the_same_bit_for_bit(tmp_path):
    files = []
    for name in ("first", "second"):
        list(run_studies(("E1.5",), tmp_path / name))
        files.append([(tmp_path / name / "E1.5" / file).read_bytes() for file in ("result.nc", "numbers.json")])
    assert files[0] == files[1]


def test_a_broken_or_incomplete_study_is_named(own):
    (own / "studies" / "Y.py").write_text("1 / 0\n")
    with pytest.raises(fg.FactorGraphError, match=r"study Y\.py cannot be loaded: ZeroDivisionError"):
        list_studies()
    (own / "studies" / "Y.py").write_text("ID = 'Y'\n")
    with pytest.raises(fg.FactorGraphError, match=r"study Y\.py states no QUESTION"):
        list_studies()


def test_unknown_studies_and_empty_folders_are_said(tmp_path):
    with pytest.raises(fg.UnknownNameError, match=r"unknown study 'E1\.55'; did you mean 'E1\.5'"):
        list(run_studies(("E1.55",), tmp_path))
    with pytest.raises(fg.FactorGraphError, match="run `factorgraph study run` first"):
        report(tmp_path)
