"""The time of one call from runs of two lengths, whose difference leaves out what every run costs once."""

import dataclasses
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

_MOST_ROUNDS = 1 << 20
_LARGEST_LEAP = 32.0
_NOTHING = nullcontext()


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long one call took.

    Attributes:
        seconds: median over the repeats; NaN where the clock could not tell the two lengths apart.
        spread: distance of the quartiles over the median.
        calls: by how many calls the longer run exceeds the shorter.
    """

    seconds: float
    spread: float
    calls: int


def time_per_call(
    run: Callable[[int], None],
    *,
    clock: Callable[[], float],
    calls_per_round: int,
    least: float,
    repeats: int,
    during: AbstractContextManager[object] = _NOTHING,
) -> Timing:
    """Time runs of one round and of many, in turn; (t_many - t_one) / (calls in between) is the time of a call.

    A run is one launch, whatever its length, so that the launch, and whatever else is paid once a run, cancels.

    Args:
        run: does so many rounds and returns when they are done.
        clock: seconds, such as `time.perf_counter`.
        calls_per_round: calls of the measured program in a round.
        least: how long the longer run must last, s.
        repeats: pairs of runs.
        during: entered for the pairs alone, without what is compiled before them.

    Examples:
        >>> now = [0.0]
        >>> def run(rounds):
        ...     now[0] += 0.5 + 0.25 * rounds
        >>> time_per_call(run, clock=lambda: now[0], calls_per_round=1, least=4.0, repeats=3)
        Timing(seconds=0.25, spread=0.0, calls=15)
    """

    def elapsed(rounds: int) -> float:
        start = clock()
        run(rounds)
        return clock() - start

    run(1)  # compiles, and touches every buffer for the first time
    rounds, taken = 1, elapsed(1)
    while rounds == 1 or (taken < least and rounds < _MOST_ROUNDS):
        growth = least / taken if taken > 0.0 else _LARGEST_LEAP
        # Powers of two, so that few lengths are compiled; no great leap on the word of one short run.
        rounds = min(rounds * 2 ** math.ceil(math.log2(min(max(growth, 2.0), _LARGEST_LEAP))), _MOST_ROUNDS)
        run(rounds)
        taken = elapsed(rounds)
    between = (rounds - 1) * calls_per_round
    with during:
        each = np.array([elapsed(rounds) - elapsed(1) for _ in range(repeats)]) / between
    low, median, high = np.quantile(each, (0.25, 0.5, 0.75))
    if median <= 0.0:
        return Timing(math.nan, math.nan, between)
    return Timing(float(median), float((high - low) / median), between)
