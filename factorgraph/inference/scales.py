"""Constants on an unbounded scale: bounds hold by construction, and a prior is one more residual."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph

# How far a constant may move from where it starts, beside the bounds of its law.
_REACH = 8.0


@dataclasses.dataclass(frozen=True)
class Prior:
    """What was known of a constant before the data.

    Attributes:
        center: its median, in the constant's unit.
        width: standard deviation: of its logarithm where "log-normal", in its unit where "normal".
        shape: "log-normal" or "normal".

    Raises:
        FactorGraphError: the width is not above zero, or a log-normal's center is not.

    Examples:
        >>> Prior(0.5, 0.2).shape
        'log-normal'
    """

    center: float
    width: float
    shape: Literal["log-normal", "normal"] = "log-normal"

    def __post_init__(self):
        if self.shape not in ("log-normal", "normal"):
            raise FactorGraphError(f"a prior is 'log-normal' or 'normal'; '{self.shape}' is neither")
        if not (np.isfinite(self.center) and np.isfinite(self.width) and self.width > 0):
            raise FactorGraphError(f"a prior has a finite center and a width above zero; {self} has not")
        if self.shape == "log-normal" and not self.center > 0:
            raise FactorGraphError(f"a log-normal prior has a center above zero; {self.center:g} is not, use 'normal'")

    def deviation(self, value: Array) -> Array:
        """How many widths a value lies from the center."""
        if self.shape == "normal":
            return (value - self.center) / self.width
        return (jnp.log(value) - np.log(self.center)) / self.width


@dataclasses.dataclass(frozen=True)
class Scale:
    """A number of a constant on an unbounded scale: low + (high - low) * logistic(x).

    Attributes:
        path: the constant, "variable.field".
        index: which of its numbers; None where it is a single one.
        low, high: between which it stays.
        start: x where the fit starts.
        prior: what was known of it; None for a normal prior on x, as wide as the fit says.
    """

    path: str
    index: int | None
    low: float
    high: float
    start: float
    prior: Prior | None

    @property
    def name(self) -> str:
        return self.path if self.index is None else f"{self.path}[{self.index}]"

    def value(self, x: Array) -> Array:
        return self.low + (self.high - self.low) * jax.nn.sigmoid(x)

    def deviation(self, x: Array, width: float) -> Array:
        return (x - self.start) / width if self.prior is None else self.prior.deviation(self.value(x))


def scales_of(
    graph: FactorGraph, free: Sequence[str], priors: Mapping[str, Prior | tuple[float, float]]
) -> tuple[Scale, ...]:
    """The scales of some constants of a graph.

    Raises:
        UnknownNameError: the graph has no such constant.
        FactorGraphError: a prior is for a constant that is not free, or lies outside the bounds.
    """
    for path in priors:
        graph.parameter_info(path)
        if path not in free:
            raise FactorGraphError(f"a prior was given for '{path}', which is not free; add it to free=[...]")
    return tuple(scale for path in free for scale in _scales_of_constant(graph, path, priors.get(path)))


def _scales_of_constant(graph: FactorGraph, path: str, given: Prior | tuple[float, float] | None) -> list[Scale]:
    info, value = graph.parameter_info(path), np.asarray(graph.parameters[path])
    prior = Prior(*given) if isinstance(given, tuple) else given
    if prior is not None and not info.lower < prior.center < info.upper:
        raise FactorGraphError(
            f"the prior of '{path}' is centred on {prior.center:g}, outside the bounds of its law "
            f"({info.lower:g} to {info.upper:g} {info.unit}); center it inside"
        )
    scales = []
    for index, now in enumerate(value.ravel().tolist()):
        anchors = [now] if prior is None else [now, prior.center]
        if now == 0.0 and not np.isfinite(info.upper - info.lower):
            raise FactorGraphError(f"'{path}' starts at 0, from where no range follows; start it elsewhere")
        reach = [x * factor for x in anchors for factor in (1.0 / _REACH, _REACH)]
        low = max(info.lower, min(reach)) if now != 0.0 else info.lower
        high = min(info.upper, max(reach)) if now != 0.0 else info.upper
        if prior is not None and prior.shape == "normal":
            # A normal prior is in the constant's own unit, and says itself how far the constant may go.
            low, high = max(info.lower, prior.center - 8 * prior.width), min(info.upper, prior.center + 8 * prior.width)
        share = float(np.clip((now - low) / (high - low), 0.01, 0.99))
        start = float(np.log(share / (1.0 - share)))
        scales.append(Scale(path, index if value.ndim else None, low, high, start, prior))
    return scales


def constants_at(scales: Sequence[Scale], position: Array) -> dict[str, Array]:
    """The constants at a position on their scales, those of several numbers put together again."""
    numbers: dict[str, list[Array]] = {}
    for scale, x in zip(scales, position, strict=True):
        numbers.setdefault(scale.path, []).append(scale.value(x))
    single = {scale.path for scale in scales if scale.index is None}
    return {path: found[0] if path in single else jnp.stack(found) for path, found in numbers.items()}
