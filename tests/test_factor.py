"""A law's signature is read as edges, and what cannot be read is said in one sentence."""

from typing import Annotated

import jax
import jax.numpy as jnp
import pytest
from jax import Array

from factorgraph import Factor, FactorGraphError, Given, Variable, parameter
from factorgraph.variables import DramBandwidth, EtaMem, TileM, Traffic, TStep


class Latency(Factor):
    """The example of the README."""

    t_latency: Array = parameter(1.3e-6, unit="s", source="test")
    monotone = {"traffic": +1, "dram_bandwidth": -1}

    def __call__(self, traffic: Traffic, dram_bandwidth: DramBandwidth) -> EtaMem:
        return traffic / (traffic + self.t_latency * dram_bandwidth)


def test_signature_gives_the_edges():
    law = Latency()
    assert [v.name for v in law.inputs] == ["traffic", "dram_bandwidth"]
    assert law.output.name == "eta_mem"
    assert law.parameters["t_latency"].unit == "s"


def test_a_law_is_a_plain_function_of_scalars():
    # 1 MB against 1.3 us * 1 TB/s = 1.3 MB in flight: 1 / 2.3
    assert float(Latency()(1e6, 1e12)) == pytest.approx(1 / 2.3, rel=1e-6)


def test_parameters_are_float_array_leaves():
    leaves = jax.tree.leaves(Latency(t_latency=2))
    assert [leaf.dtype.kind for leaf in leaves] == ["f"]
    assert float(leaves[0]) == 2.0


def test_given_supplies_its_variable():
    law = Given(TileM, [64, 128])
    assert law.inputs == ()
    assert law.output.name == "tile_m"
    assert law().tolist() == [64.0, 128.0]


class Unannotated(Factor):
    def __call__(self, traffic) -> EtaMem:
        return traffic


class Misnamed(Factor):
    def __call__(self, bytes_moved: Traffic) -> EtaMem:
        return bytes_moved


class NoReturn(Factor):
    def __call__(self, traffic: Traffic):
        return traffic


class Starred(Factor):
    def __call__(self, *traffic: Traffic) -> EtaMem:
        return traffic[0]


class Defaulted(Factor):
    def __call__(self, traffic: Traffic = 1.0) -> EtaMem:
        return traffic


class SelfFeeding(Factor):
    def __call__(self, eta_mem: EtaMem) -> EtaMem:
        return eta_mem


class WrongMonotone(Factor):
    monotone = {"trafic": +1}

    def __call__(self, traffic: Traffic) -> TStep:
        return traffic


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Unannotated, "law Unannotated: input 'traffic' is not annotated with a variable"),
        (Misnamed, "rename the input to 'traffic'"),
        (NoReturn, "law NoReturn: the return annotation is no variable"),
        (Starred, "'\\*traffic' names no variable; list the inputs one by one"),
        (Defaulted, "input 'traffic' has a default; make it a field"),
        (SelfFeeding, "'eta_mem' is both input and output"),
        (WrongMonotone, "monotone names trafic, which is no input; the inputs are traffic"),
    ],
)
def test_a_signature_that_is_no_set_of_edges_is_refused(law, message):
    with pytest.raises(FactorGraphError, match=message):
        law()


def test_a_parameter_outside_its_bounds_is_refused():
    with pytest.raises(FactorGraphError, match="must lie in its bounds"):
        parameter(2.0, source="test", upper=1.0)


def test_an_unreadable_unit_is_refused():
    with pytest.raises(FactorGraphError, match="'furlongs per fortnite' is not a unit"):
        Variable("speed", "furlongs per fortnite")


def test_a_variable_needs_an_identifier():
    with pytest.raises(FactorGraphError, match="must be a Python identifier"):
        Variable("sm clock", "Hz")


Outer = Annotated[Array, Variable("outer", "1")]


def test_annotations_of_ones_own_are_enough():
    class Mine(Factor):
        def __call__(self, outer: Outer) -> TStep:
            return jnp.abs(outer)

    assert Mine().inputs[0].name == "outer"
