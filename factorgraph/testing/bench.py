"""A law on the bench: run at one point in single or double precision, or along each of its inputs at once."""

import dataclasses
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from factorgraph.factor import Factor
from factorgraph.testing.claims import Claims, claims_of
from factorgraph.testing.strategies import bulk, spans_decades
from factorgraph.variables import Variable

Values = Mapping[str, Any]

# Points along each input. Every example lays them elsewhere, so that many examples leave no wide gap.
POINTS = 257


@dataclasses.dataclass(frozen=True)
class Line:
    """A law along one input, the others held.

    Attributes:
        x: the input, rising.
        y: the output.
        slope: its derivative by that input.
    """

    x: np.ndarray
    y: np.ndarray
    slope: np.ndarray


@dataclasses.dataclass(frozen=True)
class Bench:
    """A law and what it claims. Its compiled forms are kept by JAX for all laws of the same class."""

    law: Factor
    claims: Claims

    @classmethod
    def of(cls, law: Factor) -> "Bench":
        return cls(law, claims_of(law))

    @property
    def inputs(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.law.inputs}

    def single(self, values: Values) -> float:
        """The law in float32, compiled."""
        return float(_value(self.law, in_single(values)))

    def double(self, values: Values, law: Factor | None = None) -> float:
        """The law, or the same one with other constants, in float64, compiled."""
        with jax.enable_x64(True):
            return float(_value(widened(law or self.law), in_double(values)))

    def batch(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """The law in float32 at many points, one a row of the columns."""
        return np.asarray(_mapped(self.law, {name: column.astype(np.float32) for name, column in columns.items()}))

    def lines(self, values: Values, grids: Mapping[str, np.ndarray]) -> dict[str, Line]:
        """The law in float64 along each input named, all at once."""
        with jax.enable_x64(True):
            y, slopes, _ = _rows(widened(self.law), self._moved(in_double(values), grids))
        y, lines = np.asarray(y), {}
        for i, (name, x) in enumerate(grids.items()):
            part = slice(i * POINTS, (i + 1) * POINTS)
            slope = np.asarray(slopes[name])[part]
            lines[name] = Line(np.asarray(x), y[part], slope if slope.ndim == 1 else slope[:, 0])
        return lines

    def gradients(self, values: Values, grids: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The law in float32 along each input: the outputs, and the derivatives by every input and constant."""
        y, slopes, constants = _rows(self.law, self._moved(in_single(values), grids))
        by_constant = {name: getattr(constants, name) for name in self.law.parameters}
        return np.asarray(y), {name: np.asarray(slope) for name, slope in (slopes | by_constant).items()}

    def row(self, values: Values, grids: Mapping[str, np.ndarray], index: int) -> dict[str, Any]:
        """The values at one row of `lines` or `gradients`."""
        name = list(grids)[index // POINTS]
        return moved_to(values, name, float(grids[name][index % POINTS]))

    def grids(self, values: Values) -> dict[str, np.ndarray]:
        """Points along each input over its whole domain, laid elsewhere for each example."""
        shift = zlib.crc32(repr(values).encode()) / 2**32
        return {name: _grid(variable, _first(values[name]), shift) for name, variable in self.inputs.items()}

    def closer(self, values: Values, levels: int) -> Iterator[dict[str, Line]]:
        """Lines over the whole domain, then over the interval that looked the least smooth, and so on."""
        grids = self.grids(values)
        for level in range(levels):
            lines = self.lines(values, grids)
            yield lines
            if level < levels - 1:
                grids = {name: _roughest(line) for name, line in lines.items()}

    def _moved(self, arrays: Mapping[str, np.ndarray], grids: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = len(grids) * POINTS
        stacked = {name: np.tile(array, (rows, *(1,) * array.ndim)) for name, array in arrays.items()}
        for i, (name, x) in enumerate(grids.items()):
            part = stacked[name][i * POINTS : (i + 1) * POINTS]
            part.reshape(POINTS, -1)[:, 0] = x
        return stacked


def in_single(values: Values) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def in_double(values: Values) -> dict[str, np.ndarray]:
    """The numbers that single precision sees, so that rounding of the inputs is no difference between the two."""
    return {name: array.astype(np.float64) for name, array in in_single(values).items()}


def widened(law: Factor) -> Factor:
    """A law with its constants in float64; only within `jax.enable_x64`."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, law)


def moved_to(values: Values, name: str, x: float) -> dict[str, Any]:
    """The values with one input, or the first entry of a list, set to another number."""
    old = values[name]
    return {**values, name: [x, *old[1:]] if isinstance(old, list) else x}


@eqx.filter_jit
def _value(law: Factor, values: dict[str, Any]) -> jax.Array:
    return law(**values)


@eqx.filter_jit
def _mapped(law: Factor, rows: dict[str, Any]) -> jax.Array:
    return jax.vmap(lambda values: law(**values))(rows)


@eqx.filter_jit
def _rows(law: Factor, rows: dict[str, Any]) -> tuple[jax.Array, dict[str, jax.Array], Factor]:
    @eqx.filter_value_and_grad
    def one(both: tuple[dict[str, Any], Factor]) -> jax.Array:
        values, law = both
        return law(**values)

    def row(values: dict[str, Any]):
        y, (slopes, constants) = one((values, law))
        return y, slopes, constants

    return jax.vmap(row)(rows)


def _first(value: Any) -> float:
    return float(value[0] if isinstance(value, list) else value)


def _grid(variable: Variable, around: float, shift: float) -> np.ndarray:
    low, high = bulk(variable.domain)
    if variable.domain.integer:
        steps = around + np.arange(-32, 33)
        coarse = np.geomspace(max(low, 1.0), high, POINTS - steps.size)
        return np.sort(np.clip(np.concatenate([steps, np.round(coarse)]), math.ceil(low), math.floor(high)))
    inner = (np.arange(POINTS - 2) + shift) / (POINTS - 2)
    if spans_decades(variable.domain):
        inner = np.clip(low * (high / low) ** inner, low, high)
    else:
        inner = low + (high - low) * inner
    lowest = variable.domain.lower if math.isfinite(variable.domain.lower) else low
    return np.concatenate([[lowest], inner, [high]])


def roughness(line: Line) -> np.ndarray:
    """How far each step of the output departs from what the slopes at its two ends foretell."""
    foretold = 0.5 * (line.slope[1:] + line.slope[:-1]) * np.diff(line.x)
    return np.abs(np.diff(line.y) - foretold)


def _roughest(line: Line) -> np.ndarray:
    size = np.abs(line.y[1:]) + np.abs(line.y[:-1]) + 1e-300
    at = int(np.argmax(np.nan_to_num(roughness(line) / size)))
    return np.linspace(line.x[at], line.x[at + 1], POINTS)
