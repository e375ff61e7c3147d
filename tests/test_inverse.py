"""Targets are met where the answer says, and nowhere else; no solution is an answer."""

from typing import Annotated

import numpy as np
import pytest
from jax import Array

import factorgraph as fg
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, parameter
from factorgraph.graph import FactorGraph
from factorgraph.inverse import solve_for
from factorgraph.variables import Domain, TStep, Variable
from factorgraph.workload import load_model

Level = Annotated[Array, Variable("level", "W", Domain(0.0, 100.0))]
Count = Annotated[Array, Variable("count", "1", Domain(1, 1e6, integer=True))]
Levels = Annotated[Array, Variable("levels", "W", plates=("part",))]


class Valley(Factor):
    """t_step = (level - bottom)^2 + floor"""

    bottom: Array = parameter(5.0, source="a test")
    floor: Array = parameter(1.0, source="a test")

    def __call__(self, level: Level) -> TStep:
        return (level - self.bottom) ** 2 + self.floor


class Hill(Factor):
    def __call__(self, level: Level) -> TStep:
        return 10.0 - (level - 5.0) ** 2 / 5.0


class Stairs(Factor):
    def __call__(self, level: Level, count: Count) -> TStep:
        import jax.numpy as jnp

        return jnp.ceil(level / 3.0) + 0.0 * count


class Parity(Factor):
    def __call__(self, count: Count) -> TStep:
        return count % 4.0


@pytest.fixture(scope="module")
def graph():
    return fg.step_graph()


@pytest.fixture(scope="module")
def decode():
    return load_model("llama-3.1-8b").decode(batch=64, context=2048)


def test_both_ends_of_a_valley_are_found_in_closed_form():
    found = solve_for(FactorGraph([Valley()]), {"level": 1.0}, quantity="level", between=(0, 10), at_most=3.0)
    assert found.smallest == pytest.approx(5 - np.sqrt(2), rel=1e-5)
    assert found.largest == pytest.approx(5 + np.sqrt(2), rel=1e-5)
    assert len(found.intervals) == 1
    assert found.best[0] == pytest.approx(5.0, abs=10 / 512)


def test_a_target_met_on_both_sides_of_a_hill_has_two_intervals():
    found = solve_for(FactorGraph([Hill()]), {"level": 1.0}, quantity="level", between=(0, 10), at_most=9.0)
    first, second = found.intervals
    assert first == pytest.approx((0.0, 5 - np.sqrt(5)), rel=1e-5)
    assert second == pytest.approx((5 + np.sqrt(5), 10.0), rel=1e-5)
    assert str(found) == "t_step <= 9 at level 0 to 2.7639 W and 7.2361 to 10 W"


def test_no_solution_is_an_answer_that_names_the_nearest():
    found = solve_for(FactorGraph([Valley()]), {"level": 1.0}, quantity="level", between=(0, 10), at_most=0.5)
    assert not found.exists
    assert (found.smallest, found.largest) == (None, None)
    assert str(found) == "no level from 0 to 10 W meets t_step <= 0.5; the least is 1, at 5 W"


def test_a_target_met_everywhere_gives_the_whole_range():
    found = solve_for(FactorGraph([Valley()]), {"level": 1.0}, quantity="level", between=(4, 6), at_most=3.0)
    assert found.intervals == ((4.0, 6.0),)


def test_a_constant_of_a_law_can_be_searched_for():
    found = solve_for(FactorGraph([Valley()]), {"level": 5.0}, quantity="t_step.floor", between=(0, 10), at_most=3.0)
    assert found.largest == pytest.approx(3.0, rel=1e-5)


def test_a_jump_is_found_too():
    graph, base = FactorGraph([Stairs()]), {"level": 1.0, "count": 1.0}
    found = solve_for(graph, base, quantity="level", between=(0.5, 20), at_most=4.0)
    assert found.largest == pytest.approx(12.0, rel=1e-5)
    assert float(graph.evaluate({"level": found.largest, "count": 1.0})["t_step"]) <= 4.0


def test_whole_numbers_are_all_tried():
    found = solve_for(FactorGraph([Parity()]), {"count": 1.0}, quantity="count", between=(1, 10), at_most=1.5)
    assert found.intervals == ((1.0, 1.0), (4.0, 5.0), (8.0, 9.0))


def test_the_largest_batch_is_the_last_that_meets_the_target(graph, h100, decode):
    found = solve_for(graph, h100, decode, quantity="batch", between=(1, 256), at_most=0.02)
    model = load_model("llama-3.1-8b")

    def time(batch):
        return float(graph.predict(h100, model.decode(batch=batch, context=2048), outputs=["t_step"]).t_step)

    assert time(int(found.largest)) <= 0.02 < time(int(found.largest) + 1)


def test_the_smallest_cap_meets_the_target_and_a_smaller_one_does_not(graph, h100):
    prefill = load_model("llama-3.1-8b").prefill(batch=2, prompt=2048)

    def time(cap):
        return float(graph.predict(h100, prefill, outputs=["t_step"], power_cap=cap).t_step)

    target = 1.2 * time(700.0)
    found = solve_for(graph, h100, prefill, quantity="power_cap", between=(150.0, 700.0), at_most=target)
    assert 150.0 < found.smallest < 700.0
    assert time(found.smallest) <= target * (1 + 1e-6)
    assert time(found.smallest * 0.999) > target


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"quantity": "power_cup"}, UnknownNameError, "did you mean 'power_cap'"),
        ({"output": "t_stp"}, UnknownNameError, "did you mean 't_step'"),
        ({"output": "t_gemm"}, FactorGraphError, "one number a kernel"),
        ({"quantity": "eta_mem"}, FactorGraphError, "computed by a law"),
        ({"quantity": "kv_len"}, FactorGraphError, "more than one number"),
        ({"quantity": "tp"}, FactorGraphError, "choice"),
        ({"between": (700.0, 300.0)}, FactorGraphError, "low to high"),
        ({"between": (300.0,)}, FactorGraphError, "low to high"),
        ({"at_most": 0.0}, FactorGraphError, "above zero"),
        ({"between": (0.0, 300.0)}, FactorGraphError, "domain"),
        ({"quantity": "batch", "between": (0, 10)}, FactorGraphError, "begin at 1"),
        ({"quantity": "batch", "between": (1, 1e6)}, FactorGraphError, "whole numbers"),
        ({"sm_clock": [1e9, 1.5e9]}, FactorGraphError, "spans sm_clock"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(asked, error, message, graph, h100, decode):
    asked = {"quantity": "power_cap", "between": (300.0, 700.0), "at_most": 0.02} | asked
    with pytest.raises(error, match=message):
        solve_for(graph, h100, decode, **asked)
