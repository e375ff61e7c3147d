"""How a failing check is told."""

from typing import Any

from factorgraph.testing.bench import Bench, Values
from factorgraph.variables import Variable


def amount(value: Any, variable: Variable) -> str:
    """A number with its unit.

    Examples:
        >>> from factorgraph.variables import TStep, variable_of
        >>> amount(0.002, variable_of(TStep))
        '0.002 s'
    """
    text = f"[{', '.join(f'{one:.9g}' for one in value)}]" if isinstance(value, list) else f"{float(value):.9g}"
    return text if variable.unit == "1" else f"{text} {variable.unit}"


def point(values: Values, bench: Bench) -> str:
    """Every input of a point with its unit."""
    return ", ".join(f"{name} = {amount(value, bench.inputs[name])}" for name, value in values.items()) or "no inputs"


def where(there: Values, base: Values, bench: Bench) -> str:
    """The input in which a point departs from the example."""
    changed = [name for name in there if there[name] != base[name]]
    return "".join(f" at {name} = {amount(there[name], bench.inputs[name])}" for name in changed)
