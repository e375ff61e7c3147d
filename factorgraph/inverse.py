"""Read the graph backwards: which power cap, clock or batch meets a latency target, if any does."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jax import Array

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.labelled import chosen
from factorgraph.varying import Case, Handle, open_case

# Crossings closer to each other than this part of the range may be taken for none.
_LOOKS = 513
_MOST_WHOLE = 65_536
# Single precision carries a little over seven digits.
_PRECISION = 1e-6
_WHOLE_NUMBERS = ("batch", "decode_batch", "prompt", "chunk")


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where a target is met. No place is an answer too.

    Attributes:
        quantity, unit: what was varied.
        between: the range that was searched.
        output, at_most: what was to be met.
        intervals: each stretch of the range on which it is, ends included; more than one where the output turns back.
        best: the value at which the output is least, and that output, whether or not it meets the target.
    """

    quantity: str
    unit: str
    between: tuple[float, float]
    output: str
    at_most: float
    intervals: tuple[tuple[float, float], ...]
    best: tuple[float, float]

    @property
    def exists(self) -> bool:
        return bool(self.intervals)

    @property
    def smallest(self) -> float | None:
        """The least value that meets the target: the lowest power cap."""
        return self.intervals[0][0] if self.intervals else None

    @property
    def largest(self) -> float | None:
        """The greatest value that meets the target: the largest batch."""
        return self.intervals[-1][1] if self.intervals else None

    def __str__(self) -> str:
        unit = "" if self.unit == "1" else f" {self.unit}"
        aim = f"{self.output} <= {self.at_most:g}"
        if not self.exists:
            low, high = self.between
            return (
                f"no {self.quantity} from {low:g} to {high:g}{unit} meets {aim}; "
                f"the least is {self.best[1]:.4g}, at {self.best[0]:g}{unit}"
            )
        stretches = " and ".join(f"{low:.5g} to {high:.5g}{unit}" for low, high in self.intervals)
        return f"{aim} at {self.quantity} {stretches}"


def solve_for(
    graph: FactorGraph,
    *sources: Any,
    quantity: str,
    between: tuple[float, float],
    at_most: float,
    output: str = "t_step",
    **values: Any,
) -> Solution:
    """Every value of one quantity at which an output is at most a target.

    Whole numbers (batches, prompts, and variables that count) are all tried. For other quantities the range is looked
    over at 513 places, and each crossing found between two of them is narrowed to single precision by bisection
    (optimistix), which also finds the place of a jump.

    Args:
        graph: the laws.
        *sources: as for [`predict`][factorgraph.labelled.predict], one card and one step.
        quantity: an input variable without a plate, a constant of a law, or a number of the step.
        between: the range to search, ends included, in the quantity's unit.
        at_most: the target, in the unit of the output.
        output: a variable without a plate, or on the plate of a single kernel.
        **values: as for `predict`.

    Raises:
        UnknownNameError: an unknown quantity or output.
        FactorGraphError: a quantity that cannot be set, an empty range, or a case that spans a dimension.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> found = solve_for(fg.step_graph(), fg.load_sku("h100-sxm"), step,
        ...                   quantity="batch", between=(1, 512), at_most=0.020)
        >>> found.smallest, found.largest > 64
        (1.0, True)
    """
    if len(between) != 2 or not between[0] < between[1]:
        raise FactorGraphError(f"a range runs from low to high, such as (300.0, 700.0); {between} does not")
    if not at_most > 0:
        raise FactorGraphError(f"at_most={at_most:g} can be met by nothing; give a target above zero")
    low, high = map(float, between)
    if output not in graph:
        raise UnknownNameError("output", output, [variable.name for variable in graph.outputs])
    case, inputs = open_case(graph, sources, values)
    if inputs.dims:
        raise FactorGraphError(f"a search is for one point, and this case spans {', '.join(inputs.dims)}")
    handle = case.handle(quantity, inputs)
    if jax.eval_shape(lambda: _output(case, inputs.arrays, {}, output)).size != 1:
        raise FactorGraphError(f"'{output}' is one number a kernel; give a target for the whole step, such as t_step")
    _hold_settable(graph, handle, low, high)
    whole = quantity in _WHOLE_NUMBERS or (handle.kind == "input" and graph.variables[quantity].domain.integer)
    places = _whole_places(low, high) if whole else _places(low, high)
    found = np.asarray(_outputs(case, inputs.arrays, handle, jnp.asarray(places, float), output))
    if not np.isfinite(found).all():
        bad = places[~np.isfinite(found)][0]
        raise FactorGraphError(f"'{output}' is not finite at {quantity} = {bad:g}; narrow the range")
    intervals = []
    for first, last in _runs(found <= found.dtype.type(at_most)):
        ends = [(first - 1, first), (last + 1, last)]
        intervals.append(
            tuple(
                places[met]
                if whole or not 0 <= missed < len(places)
                else _crossing(case, inputs.arrays, handle, output, at_most, places[missed], places[met])
                for missed, met in ends
            )
        )
    least = int(np.argmin(found))
    return Solution(
        quantity=quantity,
        unit=handle.unit,
        between=(low, high),
        output=output,
        at_most=at_most,
        intervals=tuple((float(start), float(stop)) for start, stop in intervals),
        best=(float(places[least]), float(found[least])),
    )


