"""The normal approximation of a posterior around a fit, from the Gauss-Newton Hessian."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from factorgraph.inference.problem import Problem
from factorgraph.inference.scales import Scale, constants_at


@dataclasses.dataclass(frozen=True)
class Posterior:
    """What data leave open of the constants, and how far measurements scatter around the laws.

    Attributes:
        scales: of the constants.
        position: of the fit on them.
        covariance: on them.
        target: the variable that was measured.
        noise: width of one residual.
        residuals: ln(predicted / measured) of each GPU that was measured.
        seen: least and greatest value of each input among the measurements.
    """

    scales: tuple[Scale, ...]
    position: np.ndarray
    covariance: np.ndarray
    target: str
    noise: float
    residuals: dict[str, np.ndarray]
    seen: dict[str, tuple[float, float]]

    def sample(self, n: int, key: Array) -> dict[str, Array]:
        """Draws of the constants by "variable.field", the draw along the first axis. All lie within their bounds.

        Args:
            n: how many.
            key: a jax.random key.
        """
        # By eigenvalues: a direction that single precision leaves slightly negative has no spread.
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = jax.random.normal(key, (n, len(self.scales)))
        positions = jnp.asarray(self.position) + normal @ jnp.asarray(root.T, float)
        return jax.vmap(lambda position: constants_at(self.scales, position))(positions)

    @property
    def natural_covariance(self) -> np.ndarray:
        """Covariance of the constants in their own units, by the delta method."""
        slopes = np.asarray(
            [float(jax.grad(scale.value)(x)) for scale, x in zip(self.scales, jnp.asarray(self.position), strict=True)]
        )
        return slopes[:, None] * self.covariance * slopes

    @property
    def standard_errors(self) -> dict[str, float]:
        """Of each number of the constants, in its own unit."""
        errors = np.sqrt(np.diag(self.natural_covariance))
        return {scale.name: float(error) for scale, error in zip(self.scales, errors, strict=True)}

    @property
    def between(self) -> float:
        """Standard deviation between GPUs: of the medians of their log residuals."""
        medians = [float(np.median(found)) for found in self.residuals.values()]
        return float(np.std(medians, ddof=1)) if len(medians) > 1 else 0.0

    @property
    def within(self) -> float:
        """Robust scale of the log residuals around the median of their GPU."""
        centred = [found - np.median(found) for found in self.residuals.values()]
        return 1.4826 * float(np.median(np.abs(np.concatenate(centred))))


def laplace(
    problem: Problem,
    position: Array,
    jacobian: np.ndarray,
    residuals: np.ndarray,
    groups: tuple[str, ...],
    noise: float | None,
) -> Posterior:
    """Covariance as the inverse of the Gauss-Newton Hessian, with the width of a residual that is known or was found.

    Args:
        problem: what was fitted.
        position: of the fit.
        jacobian: of the log residuals, (group, entry, constant).
        residuals: (group, entry); NaN where nothing was measured.
        groups: names of GPUs; several may be one.
        noise: width of a residual; None to take the robust scale of these.
    """
    found = residuals[np.isfinite(residuals)]
    width = noise or max(1.4826 * float(np.median(np.abs(found))), 1e-6)
    # A measurement counts for as much as in the fit, where groups weigh the same.
    weight = np.asarray(problem.weight)[..., None] * np.sqrt(residuals.shape[1])
    rows = (weight * jacobian / width).reshape(-1, len(problem.scales))
    prior = np.asarray(jax.jacfwd(problem.deviations)(position), np.float64)
    stacked = np.concatenate([rows, prior])
    # The Hessian is stacked' stacked; by singular values of its root in double precision, since two constants that
    # cannot be told apart make the Hessian itself singular in single precision.
    _, singular, directions = np.linalg.svd(stacked, full_matrices=False)
    root = directions.T / singular
    by_group: dict[str, list[np.ndarray]] = {}
    for name, row in zip(groups, residuals, strict=True):
        by_group.setdefault(name, []).append(row[np.isfinite(row)])
    return Posterior(
        scales=problem.scales,
        position=np.asarray(position),
        covariance=root @ root.T,
        target=problem.target,
        noise=width,
        residuals={name: np.concatenate(rows) for name, rows in by_group.items()},
        seen={name: (float(value.min()), float(value.max())) for name, value in problem.values.items()},
    )
