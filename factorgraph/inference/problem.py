"""A fit as a function of the free constants: how far predictions lie from measurements, and constants from priors."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.inference.scales import Scale, constants_at
from factorgraph.labelled import chosen
from factorgraph.observations import Observations, gemm_observations
from factorgraph.units import to_unit
from factorgraph.variables import CHOICES

# A prediction e^3 times what was measured is as wrong as one can be: past it an exponential would only overflow.
_FARTHEST = 3.0


class Problem(eqx.Module):
    """What a fit is made of.

    Attributes:
        part: the part of the graph that the measured variable depends on.
        values: inputs; the first axis is the group.
        measured: (group, entry); NaN where nothing was measured.
        target: the measured variable.
        scales: of the free constants.
        residual: "log" or "relative".
        noise: width of one residual.
        robust: whether a residual beyond it counts linearly.
        prior: width of the default prior on the logistic scale.
    """

    part: FactorGraph
    values: dict[str, Array]
    measured: Array
    target: str = eqx.field(static=True)
    scales: tuple[Scale, ...] = eqx.field(static=True)
    residual: Literal["log", "relative"] = eqx.field(static=True)
    noise: float = eqx.field(static=True)
    robust: bool = eqx.field(static=True)
    prior: float = eqx.field(static=True)

    @property
    def there(self) -> Array:
        return jnp.isfinite(self.measured)

    @property
    def weight(self) -> Array:
        """Every group weighs the same."""
        return jnp.where(self.there, 1.0 / jnp.sqrt(self.there.sum(axis=1, keepdims=True)), 0.0)

    @property
    def start(self) -> Array:
        return jnp.asarray([scale.start for scale in self.scales], float)

    def log_residuals(self, position: Array) -> Array:
        """ln(predicted / measured), (group, entry); zero where nothing was measured."""
        logs = log_predictions(self.part, self.values, self.target, constants_at(self.scales, position))
        measured = jnp.where(self.there, self.measured, 1.0)
        return jnp.where(self.there, logs.reshape(measured.shape) - jnp.log(measured), 0.0)

    def objective(self, position: Array, _: None = None) -> tuple[Array, Array]:
        """Residuals of data and of priors, both in widths of their distributions, over the root of the entries."""
        error = self.log_residuals(position)
        if self.residual == "relative":
            error = jnp.expm1(jnp.minimum(error, _FARTHEST))
        data = self.weight * _softened(error / self.noise, self.robust)
        return data, self.deviations(position) / jnp.sqrt(float(self.measured.shape[1]))

    def loss(self, position: Array, _: None = None) -> Array:
        """The squares of all residuals, added up."""
        data, priors = self.objective(position)
        return jnp.sum(data**2) + jnp.sum(priors**2)

    def deviations(self, position: Array) -> Array:
        """How many widths each constant lies from the center of its prior."""
        return jnp.stack([scale.deviation(x, self.prior) for scale, x in zip(self.scales, position, strict=True)])

    def log_density(self, position: Array) -> Array:
        """Logarithm of the posterior density, up to a constant, of constants on their unbounded scales."""
        return -0.5 * self.measured.shape[1] * self.loss(position)

    def regimes(self, graph: FactorGraph, position: Array) -> np.ndarray | None:
        """The factor that takes most from each measurement; None where the graph has no two factors of the target."""
        changed = graph.with_parameters(constants_at(self.scales, position))
        choices = [name for name in CHOICES.values() if name in graph]

        def known(part: FactorGraph, one: dict[str, Array]) -> dict[str, Array]:
            return part.evaluate({name: value for name, value in one.items() if name in part.variables})

        first = {name: value[0] for name, value in self.values.items()}
        shape = jax.eval_shape(lambda one: known(self.part, one), first)[self.target].shape
        names = []
        for name in (factor.output.name for factor in graph.factors if factor.output.name.startswith("eta_")):
            part = graph.subgraph(name, *choices)
            try:
                found = jax.eval_shape(lambda one, p=part, n=name: chosen(p.variables, known(p, one), n), first)
            except FactorGraphError:
                continue  # it reads what this benchmark does not state
            names += [name] if found.shape == shape else []
        if len(names) < 2:
            return None
        part = changed.subgraph(*names, *choices)

        def least(one: dict[str, Array]) -> Array:
            found = known(part, one)
            return jnp.argmin(jnp.stack([chosen(part.variables, found, name) for name in names]), axis=0)

        index = np.asarray(jax.jit(jax.vmap(least))(self.values))
        return np.asarray(names)[index].reshape(self.measured.shape)


def log_predictions(part: FactorGraph, values: dict[str, Array], target: str, constants: dict[str, Array]) -> Array:
    """Logarithms of the predicted target, the first axis being the group."""
    changed = part.with_parameters(constants)
    return jnp.log(jax.vmap(lambda one: changed.evaluate(one)[target])(values))


def _softened(residual: Array, robust: bool) -> Array:
    """A residual whose square is the soft L1 loss 2 (sqrt(1 + r^2) - 1): r where small, sqrt(2 |r|) where large."""
    if not robust:
        return residual
    # r * sqrt(2 / (sqrt(1 + r^2) + 1)) is the same number without the difference of nearly equal ones.
    return residual * jnp.sqrt(2.0 / (jnp.sqrt(1.0 + residual**2) + 1.0))


def relevant(graph: FactorGraph, observations: Observations, free: Sequence[str]) -> FactorGraph:
    """The part of a graph that was measured, after checking that the measurements can say something of the constants.

    Raises:
        FactorGraphError: nothing is free, nothing was measured, or a constant does not reach what was measured.
        UnknownNameError: the graph has no such constant.
    """
    target = observations.target
    if not free:
        raise FactorGraphError("nothing to fit; name constants with free=['eta_mem.fit', ...]")
    if target not in graph:
        raise FactorGraphError(f"this graph gives no '{target}', which is what was measured")
    part = graph.subgraph(target)
    for path in free:
        graph.parameter_info(path)
        if path not in part.parameters:
            raise FactorGraphError(
                f"'{path}' does not reach {target}, which is what was measured; leave it out of free"
            )
    measured = np.asarray(observations.measured)
    if measured.ndim != 2:
        raise FactorGraphError(f"measurements lie along group and entry; these have {measured.ndim} axes")
    if measured.size == 0:
        raise FactorGraphError(f"there is no measurement of {target}; give at least one")
    for name, row in zip(observations.groups, measured, strict=True):
        if not np.isfinite(row).any():
            raise FactorGraphError(f"all measurements of {target} on {name} are NaN; leave it out")
        if (row <= 0).any():
            raise FactorGraphError(f"a measurement of {target} on {name} is not above zero; leave such rows out")
    return part


def observed(
    data: Observations | xr.Dataset, *, engine: str | None, skus: Sequence[str] | None, sample: int | None, seed: int
) -> Observations:
    """Measurements as a fit takes them, from a dataset of kind "gemm" too.

    Raises:
        FactorGraphError: the dataset is of another kind, element type or unit, or leaves open which engine is meant.
    """
    if isinstance(data, Observations):
        return data
    if not isinstance(data, xr.Dataset):
        raise FactorGraphError(f"a fit takes Observations or a dataset; a {type(data).__name__} is neither")
    if data.attrs.get("kind") != "gemm" or "latency" not in data:
        raise FactorGraphError(
            f"a dataset of kind '{data.attrs.get('kind', 'none')}' cannot be fitted as it is; give one of kind 'gemm', "
            f"or make Observations of it"
        )
    if data.attrs.get("dtype") not in ("bf16", "fp8"):
        raise FactorGraphError(f"no law for products of '{data.attrs.get('dtype')}'; the dtype must be bf16 or fp8")
    unit = str(data["latency"].attrs.get("units", "none"))
    seconds = to_unit(np.asarray(data["latency"].values), unit, "s", what="latency")
    data = data.assign(latency=data["latency"].copy(data=seconds))
    engines = [str(name) for name in data["engine"].values]
    if engine is None and len(engines) > 1:
        raise FactorGraphError(f"this dataset has engines {', '.join(engines)}; say which with engine=")
    return gemm_observations(data, engines=[engine or engines[0]], skus=skus, sample=sample, seed=seed)
