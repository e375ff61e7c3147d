"""The schema: all faults at once, each with its variable and its mend."""

import numpy as np
import pytest
import xarray as xr

import factorgraph as fg
from factorgraph.datasets import SchemaError, conform
from factorgraph.datasets.schema import FACTS, KINDS, kind_of


def gemm(**changes) -> xr.Dataset:
    said = {fact.name: "unknown" for fact in FACTS} | {"kind": "gemm", "title": "two products"}
    sizes = {name: ("shape", [16, 4096], {"units": "1"}) for name in ("m", "n", "k")}
    return xr.Dataset({"latency": ("shape", [4e-6, 3e-4], {"units": "s"})}, sizes, said | changes)


def faults(dataset: xr.Dataset) -> dict[str, str]:
    with pytest.raises(SchemaError) as raised:
        conform(dataset)
    assert all(fault.mend for fault in raised.value.faults)
    return {fault.variable: fault.problem for fault in raised.value.faults}


def test_the_kinds_of_the_house():
    asked = {"gemm", "attention", "light", "collective", "bandwidth", "clock_power", "step", "serving", "reported"}
    assert asked <= set(KINDS)
    with pytest.raises(fg.UnknownNameError, match="unknown kind of dataset 'gem'; did you mean 'gemm'"):
        kind_of("gem")


def test_every_fault_is_named_at_once():
    bad = gemm(cache_state="hot", title="").drop_vars("k").drop_attrs(deep=False)
    bad.attrs = {"kind": "gemm", "cache_state": "hot", "licence": "CC0"}
    bad["m"] = ("shape", [16.5, 4096.0], {"units": "1"})
    bad["n"] = ("shape", [16, -4096], {"units": "1"})
    bad["latency"] = ("shape", [4e-6, np.inf], {"units": "B"})
    bad["extra"] = ("shape", [1.0, 2.0])
    found = faults(bad.set_coords(["m", "n"]))
    assert found["k"] == "is missing"
    assert found["m"] == "counts something but is not whole"
    assert found["n"] == "is zero or negative in 1 places"
    assert found["latency"].startswith("has a wrong unit (latency is in 'B', which cannot be read as 's'")
    assert found["extra"] == "has no unit"
    assert found["title"] == "is missing"
    assert found["cache_state"] == "is 'hot'"
    assert found["sku"] == found["operand_values"] == "is not said"
    assert "licence" not in found
    assert len(found) == 7 + len(FACTS) - 2


def test_the_message_names_variable_and_mend():
    with pytest.raises(SchemaError, match=r"x\.nc has a fault: latency is zero or negative in 1 places; leave"):
        conform(gemm().assign(latency=("shape", [0.0, 1.0], {"units": "s"})), title="x.nc")


@pytest.mark.parametrize(
    ("values", "attributes", "problem"),
    [
        ([np.nan, np.nan], {"units": "s"}, "holds no measurement"),
        ([1.0, np.inf], {"units": "s"}, "is infinite in 1 places"),
        ([1.0, 2.0], {}, "has no unit"),
        (["a", "b"], {"units": "s"}, "holds <U1"),
        ([1.0, 2.0], {"units": "sse"}, "has a wrong unit"),
    ],
)
def test_faults_of_a_measurement(values, attributes, problem):
    assert faults(gemm().assign(latency=("shape", values, attributes)))["latency"].startswith(problem)


def test_a_measurement_may_be_absent_but_a_label_may_not():
    assert np.isnan(conform(gemm().assign(latency=("shape", [np.nan, 1.0], {"units": "s"}))).latency[0])
    volume = {"volume": ("row", [np.nan, 64.0], {"units": "B"}), "bandwidth": ("row", [1.0, 2.0], {"units": "B/s"})}
    said = {fact.name: "unknown" for fact in FACTS} | {"kind": "bandwidth", "title": "two windows"}
    assert faults(xr.Dataset(volume, attrs=said)) == {"volume": "is absent in 1 places"}


def test_counts_that_became_floats_are_counts_again():
    floats = gemm().assign_coords(m=("shape", [16.0, 4096.0], {"units": "1"}))
    assert conform(floats).m.dtype == np.int64


def test_facts_may_vary_along_a_coordinate():
    varying = gemm().assign_coords(cache_state=("shape", ["cold", "warm"]))
    xr.testing.assert_identical(conform(varying), varying)
    found = faults(gemm().assign_coords(cache_state=("shape", ["cold", "hot"])))
    assert found == {"cache_state": "is 'hot'"}


def test_one_of_several_results_is_asked_for():
    said = {fact.name: "unknown" for fact in FACTS} | {"kind": "serving", "title": "a load"}
    assert faults(xr.Dataset({"model": ("row", ["llama"])}, attrs=said)) == {
        "ttft or tpot or request_rate or token_rate": "is missing"
    }


def test_text_on_one_line_and_a_kind_that_exists():
    assert faults(gemm().assign_coords(sku=("shape", ["a\nb", "c"]))) == {"sku": "holds control characters"}
    assert faults(gemm(kind="gem"))["kind"] == "is 'gem'"
    assert faults(xr.Dataset())["kind"] == "is None"
    assert faults(gemm().isel(shape=[]))["shape"] == "is a dimension of no length"
