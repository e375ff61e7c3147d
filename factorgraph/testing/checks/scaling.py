"""How a law scales: units change nothing, counts multiply, and limits are reached."""

import dataclasses
import math
from typing import Any, cast

import numpy as np

from factorgraph.factor import Factor
from factorgraph.testing.bench import Bench, Values, moved_to
from factorgraph.testing.wording import amount
from factorgraph.units import parse

# Base dimensions of the package's units, the unit in which they are counted, and how much smaller another one is.
_BASES = {"[time]": ("s", 3.0), "[information]": ("B", 5.0), "[operation]": ("FLOP", 7.0), "[mass]": ("kg", 11.0)}
_FAR = 1e24
# Numbers below the smallest normal one of float32 are rounded coarsely.
_NOTHING = 1e-36


def units(bench: Bench, values: Values) -> str | None:
    """In other units of time, bytes, FLOP and energy the law says the same.

    A dimension that the law's `literals` name is left out: the 2 of 2 m n k is FLOP.
    """
    if any(np.min(np.abs(np.float32(value))) < 1e-20 for value in values.values()):
        return None  # nothing in any unit is nothing
    law, output = bench.law, bench.law.output
    expected = bench.double(values)
    excused = {base for literal in bench.claims.literals for base in parse(literal).dimensionality}
    for base, (unit, factor) in _BASES.items():
        if base in excused:
            continue
        moved = {name: _times(value, _scale(bench.inputs[name].unit, base, factor)) for name, value in values.items()}
        constants = {
            name: getattr(law, name) * _scale(info.unit, base, factor) for name, info in law.parameters.items()
        }
        found = bench.double(moved, dataclasses.replace(law, **constants)) / _scale(output.unit, base, factor)
        # Constants and inputs are rounded to float32 once more in the other unit.
        if not math.isclose(found, expected, rel_tol=1e-4):
            return (
                f"{output.name} is {amount(expected, output)}, but {amount(found, output)} if worked out in units of "
                f"{unit}/{factor:g}; it adds unlike things or hides a constant in {unit} "
                f"(a parameter needs its unit; a bare count is declared with literals = ('{unit}',))"
            )
    return None


def scaling(bench: Bench, values: Values) -> str | None:
    """Twice an input gives 2^power times the output, for each power claimed."""
    output = bench.law.output
    for name, power in bench.claims.scaling.items():
        once, twice = bench.double(values), bench.double({**values, name: _times(values[name], 2.0)})
        if not math.isclose(twice, 2.0**power * once, rel_tol=1e-6, abs_tol=_NOTHING):
            return (
                f"{output.name} is {amount(once, output)} and for twice the {name} {amount(twice, output)}; "
                f"2^{power:g} times as much is {amount(2.0**power * once, output)}"
            )
    return None


def limits(bench: Bench, values: Values) -> str | None:
    """For an input going to 0 or infinity the output goes where the law says."""
    output = bench.law.output
    for name, ends in bench.claims.limits.items():
        for limit, at, arrow in zip(ends, (1.0 / _FAR, _FAR), ("0", "inf"), strict=True):
            if limit is None:
                continue
            wanted = _stated(limit, bench.law, values)
            found, here = bench.double(moved_to(values, name, at)), bench.double(values)
            if not _reached(found, wanted, here):
                return (
                    f"{output.name} goes to {amount(found, output)} for {name} -> {arrow}, "
                    f"and should to {amount(wanted, output)}"
                )
    return None


def _stated(limit: Any, law: Factor, values: Values) -> float:
    return float(limit) if isinstance(limit, int | float) else float(limit(law, values))


def _reached(found: float, wanted: float, here: float) -> bool:
    if math.isinf(wanted):
        return found > 1e3 * here
    return math.isclose(found, wanted, rel_tol=1e-3, abs_tol=1e-6 * abs(here))


def _scale(unit: str, base: str, factor: float) -> float:
    """By how much a number in a unit grows when one base unit shrinks by a factor."""
    return factor ** float(cast(float, parse(unit).dimensionality.get(base, 0)))


def _times(value: Any, factor: float) -> Any:
    return [factor * one for one in value] if isinstance(value, list) else factor * value
