"""Hypothesis strategies for what laws read."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from factorgraph.errors import FactorGraphError
from factorgraph.factor import Factor
from factorgraph.variables import Domain, Variable

# A quantity that spans more than this factor is drawn by its order of magnitude.
_SPAN = 100.0
# Where a domain reaches zero or infinity, orders of magnitude are drawn between these.
_SMALLEST, _LARGEST = 1e-9, 1e12
# Below the smallest normal number of float32, which processors may take for zero; and merely very small.
_DENORMAL, _MINUTE = 1e-40, 1e-30
# Entries along a plate that a law reduces.
_PLATE_LENGTHS = (1, 2, 5)
_UNITS = st.sampled_from(["1", "s", "B", "FLOP", "Hz", "W", "B/s", "FLOP/s"])
_PLATES = st.sampled_from([(), ("gemm",), ("gemm", "tiling")])
_INTERIOR, _END, _TIE = "interior", "end", "tie"


def spans_decades(domain: Domain) -> bool:
    """Whether a quantity is drawn by its order of magnitude.

    Examples:
        >>> spans_decades(Domain(1e9, 1e14)), spans_decades(Domain(0.5, 1.0))
        (True, False)
    """
    low, high = bulk(domain)
    return low > 0.0 and high / low > _SPAN


def bulk(domain: Domain) -> tuple[float, float]:
    """The finite positive range that values are drawn from, zero and infinity left out.

    Examples:
        >>> bulk(Domain(0.0, 1e6))
        (1e-09, 1000000.0)
    """
    high = domain.upper if math.isfinite(domain.upper) else max(_LARGEST, domain.lower)
    if domain.lower == 0.0 and not domain.integer and high > _SPAN * _SMALLEST:
        return min(_SMALLEST, high), high
    return domain.lower if math.isfinite(domain.lower) else -_LARGEST, high


def values_of(variable: Variable) -> st.SearchStrategy[float]:
    """A value within a variable's domain: log-uniform where it spans decades, whole where it counts, ends included.

    Args:
        variable: whose domain to draw from.

    Examples:
        >>> from hypothesis import find
        >>> from factorgraph.variables import SmCount, variable_of
        >>> find(values_of(variable_of(SmCount)), lambda count: count > 100)
        101.0
    """
    interior, end = _interior(variable.domain), _end(variable.domain)
    return st.sampled_from([_INTERIOR] * 5 + [_END]).flatmap(lambda where: interior if where == _INTERIOR else end)


def _interior(domain: Domain) -> st.SearchStrategy[float]:
    low, high = bulk(domain)
    if domain.integer:
        low, high = math.ceil(low), math.floor(high)
        counted = st.integers(low, min(high, low + 300))
        return (counted | _decades(max(low, 1), high).map(round) if high > low + 300 else counted).map(float)
    if spans_decades(domain):
        return _decades(low, high)
    return st.floats(low, high).map(lambda value: _legible(value, low, high))


def _end(domain: Domain) -> st.SearchStrategy[float]:
    low, high = bulk(domain)
    if domain.lower == 0.0 and not domain.integer:
        return st.sampled_from([0.0, _MINUTE, _DENORMAL, high])
    return st.sampled_from([float(domain.lower) if math.isfinite(domain.lower) else low, high])


def _decades(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: _legible(10.0**power, low, high))


def _legible(value: float, low: float, high: float) -> float:
    """Four digits: an example is read by people, and no law hangs on the fifth."""
    return min(max(float(f"{value:.4g}"), low), high)


def values_for(law: Factor) -> st.SearchStrategy[dict[str, Any]]:
    """One value for each input of a law, each from its variable's domain; now and then two of one unit are alike.

    A variable on a plate that the law reduces gets a short list, of one length for all on that plate.

    Args:
        law: whose inputs to draw.

    Examples:
        >>> from hypothesis import find
        >>> from factorgraph.laws.total import GemmTotal
        >>> find(values_for(GemmTotal()), lambda values: len(values["gemm_count"]) == 2)
        {'t_gemm': [1.0, 1.0], 'gemm_count': [1.0, 1.0]}
    """
    kept = set(law.output.plates)
    alone = {variable.name: values_of(variable) for variable in law.inputs}
    where = st.sampled_from([_INTERIOR] * 7 + [_TIE])
    length = st.sampled_from(_PLATE_LENGTHS)

    @st.composite
    def together(draw: Callable[..., Any]) -> dict[str, Any]:
        lengths: dict[str, int] = {}
        values: dict[str, Any] = {}
        for variable in law.inputs:
            reduced = [plate for plate in variable.plates if plate not in kept]
            if reduced:
                if reduced[0] not in lengths:
                    lengths[reduced[0]] = draw(length)
                values[variable.name] = [draw(alone[variable.name]) for _ in range(lengths[reduced[0]])]
                continue
            tied = _like(variable, law, values)
            # Ties are where maxima have their corners.
            if tied and draw(where) == _TIE:
                values[variable.name] = draw(st.sampled_from(tied))
            else:
                values[variable.name] = draw(alone[variable.name])
        return values

    return together()


def _like(variable: Variable, law: Factor, values: Mapping[str, Any]) -> list[float]:
    """The numbers drawn for other variables of the same unit that this one may take too."""
    if variable.domain.integer:
        return []
    others = [values[other.name] for other in law.inputs if other.name in values and other.unit == variable.unit]
    return [value for value in others if not isinstance(value, list) and variable.domain.contains(value)]


def variables(
    *,
    units: st.SearchStrategy[str] | None = None,
    plates: st.SearchStrategy[tuple[str, ...]] | None = None,
) -> st.SearchStrategy[Variable]:
    """Variables of any name and domain.

    Args:
        units: of unit texts; by default those of the package's own variables.
        plates: of what they are repeated over; by default none, "gemm", or "gemm" and "tiling".

    Examples:
        >>> from hypothesis import find
        >>> find(variables(), lambda variable: variable.domain.integer and variable.unit == "s").name
        '_'
    """
    magnitudes = st.floats(-12.0, 12.0).map(lambda power: float(f"{10.0**power:.3g}"))
    ends = st.tuples(st.just(0.0) | magnitudes, magnitudes | st.just(math.inf)).map(sorted)
    domains = st.builds(lambda ends, integer: Domain(*ends, integer=integer), ends, st.booleans())
    return st.builds(
        Variable,
        name=st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12).filter(str.isidentifier),
        unit=given_strategy(units, "units", "s", _UNITS),
        domain=domains,
        plates=given_strategy(plates, "plates", ("gemm",), _PLATES),
        doc=st.sampled_from(["", "drawn by a strategy"]),
    )


def given_strategy(strategy: Any, name: str, example: Any, otherwise: st.SearchStrategy) -> st.SearchStrategy:
    """The strategy that a caller gave, or another one.

    Raises:
        FactorGraphError: a bare value was given in its place.
    """
    if strategy is None:
        return otherwise
    if not isinstance(strategy, st.SearchStrategy):
        raise FactorGraphError(f"{name}={strategy!r} is no strategy; write for example {name}=st.just({example!r})")
    return strategy
