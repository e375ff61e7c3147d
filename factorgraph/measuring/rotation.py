"""How many copies of an operand to cycle, so that each is gone from the cache when its turn comes again."""

import math

# The whole cycle against the cache: beyond one, a cache that evicts what was used longest ago holds none of it.
BEYOND = 1.5
# Every copy is an argument of the compiled program, which takes the longer to compile the more there are.
MOST_COPIES = 32


def copies_beyond(cache_bytes: float, operand_bytes: float) -> int | None:
    """Copies of an operand whose sum is one and a half times the cache; None where that takes more than 32.

    Examples:
        >>> copies_beyond(50 * 2**20, 8 * 2**20)
        10
        >>> copies_beyond(50 * 2**20, 4096) is None
        True
    """
    copies = max(2, math.ceil(BEYOND * cache_bytes / operand_bytes))
    return copies if copies <= MOST_COPIES else None
