"""Fitting: the constants of a graph that make measurements most likely, and how far the data pin them down."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
import optax
import optimistix as optx
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.inference.posterior import Posterior, laplace
from factorgraph.inference.problem import Problem, observed, relevant
from factorgraph.inference.scales import Prior, constants_at, scales_of
from factorgraph.observations import Observations

_NOISE = 0.08


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted graph and how it was reached.

    Attributes:
        graph: with the fitted constants.
        constants: those that were free, by "variable.field".
        residuals: ln(predicted / measured), (group, entry); NaN where nothing was measured.
        groups: what the groups of residuals are called.
        regimes: the factor that takes most from each measurement, shaped as the residuals; None without such factors.
        convergence: what the solver says it met.
        steps: iterations of the solver.
        uncertain: directions of the free constants that the data hardly pin down, the worst first, in words.
        posterior: the normal approximation around the fit.
        seed: of the draw of measurements.
    """

    graph: FactorGraph
    constants: dict[str, float | list[float]]
    residuals: np.ndarray
    groups: tuple[str, ...]
    regimes: np.ndarray | None
    convergence: optx.RESULTS
    steps: int
    uncertain: tuple[str, ...]
    posterior: Posterior
    seed: int

    @property
    def result(self) -> str:
        """ "successful", or what the solver says it met."""
        successful = self.convergence == optx.RESULTS.successful
        return "successful" if successful else str(optx.RESULTS[self.convergence])

    def by(self, what: Literal["group", "regime"]) -> dict[str, tuple[int, float, float]]:
        """Number, median and robust scale (1.48 median absolute deviation) of the residuals of each group or regime."""
        if what == "regime" and self.regimes is None:
            raise FactorGraphError("these measurements have no regimes; ask for residuals by group")
        labels = np.broadcast_to(np.asarray(self.groups)[:, None], self.residuals.shape)
        labels = labels if what == "group" or self.regimes is None else self.regimes
        table = {}
        for label in dict.fromkeys(labels.ravel().tolist()):
            found = self.residuals[(labels == label) & np.isfinite(self.residuals)]
            if found.size:
                middle = float(np.median(found))
                table[label] = (found.size, middle, 1.4826 * float(np.median(np.abs(found - middle))))
        return table


