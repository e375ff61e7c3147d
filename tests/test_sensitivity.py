"""Derivatives against closed forms and against central differences in double precision."""

from typing import Annotated

import jax
import numpy as np
import pytest
from jax import Array

import factorgraph as fg
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, parameter
from factorgraph.graph import FactorGraph
from factorgraph.laws.clock import ClockRatio
from factorgraph.laws.wave import WholeWaves
from factorgraph.sensitivity import sensitivity, swing
from factorgraph.variables import Domain, Variable
from factorgraph.workload import load_model

Length = Annotated[Array, Variable("length", "m")]
Parts = Annotated[Array, Variable("parts", "m", Domain(-10.0, 10.0), ("part",))]
Whole = Annotated[Array, Variable("whole", "m")]
Area = Annotated[Array, Variable("area", "m^2")]
Perimeter = Annotated[Array, Variable("perimeter", "m")]


class SumOfParts(Factor):
    def __call__(self, parts: Parts) -> Whole:
        return parts.sum()


class PowerOfWhole(Factor):
    """area = scale * whole^2 * length^exponent"""

    scale: Array = parameter(3.0, source="a test")
    exponents: Array = parameter((1.0, 2.0), source="a test")

    def __call__(self, whole: Whole, length: Length) -> Area:
        return self.scale * whole**2 * length ** self.exponents.sum()


class Around(Factor):
    def __call__(self, length: Length, whole: Whole) -> Perimeter:
        return 2.0 * length + whole


@pytest.fixture(scope="module")
def yard():
    return FactorGraph([SumOfParts(), PowerOfWhole(), Around()])


@pytest.fixture
def place():
    return {"parts": [1.0, 3.0], "length": 2.0}


@pytest.fixture(scope="module")
def graph():
    return fg.step_graph()


@pytest.fixture(scope="module")
def decode():
    return load_model("llama-3.1-8b").decode(batch=48, context=3000)


def test_derivatives_and_elasticities_equal_their_closed_forms(yard, place):
    wrt = ["length", "whole", "parts", "area.scale", "area.exponents"]
    out = sensitivity(yard, place, wrt=wrt, outputs=["area", "perimeter"])
    area = 3.0 * 16 * 8
    expected = {
        "length": (3 * area / 2, 3.0),
        "whole": (2 * area / 4, 2.0),
        "parts": (2 * area, 2.0),
        "area.scale": (area / 3, 1.0),
        "area.exponents": (area * np.log(2.0) * 3, np.log(2.0) * 3),
    }
    for name, (derivative, elasticity) in expected.items():
        one = out.sel(parameter=name, output="area")
        assert float(one.derivative) == pytest.approx(derivative, rel=1e-5)
        assert float(one.elasticity) == pytest.approx(elasticity, rel=1e-5)
    assert float(out.derivative.sel(parameter="length", output="perimeter")) == pytest.approx(2.0)
    assert out.derivative_unit.sel(output="area").values.tolist() == ["m^2/m", "m^2/m", "m^2", "m^2", "m^2"]


def test_second_derivatives_and_cross_terms_equal_their_closed_forms(yard, place):
    out = sensitivity(yard, place, wrt=["length", "area.scale"], outputs=["area"], order=2).squeeze("output")
    second = out.second_derivative
    area = 3.0 * 16 * 8
    assert float(second.sel(parameter="length", parameter_2="length")) == pytest.approx(6 * area / 4, rel=1e-5)
    assert float(second.sel(parameter="length", parameter_2="area.scale")) == pytest.approx(3 * area / 6, rel=1e-5)
    assert float(second.sel(parameter="area.scale", parameter_2="length")) == pytest.approx(3 * area / 6, rel=1e-5)
    assert float(second.sel(parameter="area.scale", parameter_2="area.scale")) == pytest.approx(0.0, abs=1e-3)
    elasticity = out.second_elasticity.sel(parameter="length", parameter_2="area.scale")
    assert float(elasticity) == pytest.approx(3.0, rel=1e-5)
    assert str(out.second_derivative_unit.sel(parameter="length", parameter_2="length").values) == "m^2/m/m"


def test_many_outputs_and_many_parameters_agree_whichever_mode_is_taken(yard, place):
    forward = sensitivity(yard, place, wrt=["length"], outputs=["area", "perimeter"])
    reverse = sensitivity(yard, place, wrt=["length", "whole", "area.scale"], outputs=["area"])
    np.testing.assert_allclose(
        forward.derivative.sel(output="area", parameter="length"),
        reverse.derivative.sel(output="area", parameter="length"),
        rtol=1e-6,
    )


