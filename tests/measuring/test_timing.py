"""The arithmetic of timing, on a clock that only the run moves."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorgraph.measuring.rotation import MOST_COPIES, copies_beyond
from factorgraph.measuring.timing import time_per_call


class FakeMachine:
    """A run takes `once` and `each` a round, and more where `noise` says so."""

    def __init__(self, once: float, each: float, noise=lambda: 0.0):
        self.now, self.once, self.each, self.noise, self.longest = 0.0, once, each, noise, 0.0

    def run(self, rounds: int) -> None:
        taken = self.once + self.each * rounds + self.noise()
        self.now += taken
        self.longest = max(self.longest, taken)

    def time(self, **settings):
        settings = {"calls_per_round": 1, "least": 0.1, "repeats": 5} | settings
        return time_per_call(self.run, clock=lambda: self.now, **settings)


@given(
    once=st.floats(0.0, 0.01),
    each=st.floats(1e-5, 1.0),
    calls=st.integers(1, 64),
    least=st.floats(0.01, 0.3),
)
def test_the_cost_of_a_call_is_recovered_whatever_a_launch_costs(once, each, calls, least):
    machine = FakeMachine(once, each)
    timing = machine.time(calls_per_round=calls, least=least)
    assert timing.seconds == pytest.approx(each / calls, rel=1e-6)
    assert timing.spread == pytest.approx(0.0, abs=1e-6)
    assert timing.calls % calls == 0
    assert machine.longest >= least


def test_one_slow_repeat_does_not_move_the_median():
    delays = iter([0.0] * 14 + [50.0] + [0.0] * 100)
    machine = FakeMachine(0.0, 0.25, lambda: next(delays))
    assert machine.time(repeats=9).seconds == pytest.approx(0.25)


def test_the_spread_is_that_of_the_quartiles():
    draw = np.random.default_rng(1)
    machine = FakeMachine(0.0, 1.0, lambda: draw.normal(0.0, 0.01))
    # One round more: the difference of two normal errors, whose quartiles are 1.349 standard deviations apart.
    assert machine.time(repeats=4000).spread == pytest.approx(1.349 * 0.01 * math.sqrt(2.0), rel=0.1)


def test_what_goes_on_meanwhile_is_looked_at_for_the_repeats_alone():
    machine, entered = FakeMachine(0.0, 0.25), []

    @contextlib.contextmanager
    def look():
        entered.append(machine.now)
        yield
        entered.append(machine.now)

    timing = machine.time(least=0.1, repeats=4, during=look())
    start, end = entered
    assert start > 0.0
    assert end == machine.now
    assert end - start == pytest.approx(4 * 0.25 * (timing.calls + 2))


def test_a_clock_that_stands_still_gives_no_number():
    timing = time_per_call(lambda rounds: None, clock=lambda: 0.0, calls_per_round=1, least=0.1, repeats=3)
    assert math.isnan(timing.seconds)
    assert math.isnan(timing.spread)


@given(cache=st.floats(1e5, 1e9), operand=st.floats(1e3, 1e9))
def test_copies_fill_more_than_the_cache_or_there_are_none(cache, operand):
    copies = copies_beyond(cache, operand)
    if copies is None:
        assert MOST_COPIES * operand < 1.5 * cache
    else:
        assert copies >= 2
        # Even without the one that is in use.
        assert (copies - 1) * operand >= 0.5 * cache
        assert copies * operand >= 1.5 * cache