def fit(
    graph: FactorGraph,
    data: Observations | xr.Dataset,
    *,
    free: Sequence[str],
    priors: Mapping[str, Prior | tuple[float, float]] | None = None,
    residual: Literal["log", "relative"] = "log",
    robust: float | None = _NOISE,
    noise: float | None = None,
    prior: float = 3.0,
    steps: int = 60,
    method: Literal["lm", "adam"] = "lm",
    engine: str | None = None,
    skus: Sequence[str] | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Fit:
    """Maximum a posteriori constants from measured times.

    Every group weighs the same. A constant stays within the bounds that its law states, and within a factor of eight
    of where it starts; inside, it moves on a logistic scale, with a normal prior of width `prior` around the start
    unless `priors` says otherwise.

    Args:
        graph: the laws, with the constants to start from.
        data: what was measured; or a dataset of kind "gemm", of which `engine`, `skus`, `sample` and `seed` pick.
        free: constants to fit, "variable.field".
        priors: of some of them; a pair is the center and width of a log-normal one.
        residual: "log", ln(predicted / measured), symmetric in being too fast and too slow; or "relative",
            predicted / measured - 1, what a mean percentage error adds up.
        robust: residual beyond which it counts linearly (soft L1); None for plain least squares.
        noise: width of one residual, where it is known; `robust` otherwise, and the posterior takes what it finds.
        prior: width of the default prior on the logistic scale (a factor of about 8 to either side is 2 to 3 widths
            of 1).
        steps: iterations at most.
        method: "lm", Levenberg-Marquardt; or "adam", first order, whose memory does not grow with the constants.
        engine: whose times, where the dataset has several.
        skus, sample, seed: as in [`gemm_observations`][factorgraph.observations.gemm_observations].

    Raises:
        UnknownNameError: a constant or GPU that is not known.
        FactorGraphError: the measurements cannot say anything of the constants; the message says why.
    """
    observations = observed(data, engine=engine, skus=skus, sample=sample, seed=seed)
    width = noise or robust or _NOISE
    problem = _problem(graph, observations, free, priors or {}, residual, robust is not None, width, prior)
    if method not in _SOLVERS:
        raise FactorGraphError(f"a fit is by 'lm' or 'adam'; '{method}' is neither")
    solution = _SOLVERS[method](problem, steps)
    position = solution.value
    constants = {path: np.asarray(value).tolist() for path, value in constants_at(problem.scales, position).items()}
    residuals, jacobian = (np.asarray(found, np.float64) for found in _looked_at(problem, position))
    residuals = np.where(np.asarray(problem.there), residuals, np.nan)
    weighted = (np.asarray(problem.weight)[..., None] * jacobian).reshape(-1, len(problem.scales))
    return Fit(
        graph=graph.with_parameters(constants),
        constants=constants,
        residuals=residuals,
        groups=observations.groups,
        regimes=problem.regimes(graph, position),
        convergence=solution.result,
        steps=int(solution.stats["num_steps"]),
        uncertain=_uncertain(weighted, [scale.name for scale in problem.scales]),
        posterior=laplace(problem, position, jacobian, residuals, observations.groups, noise),
        seed=seed,
    )


def log_density(
    graph: FactorGraph,
    observations: Observations,
    *,
    free: Sequence[str],
    priors: Mapping[str, Prior | tuple[float, float]] | None = None,
    robust: float | None = _NOISE,
    noise: float | None = None,
    prior: float = 3.0,
) -> tuple[Callable[[Array], Array], Array]:
    """What [`fit`][factorgraph.inference.fitting.fit] maximises, for a sampler of one's own.

    Returns:
        The log density, up to a constant, as a pure function of the constants on their unbounded scales, and where to
        start. It is the density in each prior's own coordinate; a sampler on the unbounded scale of a constant with a
        prior of its own adds the logarithm of that map's slope.

    Raises:
        FactorGraphError: as for `fit`.
    """
    width = noise or robust or _NOISE
    problem = _problem(graph, observations, free, priors or {}, "log", robust is not None, width, prior)
    return problem.log_density, problem.start


def _problem(graph, observations, free, priors, residual, robust, noise, prior) -> Problem:
    part = relevant(graph, observations, free)
    return Problem(
        part=part,
        values={name: value for name, value in observations.values.items() if name in part.variables},
        measured=observations.measured,
        target=observations.target,
        scales=scales_of(part, free, priors),
        residual=residual,
        noise=noise,
        robust=robust,
        prior=prior,
    )


# Compiled once for all fits of one shape, such as those that leave each GPU out in turn.
_least_squares, _minimise = eqx.filter_jit(optx.least_squares), eqx.filter_jit(optx.minimise)


@eqx.filter_jit
def _looked_at(problem: Problem, position: Array) -> tuple[Array, Array]:
    return problem.log_residuals(position), jax.jacfwd(problem.log_residuals)(position)


def _by_levenberg_marquardt(problem: Problem, steps: int) -> optx.Solution[Array, Any]:
    solver = optx.LevenbergMarquardt(rtol=1e-5, atol=1e-6)
    return _least_squares(problem.objective, solver, problem.start, max_steps=steps, throw=False)


def _by_adam(problem: Problem, steps: int) -> optx.Solution[Array, Any]:
    solver = optx.OptaxMinimiser(optax.adam(0.03), rtol=1e-6, atol=1e-7)
    return _minimise(problem.loss, solver, problem.start, max_steps=steps, throw=False)


_SOLVERS = {"lm": _by_levenberg_marquardt, "adam": _by_adam}


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