def test_something_at_zero_has_a_derivative_and_no_elasticity(yard, place):
    out = sensitivity(yard, {**place, "length": 0.0}, wrt=["length"], outputs=["perimeter"])
    assert float(out.derivative.squeeze()) == pytest.approx(2.0)
    assert float(out.elasticity.squeeze()) == 0.0


def _central_difference(look, at, step=1e-4):
    return (look(at * (1 + step)) - look(at * (1 - step))) / (2 * step * at)


def test_the_step_graph_agrees_with_central_differences_in_double_precision(decode, h100):
    values = {"sm_clock": 1.5e9, "power_cap": 350.0}
    wrt = ["sm_clock", "power_cap", "dram_bandwidth", "l2_capacity", "weight_bytes", "t_host.s1", "t_gemm"]
    single = sensitivity(fg.step_graph(), h100, decode, wrt=wrt, **values)
    with jax.enable_x64(True):
        graph = fg.step_graph()
        exact = sensitivity(graph, h100, decode, wrt=wrt, **values)
        given = fg.predict(graph, h100, decode, outputs=wrt[:5] + wrt[6:], **values).astype(float)

        def slope(name):
            def look(x):
                changed = graph.with_parameters({name: x}) if "." in name else graph
                scaled = {} if "." in name else {name: given[name] * x if given[name].dims else x}
                return float(changed.predict(h100, decode, outputs=["t_step"], **(values | scaled)).t_step)

            at = float(graph.parameters[name]) if "." in name else 1.0 if given[name].dims else float(given[name])
            return _central_difference(look, at)

        for name in wrt:
            assert float(exact.derivative.sel(parameter=name).squeeze()) == pytest.approx(slope(name), rel=2e-5), name
    np.testing.assert_allclose(single.elasticity, exact.elasticity, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["batch", "context"])
def test_a_number_of_the_step_acts_through_every_kernel(name, h100):
    """Compared where nothing is rounded up: whole tiles stay whole for a small move of the batch."""
    with jax.enable_x64(True):
        graph, model = fg.step_graph(), load_model("llama-3.1-8b")
        at = {"batch": jax.numpy.asarray(1000.0), "context": jax.numpy.asarray(3000.0)}
        exact = sensitivity(graph, h100, model.decode(**at), wrt=[name])

        def look(x):
            step = model.decode(**{**at, name: jax.numpy.asarray(x)})
            return float(graph.predict(h100, step, outputs=["t_step"]).t_step)

        slope = _central_difference(look, float(at[name]), step=1e-6)
    assert float(exact.derivative.squeeze()) == pytest.approx(slope, rel=1e-4)


def test_at_the_boost_clock_the_derivative_is_that_from_below_and_zero_above():
    graph = FactorGraph([ClockRatio()])
    base = {"boost_clock": 1.83e9, "sustained_clock": [1.83e9]}
    at = sensitivity(graph, base, wrt=["sustained_clock"], outputs=["eta_clock"])
    above = sensitivity(graph, {**base, "sustained_clock": [1.9e9]}, wrt=["sustained_clock"], outputs=["eta_clock"])
    assert at.elasticity.squeeze().item() == pytest.approx(1.0)
    assert above.elasticity.squeeze().item() == 0.0


def test_a_rounding_up_has_no_derivative_but_a_swing():
    graph = FactorGraph([WholeWaves()])
    ones = {"gemm_groups": [1.0], "slices": [[1.0]]}
    base = {"m": [1024.0], "n": [4096.0], "tile_m": [128.0], "tile_n": [128.0], **ones}
    slope = sensitivity(graph, base, wrt=["sm_count"], outputs=["waves"], sm_count=132.0)
    assert slope.derivative.squeeze().item() == 0.0
    out = {count: graph.predict(base, sm_count=count).waves.item() for count in (128.0, 127.0)}
    assert out == {128.0: 2.0, 127.0: 3.0}


def test_cards_and_sweeps_become_dimensions(graph, decode, h100):
    out = sensitivity(
        graph, h100, decode, wrt=["sm_clock", "batch"], outputs=["t_step", "t_gpu"], power_cap=[300.0, 700.0]
    )
    assert out.derivative.dims == ("parameter", "output", "power_cap")
    assert out.power_cap.values.tolist() == [300.0, 700.0]
    single = sensitivity(graph, h100, decode, wrt=["batch"], power_cap=300.0)
    np.testing.assert_allclose(
        out.derivative.sel(parameter="batch", output="t_step", power_cap=300.0), single.derivative.squeeze(), rtol=1e-4
    )


