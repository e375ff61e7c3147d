"""However JAX runs a law, it gives the same number."""

import jax
import numpy as np

from factorgraph.testing.bench import POINTS, Bench, Values, in_single
from factorgraph.testing.wording import where

_SINGLE = float(np.finfo(np.float32).eps)
# Rounding through a law of some twenty operations, reordered by the compiler.
_REORDERED = 50 * _SINGLE
# Two numbers below this are both nothing: the smallest normal number of float32, with room for a product.
_NOTHING = 1e-36


def jit(bench: Bench, values: Values) -> str | None:
    """Compiled and run plainly it agrees."""
    eager = float(bench.law(**{name: jax.numpy.asarray(array) for name, array in in_single(values).items()}))
    compiled = bench.single(values)
    return _apart("run plainly it gives", eager, "compiled", compiled, bench, values)


def vmap(bench: Bench, values: Values) -> str | None:
    """Mapped over many points and asked one by one it agrees."""
    grids = bench.grids(values)
    together, _ = bench.gradients(values, grids)
    for row in range(0, len(grids) * POINTS, POINTS // 2):
        alone = bench.row(values, grids, row)
        if complaint := _apart(
            "mapped over points it gives", float(together[row]), "alone", bench.single(alone), bench, alone
        ):
            return complaint + where(alone, values, bench)
    return None


def precision(bench: Bench, values: Values) -> str | None:
    """float32 and float64 agree to 1e-4, or as far as the rounding of the inputs lets them."""
    single, double = bench.single(values), bench.double(values)
    return _apart("in float32 it gives", single, "in float64", double, bench, values, least=1e-4)


def _apart(
    first: str, one: float, second: str, other: float, bench: Bench, values: Values, least: float = _REORDERED
) -> str | None:
    """A complaint where two numbers differ by more than rounding, which grows with the law's own steepness."""
    difference = abs(one - other)
    if difference <= least * abs(other) + _NOTHING or (np.isnan(one) and np.isnan(other)):
        return None
    if np.isfinite(one) and np.isfinite(other) and difference <= 20 * _SINGLE * _steepness(bench, values):
        return None
    return f"{first} {one:.9g}, {second} {other:.9g}"


def _steepness(bench: Bench, values: Values) -> float:
    """The change of the output for a change of every input by its own size."""
    grids = {name: np.full(POINTS, np.ravel(value)[0]) for name, value in values.items()}
    lines = bench.lines(values, grids)
    return sum(abs(line.slope[0] * line.x[0]) for line in lines.values())
