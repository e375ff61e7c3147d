"""Where a law's output and gradients may lie."""

import numpy as np

from factorgraph.testing.bench import Bench, Values
from factorgraph.testing.wording import amount, where

# Of float32, through a law of a few operations.
_ROUNDING = 1e-5


def domain(bench: Bench, values: Values) -> str | None:
    """Finite everywhere, and of the sign and size that the output's domain allows; an efficiency lies in (0, 1].

    An efficiency may be zero as a limit, where an input is zero. The lower end of another positive output is not held
    to: at the corners of its inputs' domains a quotient of small by large numbers is smaller still.
    """
    output = bench.law.output
    grids = bench.grids(values)
    y, _ = bench.gradients(values, grids)
    lower, upper = output.domain.lower, output.domain.upper
    is_efficiency = output.unit == "1" and lower >= 0.0 and upper == 1.0
    too_low = (y <= 0.0) if lower > 0.0 else (y < lower)
    too_high = y > (upper if is_efficiency else upper * (1.0 + _ROUNDING))
    wrong = {
        "which is not finite": ~np.isfinite(y),
        f"outside its domain {output.domain}": too_low | too_high,
    }
    for fault, rows in wrong.items():
        if rows.any():
            at = int(np.argmax(rows))
            point = bench.row(values, grids, at)
            return f"{output.name} is {amount(y[at], output)}, {fault}{where(point, values, bench)}"
    if is_efficiency:
        for at in np.flatnonzero(y == 0.0):
            point = bench.row(values, grids, int(at))
            if all(np.min(np.abs(np.float32(value))) >= np.finfo(np.float32).tiny for value in point.values()):
                return (
                    f"{output.name} is 0 of positive inputs; an efficiency lies in (0, 1]{where(point, values, bench)}"
                )
    return None


def gradient(bench: Bench, values: Values) -> str | None:
    """Finite derivatives by every input and constant, kinks and ends of the domain included."""
    grids = bench.grids(values)
    _, slopes = bench.gradients(values, grids)
    for name, slope in slopes.items():
        rows = ~np.isfinite(slope.reshape(len(slope), -1)).all(axis=1)
        if rows.any():
            at = int(np.argmax(rows))
            found = np.ravel(slope[at])
            point = bench.row(values, grids, at)
            return f"its derivative by {name} is {found[~np.isfinite(found)][0]}{where(point, values, bench)}"
    return None


def roofline(bench: Bench, values: Values) -> str | None:
    """Never faster than its work at the full rate."""
    for work, rate in bench.claims.roofline:
        least = np.float32(values[work]) / np.float32(values[rate])
        if rate == "peak_flops" and "sm_clock" in values and "boost_clock" in values:
            # The peak is printed for the boost clock; a clock locked above it lifts the roof.
            least /= max(1.0, values["sm_clock"] / values["boost_clock"])
        found = bench.single(values)
        if found < least * (1.0 - _ROUNDING):
            output = bench.law.output
            return f"{output.name} is {amount(found, output)}, faster than {work}/{rate} = {amount(least, output)}"
    return None
