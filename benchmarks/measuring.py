"""How a benchmark states a result, and how it takes time."""

import dataclasses
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Line:
    """One result.

    Attributes:
        what: what was measured.
        value: the figure with its unit, as text.
        ratio: the figure over its yardstick; a machine's speed cancels out of it.
        against: the yardstick.
    """

    what: str
    value: str
    ratio: float
    against: str


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Shortest time of a call, after one that is not counted because it may compile.

    The shortest, because whatever else the machine does can only add to it.
    """
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