def test_a_list_of_steps_becomes_a_dimension_though_their_kernels_differ(graph, decode, h100):
    prefill = load_model("llama-3.1-8b").prefill(batch=1, prompt=2048)
    out = sensitivity(graph, h100, [decode, prefill], wrt=["dram_bandwidth"])
    assert out.derivative.dims[0] == "step"
    assert float(abs(out.elasticity.isel(step=1).squeeze())) < float(abs(out.elasticity.isel(step=0).squeeze()))


def test_outputs_on_a_plate_bring_it_along(graph, decode, h100):
    out = sensitivity(graph, h100, decode, wrt=["dram_bandwidth"], outputs=["t_gemm", "eta_clock"])
    assert out.derivative.dims == ("parameter", "output", "gemm")
    assert "lm_head" in out.gemm.values


def test_a_variable_given_in_place_of_the_steps_no_longer_follows_the_step(graph, decode, h100):
    held = fg.predict(graph, h100, decode).kv_len
    out = sensitivity(graph, h100, decode, wrt=["context"], kv_len=held)
    assert float(out.derivative.squeeze()) == 0.0


@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        (["sm_clok"], "did you mean 'sm_clock'"),
        (["t_host.s9"], "did you mean 't_host.s"),
        (["tp"], "use swing"),
        ([], "at least one"),
        (["batch", "batch"], "each once"),
    ],
)
def test_a_name_that_cannot_be_moved_is_refused(wrt, message, graph, decode, h100):
    with pytest.raises(FactorGraphError, match=message):
        sensitivity(graph, h100, decode, wrt=wrt)


def test_outputs_that_cannot_be_shown_together_are_refused(graph, decode, h100):
    with pytest.raises(FactorGraphError, match="different plates"):
        sensitivity(graph, h100, decode, wrt=["sm_clock"], outputs=["t_step", "t_gemm"])
    with pytest.raises(UnknownNameError, match="did you mean 't_step'"):
        sensitivity(graph, h100, decode, wrt=["sm_clock"], outputs=["t_stp"])
    with pytest.raises(FactorGraphError, match="order"):
        sensitivity(graph, h100, decode, wrt=["sm_clock"], order=3)


def test_a_swing_is_the_difference_of_two_predictions(graph, decode, h100):
    over = {
        "sm_count": (120, 132),
        "batch": (32, 64),
        "tp": (1, 2),
        "t_host.s0": (0.0, 1e-3),
    }
    out = swing(graph, h100, decode, over=over)
    model = load_model("llama-3.1-8b")

    def time(step=decode, graph=graph, **values):
        return float(graph.predict(h100, step, outputs=["t_step"], **values).t_step)

    expected = {
        "sm_count": time(sm_count=132) - time(sm_count=120),
        "batch": time(model.decode(batch=64, context=3000)) - time(model.decode(batch=32, context=3000)),
        "tp": time(model.decode(batch=48, context=3000, tp=2)) - time(),
        "t_host.s0": 1e-3,
    }
    for name, change in expected.items():
        assert float(out.change.sel(parameter=name).squeeze()) == pytest.approx(change, rel=1e-4)
    assert out.start.values.tolist() == ["120", "32", "1", "0.0"]


@pytest.mark.parametrize("name", ["sm_cout", "t_host.s9", "weigths"])
def test_a_swing_over_an_unknown_name_is_refused(name, graph, decode, h100):
    with pytest.raises(UnknownNameError):
        swing(graph, h100, decode, over={name: (1, 2)})


def test_a_swing_holds_choices_to_the_model(graph, decode, h100):
    with pytest.raises(FactorGraphError, match="cannot be split"):
        swing(graph, h100, decode, over={"tp": (1, 3)})


def test_an_output_of_zero_has_no_elasticity_and_one_that_would_be_infinite_is_refused(yard, place):
    still = sensitivity(yard, {**place, "length": 0.0}, wrt=["area.scale"], outputs=["area"])
    assert float(still.elasticity.squeeze()) == 0.0
    opposed = {"parts": [-4.0, 0.0], "length": 2.0}
    with pytest.raises(FactorGraphError, match="elasticity of 'perimeter' by 'length' is not finite"):
        sensitivity(yard, opposed, wrt=["length"], outputs=["perimeter"])


@pytest.mark.parametrize(("over", "message"), [({}, "over nothing"), ({"tp": 2}, "two"), ({"kv": "fp8"}, "two")])
def test_a_swing_needs_two_values(over, message, graph, decode, h100):
    with pytest.raises(FactorGraphError, match=message):
        swing(graph, h100, decode, over=over)
