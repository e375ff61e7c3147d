"""What the strategies draw stays within what they promise."""

import math

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from factorgraph import Domain, FactorGraphError, Variable, load_sku
from factorgraph.datasets.schema import KINDS, conform
from factorgraph.laws.gemm import GemmWork
from factorgraph.laws.total import GemmTotal, OverlappedHost
from factorgraph.testing import datasets, gemm_shapes, graphs, skus, values_for, variables, workloads
from factorgraph.testing.strategies import values_of

CLOCK = Variable("my_clock", "Hz", Domain(1e8, 4e9))
COUNT = Variable("my_count", "1", Domain(1, 1e6, integer=True))
TIME = Variable("my_time", "s", Domain(0.0))


@given(st.data(), variables())
def test_values_lie_in_the_domain_and_count_where_it_counts(data, variable):
    low, high = variable.domain.lower, variable.domain.upper
    if variable.domain.integer and math.ceil(low) > math.floor(min(high, 1e12)):
        return  # no whole number lies in it
    value = data.draw(values_of(variable))
    assert variable.domain.contains(value)
    assert not variable.domain.integer or value == round(value)


@pytest.mark.parametrize("wanted", [1e8, 4e9])
def test_the_ends_of_a_domain_are_drawn(wanted):
    assert find(values_of(CLOCK), lambda value: value == wanted) == wanted


def test_zero_denormals_and_large_numbers_are_drawn():
    assert find(values_of(TIME), lambda value: value == 0.0) == 0.0
    assert 0.0 < find(values_of(TIME), lambda value: 0.0 < value < np.finfo(np.float32).tiny) < 1.2e-38
    assert find(values_of(TIME), lambda value: value > 1e11) > 1e11


def test_every_order_of_magnitude_is_drawn():
    seen = set()

    @settings(max_examples=300)
    @given(values_of(TIME))
    def look(value):
        if value > 1e-20:
            seen.add(math.floor(math.log10(value)))

    look()
    assert seen >= set(range(-9, 12))


def test_counts_are_drawn_small_and_large():
    assert find(values_of(COUNT), lambda value: value > 1e5) > 1e5
    assert find(values_of(COUNT), lambda value: True) == 1.0


def test_two_values_of_one_unit_are_alike_now_and_then():
    drawn = find(values_for(OverlappedHost()), lambda values: values["t_gpu"] == values["t_host"] != 0.0)
    assert drawn["t_gpu"] == drawn["t_host"]


@given(values_for(GemmTotal()))
def test_what_a_law_reduces_is_drawn_as_lists_of_one_length(values):
    assert len(values["t_gemm"]) == len(values["gemm_count"]) <= 5


@given(values_for(GemmWork()))
def test_what_a_law_maps_over_is_drawn_as_numbers(values):
    assert set(values) == {"m", "n", "k", "gemm_groups"}
    assert all(isinstance(value, float) for value in values.values())


@given(skus())
def test_a_drawn_card_is_coherent(sku):
    original = load_sku(sku.name)
    assert sku.peak_flops("bf16") == sku.sm_count * sku.flop_per_clock_per_sm["bf16"] * sku.boost_clock
    assert 0.49 * original.sm_count <= sku.sm_count <= original.sm_count
    assert sku.boost_clock <= sku.max_clock
    assert sku.power_cap <= sku.power_cap_max
    ratio = sku.dram_bandwidth / sku.dram_capacity
    assert ratio == pytest.approx(original.dram_bandwidth / original.dram_capacity)


def test_a_card_shrinks_to_the_real_one():
    real = load_sku("l40s")
    drawn = find(skus(names=st.just("l40s")), lambda sku: True)
    assert (drawn.sm_count, drawn.boost_clock, drawn.power_cap) == (real.sm_count, real.boost_clock, real.power_cap)


@given(gemm_shapes(m=st.just(64)))
def test_shapes_are_whole_numbers_of_sixty_fours(shape):
    assert shape["m"] == 64.0
    assert shape["n"] % 64 == shape["k"] % 64 == 0


@settings(max_examples=30)
@given(workloads())
def test_a_drawn_step_supplies_whole_plates(step):
    values, coords = step.values(), step.coords
    assert len(values["m"]) == len(coords["gemm"])
    assert float(np.min(values["m"])) >= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_datasets_conform_to_their_schema(kind):
    @settings(max_examples=10)
    @given(datasets(kind))
    def conforms(dataset):
        assert conform(dataset).sizes["row"] >= 1

    conforms()


@settings(max_examples=30)
@given(graphs())
def test_drawn_graphs_are_whole(graph):
    given_or_read = set(graph.input_names) | {output.name for output in graph.outputs}
    assert all(variable.name in given_or_read for factor in graph.factors for variable in factor.inputs)


def test_graphs_hold_other_laws_than_the_ones_they_began_with():
    swapped = find(graphs(), lambda graph: "t_step" in graph and graph["t_step"].law_name == "OverlappedHost")
    assert swapped["t_step"].law_name == "OverlappedHost"


@pytest.mark.parametrize(
    ("strategy", "argument"),
    [(skus, "names"), (workloads, "models"), (gemm_shapes, "m"), (variables, "units"), (graphs, "bases")],
)
def test_a_bare_value_in_place_of_a_strategy_is_told(strategy, argument):
    with pytest.raises(
        FactorGraphError, match=rf"{argument}=7 is no strategy; write for example {argument}=st\.just\("
    ):
        strategy(**{argument: 7})
