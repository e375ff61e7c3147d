"""Two step graphs on kernels and on the wall clock, against numbers got another way."""

import pytest

import factorgraph as fg
from factorgraph.evaluation.serving import evaluate_serving
from factorgraph.studies import list_studies


@pytest.fixture(scope="module")
def found():
    return next(study for study in list_studies() if study.id == "E1.16").run()


def test_the_engine_graph_errs_as_its_own_evaluation_says(found):
    scored = evaluate_serving(fg.load_dataset("serving"))
    expected = scored.overall["dense"]["tpot_mape"]
    assert float(found.result.wall_mape.sel(graph="engine")) == pytest.approx(expected, rel=1e-3)


def test_the_verdict_is_the_one_that_the_numbers_give(found):
    wall = found.result.wall_mape
    assert found.verdict.startswith(
        "Differs" if wall.sel(graph="per-kernel") < wall.sel(graph="base") else "Reproduced"
    )
    kernels = found.result.kernel_mape
    assert (kernels.sel(graph="per-kernel") < kernels.sel(graph="base")).all()
