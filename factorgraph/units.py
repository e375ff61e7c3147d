"""Units: read, checked and converted once, at the edge. Inside, every number is in s, B, FLOP, Hz, W or bare."""

import functools
import logging
from typing import Any

import pint

from factorgraph.errors import FactorGraphError


@functools.cache
def registry() -> pint.UnitRegistry:
    """The one pint registry, with byte, FLOP and SM-clock as units of their own kind."""
    ureg = pint.UnitRegistry()
    ureg.define("FLOP = [operation] = flop")
    # pint takes bits as bare numbers, so that 1/s would pass for B/s; here information is a dimension.
    logging.getLogger("pint.util").disabled = True  # it warns of units that are redefined, which is the point
    ureg.define("bit = [information]")
    logging.getLogger("pint.util").disabled = False
    # Counts of tokens, requests and the like are bare numbers that read better with a name.
    for name in ("token", "request", "sequence", "layer", "clock", "SM", "element"):
        ureg.define(f"{name} = []")
    ureg.define("percentage_point = 0.01")
    ureg._build_cache()  # or what was derived from the old bit, the byte above all, would keep its dimension
    return ureg


@functools.cache
def parse(unit: str) -> pint.Unit:
    """Read a unit's text.

    Raises:
        FactorGraphError: the text is no unit.

    Examples:
        >>> str(parse("GB/s"))
        'gigabyte / second'
    """
    try:
        return registry().parse_units("" if unit == "1" else unit)
    except Exception as error:  # pint raises half a dozen unrelated types on malformed text
        raise FactorGraphError(
            f"'{unit}' is not a unit that can be read; write for example 's', 'GB/s', 'FLOP/s'"
        ) from error


def to_unit(value: Any, given: str, wanted: str, *, what: str = "value") -> Any:
    """Convert a number or array from one unit to another of the same dimension.

    Args:
        value: number or array of any shape.
        given: the unit it is in.
        wanted: the unit to return it in.
        what: the name used in the error.

    Raises:
        FactorGraphError: the two units measure different things.

    Examples:
        >>> to_unit(1.5, "ms", "s")
        0.0015
    """
    source, target = parse(given), parse(wanted)
    if source == target:
        return value
    try:
        return registry().Quantity(value, source).to(target).magnitude
    except pint.DimensionalityError as error:
        raise FactorGraphError(
            f"{what} is in '{given}', which cannot be read as '{wanted}'; state it in '{wanted}'"
        ) from error
