"""The graph conditioned on measurements: a clock from a throughput, a power cap from a clock."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.inverse import solve_for
from factorgraph.labelled import Inputs, chosen
from factorgraph.varying import Case, Handle, open_case

# What single precision leaves of agreement between a measured and a predicted value.
_AGREES = 1e-3
_STARTS = 8


@dataclasses.dataclass(frozen=True)
class Conditioned:
    """What measurements say of quantities that were not measured. No solution and several are answers too.

    Attributes:
        solutions: each a value for every quantity asked for, in its unit.
        errors: standard errors of each solution's values, by the delta method; empty where no sigma was given or the
            measurement does not move with the quantity.
        nearest: where no value agrees, those that come nearest, and how far the measurements are from them (largest
            absolute log ratio).
    """

    solutions: tuple[dict[str, float], ...]
    errors: tuple[dict[str, float], ...]
    nearest: tuple[dict[str, float], float] | None

    @property
    def exists(self) -> bool:
        return bool(self.solutions)

    def __str__(self) -> str:
        if not self.solutions:
            assert self.nearest is not None
            values, off = self.nearest
            said = ", ".join(f"{name} = {value:.5g}" for name, value in values.items())
            return f"no value agrees with what was measured; the nearest is {said}, off by {100 * np.expm1(off):.3g} %"
        said = []
        for index, solution in enumerate(self.solutions):
            errors = self.errors[index] if self.errors else {}
            parts = [f"{n} = {v:.5g}" + (f" ± {errors[n]:.2g}" if n in errors else "") for n, v in solution.items()]
            said.append(", ".join(parts))
        return " or ".join(said)


def condition(
    graph: FactorGraph,
    *sources: Any,
    given: Mapping[str, float],
    infer: Sequence[str],
    sigma: Mapping[str, float] | None = None,
    between: Mapping[str, tuple[float, float]] | None = None,
    **values: Any,
) -> Conditioned:
    """Values of some quantities at which the graph gives what was measured of others.

    One quantity from one measurement is searched over its whole range with
    [`solve_for`][factorgraph.inverse.solve_for]; several by least squares (optimistix) from eight places.

    Args:
        graph: the laws.
        *sources: as for [`predict`][factorgraph.labelled.predict], one card and one step or kernel.
        given: measurements by variable, each one number; above zero where a law gives the variable.
        infer: inputs or constants of laws to be found.
        sigma: standard errors of some measurements, in their units.
        between: where to look for each; the domain of the variable, or the bounds of the constant, where they are
            finite, by default.
        **values: as for `predict`.

    Raises:
        UnknownNameError: an unknown quantity.
        FactorGraphError: more is asked for than was measured, or a range is not finite.

    Examples:
        >>> import factorgraph as fg
        >>> graph = fg.FactorGraph([fg.step_graph()["flop_per_clock"], fg.step_graph()["peak_flops"]])
        >>> card = fg.load_sku("h100-sxm")
        >>> found = condition(graph, card, {"gemm_type": [0.0]}, given={"peak_flops": 9.0e14},
        ...                   infer=["boost_clock"], sigma={"peak_flops": 9.0e12})
        >>> str(found)
        'boost_clock = 1.6646e+09 ± 1.7e+07'
    """
    measured = {name: value for name, value in given.items() if name in graph}
    values = dict(values) | {name: value for name, value in given.items() if name not in graph}
    sigma = dict(sigma or {})
    _hold_answerable(graph, given, measured, infer, sigma)
    ranges = {name: (between or {}).get(name) or _range(graph, name) for name in infer}
    for name, (low, _) in ranges.items():
        # A quantity that is looked for needs no value of its own; the search begins somewhere in its range.
        if name in graph.input_names and not _supplied(name, sources, values):
            values[name] = low
    case, inputs = open_case(graph, sources, values)
    if inputs.dims:
        raise FactorGraphError(f"conditioning is on one point, and this case spans {', '.join(inputs.dims)}")
    handles = {name: case.handle(name, inputs) for name in infer}
    for handle in handles.values():
        if handle.kind == "computed" or handle.scaled:
            raise FactorGraphError(f"'{handle.name}' cannot be set to one number; infer an input or a constant")
    problem = _Problem(case, inputs, handles, ranges, measured)
    single = len(infer) == len(measured) == 1
    found = _searched(problem, graph, sources, values) if single else _least_squares(problem)
    found.sort(key=lambda pair: pair[1])
    agreeing = [place for place, off in found if off <= _AGREES]
    solutions = tuple(problem.named(place) for place in sorted(agreeing, key=lambda place: tuple(place)))
    errors = tuple(problem.errors(np.asarray(list(one.values())), sigma) for one in solutions) if sigma else ()
    nearest = None if solutions else (problem.named(found[0][0]), found[0][1])
    return Conditioned(solutions, errors, nearest)


def _hold_answerable(graph, given, measured, infer, sigma) -> None:
    known = [*graph.variables, *graph.parameters]
    for name in given:
        if name not in graph.variables:
            raise UnknownNameError("variable", name, graph.variables)
    for name in infer:
        if name not in known:
            raise UnknownNameError("quantity", name, known)
        if name in given:
            raise FactorGraphError(f"'{name}' is both measured and asked for; leave it out of one")
    if not infer or len(infer) > len(measured):
        raise FactorGraphError(
            f"{len(infer)} quantities cannot follow from {len(measured)} measurements of what laws give; "
            f"ask for at least one and no more than were measured"
        )
    for name, value in measured.items():
        if not (np.isfinite(value) and value > 0):
            raise FactorGraphError(f"{name} = {value:g} was measured, and the law gives numbers above zero")
    for name, value in sigma.items():
        if name not in measured or not value > 0:
            raise FactorGraphError(f"sigma of '{name}' must be above zero, and '{name}' among the measured outputs")


def _range(graph: FactorGraph, name: str) -> tuple[float, float]:
    bounds = graph.variables[name].domain if name in graph.variables else graph.parameter_info(name)
    if not np.isfinite(bounds.upper - bounds.lower):
        raise FactorGraphError(f"'{name}' may be anything; say where to look with between={{'{name}': (low, high)}}")
    return bounds.lower, bounds.upper


def _supplied(name: str, sources: Sequence[Any], values: Mapping[str, Any]) -> bool:
    return name in values or any(name in (s if isinstance(s, Mapping) else s.values()) for s in sources)


@dataclasses.dataclass(frozen=True)
class _Problem:
    case: Case
    inputs: Inputs
    handles: dict[str, Handle]
    ranges: dict[str, tuple[float, float]]
    measured: dict[str, float]

    def named(self, place: np.ndarray) -> dict[str, float]:
        return {name: float(value) for name, value in zip(self.handles, place, strict=True)}

    def log_ratios(self, place):
        """ln(predicted / measured) of each measurement."""
        positions = {handle: place[i] for i, handle in enumerate(self.handles.values())}
        known = self.case.evaluate(self.inputs.arrays, positions)
        found = [chosen(self.case.graph.variables, known, name) for name in self.measured]
        for name, value in zip(self.measured, found, strict=True):
            if value.size != 1:
                raise FactorGraphError(f"'{name}' is {value.size} numbers here; give a step with one such kernel")
        return jnp.stack(
            [jnp.log(v.ravel()[0]) - np.log(m) for v, m in zip(found, self.measured.values(), strict=True)]
        )

    @functools.cached_property
    def compiled(self):
        return jax.jit(self.log_ratios)

    def off(self, place: np.ndarray) -> float:
        return float(jnp.max(jnp.abs(self.compiled(jnp.asarray(place, float)))))

    def errors(self, place: np.ndarray, sigma: Mapping[str, float]) -> dict[str, float]:
        """Standard errors by the delta method; none in a place where the measurements do not move."""
        slopes = np.asarray(jax.jit(jax.jacfwd(self.log_ratios))(jnp.asarray(place, float)), np.float64)
        widths = np.asarray([sigma.get(name, np.nan) / value for name, value in self.measured.items()])
        with_width = np.isfinite(widths)
        scaled = slopes[with_width] * place / widths[with_width, None]
        if scaled.shape[0] < len(place) or np.linalg.matrix_rank(scaled) < len(place):
            return {}
        spread = np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled)))
        return self.named(spread * np.abs(place))


def _searched(problem: _Problem, graph, sources, values) -> list[tuple[np.ndarray, float]]:
    """Ends of the stretches on which the output is at most what was measured, where it is just that."""
    [(quantity, between)] = problem.ranges.items()
    [(output, value)] = problem.measured.items()
    found = solve_for(graph, *sources, quantity=quantity, between=between, at_most=value, output=output, **values)
    places = [end for interval in found.intervals for end in interval] + [found.best[0], *between]
    unique: list[float] = []
    for place in places:
        if all(abs(place - other) > 1e-4 * abs(other) for other in unique):
            unique.append(place)
    return [(np.asarray([place]), problem.off(np.asarray([place]))) for place in unique]


def _least_squares(problem: _Problem) -> list[tuple[np.ndarray, float]]:
    """Distinct places that Levenberg-Marquardt ends in, from several starts spread over the ranges."""
    low, high = (np.asarray(ends, float) for ends in zip(*problem.ranges.values(), strict=True))

    def place(x):
        return low + (high - low) * jax.nn.sigmoid(x)

    @eqx.filter_jit
    def solve(start):
        solver = optx.LevenbergMarquardt(rtol=1e-7, atol=1e-7)
        residuals = lambda x, _: problem.log_ratios(place(x))  # noqa: E731
        return place(optx.least_squares(residuals, solver, start, max_steps=200, throw=False).value)

    starts = np.random.default_rng(0).uniform(-3.0, 3.0, (_STARTS, len(low)))
    ends: list[np.ndarray] = []
    for start in starts:
        end = np.asarray(solve(jnp.asarray(start, float)), np.float64)
        if np.isfinite(end).all() and all(np.max(np.abs(end / other - 1.0)) > 1e-2 for other in ends):
            ends.append(end)
    return [(end, problem.off(end)) for end in ends]
