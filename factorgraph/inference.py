"""Fitting: the constants of a graph that make measurements most likely, and how far the data pin them down."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.observations import Observations

# A prediction e^3 times what was measured is as wrong as one can be: past it an exponential would only overflow.
_FARTHEST = 3.0


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted graph and how it was reached.

    Attributes:
        graph: with the fitted constants.
        constants: those that were free, by "variable.field".
        residuals: ln(predicted / measured), (group, entry); NaN where nothing was measured.
        groups: what the groups of residuals are called.
        result: "successful", or what the solver says it met.
        steps: iterations of the solver.
        uncertain: directions of the free constants that the data hardly pin down, the worst first, in words.
    """

    graph: FactorGraph
    constants: dict[str, float | list[float]]
    residuals: np.ndarray
    groups: tuple[str, ...]
    result: str
    steps: int
    uncertain: tuple[str, ...]


def fit(
    graph: FactorGraph,
    observations: Observations,
    *,
    free: Sequence[str],
    residual: Literal["log", "relative"] = "log",
    robust: float | None = 0.08,
    prior: float = 3.0,
    steps: int = 60,
) -> Fit:
    """Maximum a posteriori constants from measured times, by Levenberg-Marquardt.

    Every group weighs the same. A constant stays within the bounds that its law states, and within a factor of eight
    of where it starts; inside, it moves on a logistic scale, with a normal prior of width `prior` around the start.

    Args:
        graph: the laws, with the constants to start from.
        observations: what was measured.
        free: constants to fit, "variable.field".
        residual: "log", ln(predicted / measured), symmetric in being too fast and too slow; or "relative",
            predicted / measured - 1, what a mean percentage error adds up.
        robust: residual beyond which it counts linearly (soft L1); None for plain least squares.
        prior: width of the prior on the logistic scale (a factor of about 8 to either side is 2 to 3 widths of 1).
        steps: iterations at most.

    Raises:
        FactorGraphError: nothing is free, or the graph does not give the measured variable.
    """
    if not free:
        raise FactorGraphError("nothing to fit; name constants with free=['eta_mem.fit', ...]")
    if observations.target not in graph:
        raise FactorGraphError(f"this graph gives no '{observations.target}', which is what was measured")
    scales = [scale for path in free for scale in _Scale.of_constant(graph, path)]
    part = graph.subgraph(observations.target)
    values = {name: value for name, value in observations.values.items() if name in part.variables}
    measured = observations.measured
    there = jnp.isfinite(measured)
    weight = jnp.where(there, 1.0 / jnp.sqrt(there.sum(axis=1, keepdims=True)), 0.0)

    def log_residuals(position: Array) -> Array:
        changed = part.with_parameters(_constants(scales, position))
        predicted = jax.vmap(lambda one: changed.evaluate(one)[observations.target])(values)
        return jnp.where(there, jnp.log(predicted) - jnp.log(jnp.where(there, measured, 1.0)), 0.0)

    start = jnp.asarray([s.start for s in scales], float)

    def objective(position: Array, _) -> tuple[Array, Array]:
        # Divided by the robust scale, so that data and prior are both in widths of their distributions.
        width = 0.08 if robust is None else robust
        error = log_residuals(position)
        if residual == "relative":
            error = jnp.expm1(jnp.minimum(error, _FARTHEST))
        data = weight * _softened(error / width, robust is not None)
        return data, (position - start) / (prior * jnp.sqrt(float(measured.shape[1])))

    solver = optx.LevenbergMarquardt(rtol=1e-5, atol=1e-6)
    solution = eqx.filter_jit(optx.least_squares)(objective, solver, start, max_steps=steps, throw=False)
    position = solution.value
    constants = {path: np.asarray(value).tolist() for path, value in _constants(scales, position).items()}
    jacobian = jax.jit(jax.jacfwd(lambda p: (weight * log_residuals(p)).ravel()))(position)
    residuals = np.where(np.asarray(there), np.asarray(log_residuals(position)), np.nan)
    return Fit(
        graph=graph.with_parameters(constants),
        constants=constants,
        residuals=residuals,
        groups=observations.groups,
        result="successful" if solution.result == optx.RESULTS.successful else str(optx.RESULTS[solution.result]),
        steps=int(solution.stats["num_steps"]),
        uncertain=_uncertain(np.asarray(jacobian, np.float64), [scale.name for scale in scales]),
    )


def _softened(residual: Array, robust: bool) -> Array:
    """A residual whose square is the soft L1 loss 2 (sqrt(1 + r^2) - 1): r where small, sqrt(2 |r|) where large."""
    if not robust:
        return residual
    # r * sqrt(2 / (sqrt(1 + r^2) + 1)) is the same number without the difference of nearly equal ones.
    return residual * jnp.sqrt(2.0 / (jnp.sqrt(1.0 + residual**2) + 1.0))


@dataclasses.dataclass(frozen=True)
class _Scale:
    """A number of a constant on an unbounded scale: low + (high - low) * logistic(x)."""

    path: str
    index: int | None  # which of a constant's numbers; None where it is a single one
    low: float
    high: float
    start: float

    @classmethod
    def of_constant(cls, graph: FactorGraph, path: str) -> list["_Scale"]:
        info, value = graph.parameter_info(path), np.asarray(graph.parameters[path])
        scales = []
        for index, now in enumerate(value.ravel().tolist()):
            low, high = max(info.lower, now / 8.0), min(info.upper, now * 8.0)
            share = float(np.clip((now - low) / (high - low), 0.01, 0.99))
            scales.append(cls(path, index if value.ndim else None, low, high, float(np.log(share / (1.0 - share)))))
        return scales

    @property
    def name(self) -> str:
        return self.path if self.index is None else f"{self.path}[{self.index}]"

    def value(self, position: Array) -> Array:
        return self.low + (self.high - self.low) * jax.nn.sigmoid(position)


def _constants(scales: Sequence[_Scale], position: Array) -> dict[str, Array]:
    """The constants at a position on their scales, those of several numbers put together again."""
    numbers: dict[str, list[Array]] = {}
    for scale, x in zip(scales, position, strict=True):
        numbers.setdefault(scale.path, []).append(scale.value(x))
    single = {scale.path for scale in scales if scale.index is None}
    return {path: found[0] if path in single else jnp.stack(found) for path, found in numbers.items()}


def _uncertain(jacobian: np.ndarray, free: list[str], *, least: float = 1e-3) -> tuple[str, ...]:
    """Directions in which the residuals hardly move, in words."""
    _, singular, directions = np.linalg.svd(jacobian, full_matrices=False)
    found = []
    for value, direction in sorted(zip(singular, directions, strict=True), key=lambda pair: pair[0]):
        if value >= least * singular[0]:
            break
        named = [free[i] for i in np.argsort(-np.abs(direction)) if abs(direction[i]) > 0.3]
        together = " and ".join(named)
        found.append(
            f"{together} cannot be told apart from these data"
            if len(named) > 1
            else f"{together} does not show in these data"
        )
    return tuple(found)