def _hold_settable(graph: FactorGraph, handle: Handle, low: float, high: float) -> None:
    if handle.kind == "computed":
        raise FactorGraphError(f"'{handle.name}' is computed by a law; search over something that can be set")
    if handle.scaled:
        raise FactorGraphError(f"'{handle.name}' is more than one number; search over a single one")
    if handle.kind == "input":
        domain = graph.variables[handle.name].domain
        if not (domain.contains(low) and domain.contains(high)):
            raise FactorGraphError(f"{handle.name} from {low:g} to {high:g} leaves its domain {domain}")
    if handle.kind == "step" and low < (0.0 if handle.name == "prefix" else 1.0):
        raise FactorGraphError(f"{handle.name} from {low:g} leaves what a step can have; begin at 1")


def _places(low: float, high: float) -> np.ndarray:
    """Evenly over the range, by ratio where it spans more than a decade."""
    if low > 0 and high > 10 * low:
        return np.geomspace(low, high, _LOOKS)
    return np.linspace(low, high, _LOOKS)


def _whole_places(low: float, high: float) -> np.ndarray:
    places = np.arange(np.ceil(low), np.floor(high) + 1)
    if places.size == 0 or places.size > _MOST_WHOLE:
        raise FactorGraphError(
            f"{low:g} to {high:g} holds {places.size} whole numbers, and each is tried; "
            f"give a range that holds 1 to {_MOST_WHOLE}"
        )
    return places


def _runs(met: np.ndarray) -> list[tuple[int, int]]:
    """First and last index of each unbroken stretch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], met, [False]]).astype(int)))
    return [(int(first), int(past) - 1) for first, past in zip(edges[::2], edges[1::2], strict=True)]


def _output(case: Case, arrays: dict[str, Array], positions: dict[Handle, Array], output: str) -> Array:
    """One number: an output without a plate, or that of the only kernel there is, in the alternative it takes."""
    value = chosen(case.graph.variables, case.evaluate(arrays, positions), output)
    return value.ravel()[0] if value.size == 1 else value


@eqx.filter_jit
def _outputs(case: Case, arrays: dict[str, Array], handle: Handle, places: Array, output: str) -> Array:
    return jax.lax.map(lambda x: _output(case, arrays, {handle: x}, output), places, batch_size=1024)


def _crossing(case, arrays, handle, output, at_most, missed: float, met: float) -> float:
    """The last value, coming from `met`, that still meets the target."""
    lower, upper = sorted((missed, met))
    numbers = map(jnp.asarray, (lower, upper, at_most))
    root = float(_root(case, arrays, handle, output, *numbers))
    inward = np.sign(met - missed) * 2.0 * _PRECISION * max(abs(lower), abs(upper))
    return float(np.clip(root + inward, lower, upper))


@eqx.filter_jit
def _root(
    case: Case, arrays: dict[str, Array], handle: Handle, output: str, lower: Array, upper: Array, at_most: Array
) -> Array:
    # Over the bracket as 0 to 1 and as a part of the target: one tolerance then fits watts and hertz alike.
    def excess(part: Array, _: None) -> Array:
        value = _output(case, arrays, {handle: lower + part * (upper - lower)}, output)
        # Exactly on target is met, and never zero: bisection asks for a change of sign.
        return jnp.where(value <= at_most, -1.0, 1.0) * jnp.maximum(jnp.abs(value / at_most - 1.0), 1e-30)

    solver = optimistix.Bisection(rtol=0.0, atol=_PRECISION)
    options = {"lower": jnp.zeros(()), "upper": jnp.ones(())}
    found = optimistix.root_find(excess, solver, jnp.asarray(0.5), options=options, max_steps=64, throw=False)
    return lower + found.value * (upper - lower)
