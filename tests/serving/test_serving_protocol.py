"""The constants that the package ships are those that its protocol fits."""

import pytest

import factorgraph as fg
from factorgraph.serving.graph import fitted
from factorgraph.serving.protocol import FREE, fit_serving, splits
from factorgraph.serving.rows import serving_rows


def test_the_file_belongs_to_the_bundled_data():
    entry = next(entry for entry in fg.list_datasets() if entry.name == fitted()["dataset"])
    assert fitted()["sha256"] == {name: file.sha256 for name, file in entry.files.items()}


def test_every_split_is_fitted_on_its_home():
    fits = {name: one for name, one in fitted()["fits"].items() if not name.startswith("calibrated")}
    assert {name: tuple(one["home"]) for name, one in fits.items()} == splits()
    assert all(set(one["constants"]) == set(FREE) for one in fitted()["fits"].values())


def test_five_constants_and_none_for_a_device():
    graphs = fg.engine_step_graph(), fg.serving_graph()
    assert len(FREE) == 5
    for path in FREE:
        owner = next(graph for graph in graphs if path in graph.parameters)
        assert owner.parameters[path].shape == ()
        info = owner.parameter_info(path)
        assert info.lower < float(owner.parameters[path]) < info.upper


def test_home_can_be_fitted_again():
    rows = serving_rows(fg.load_dataset("serving"), sku="h100-sxm")
    graphs = fg.engine_step_graph(constants=None), fg.serving_graph(constants=None)
    assert fit_serving(*graphs, rows, ("h100-sxm",)) == pytest.approx(fitted()["fits"]["home"]["constants"], rel=0.02)


def test_a_fit_needs_rows():
    rows = serving_rows(fg.load_dataset("serving"), sku="b300")
    with pytest.raises(fg.FactorGraphError, match="no dense row of h100-sxm"):
        fit_serving(fg.engine_step_graph(), fg.serving_graph(), rows, ("h100-sxm",))
