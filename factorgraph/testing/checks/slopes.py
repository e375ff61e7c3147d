"""How a law moves along each of its inputs: the declared way, without steps, and as its derivative says."""

import numpy as np

from factorgraph.testing.bench import POINTS, Bench, Line, Values, roughness
from factorgraph.testing.strategies import bulk
from factorgraph.testing.wording import amount
from factorgraph.variables import Variable

# Rounding of float64 through a law, with room for an iteration that has not quite converged.
_ROUNDING = 1e-9
# An input's step in a finite difference, relative to itself.
_STEP = 1e-5
# Share of points at which a law may have a corner in an input that it does not declare a kink in.
_CORNERS = 0.2


def monotone(bench: Bench, values: Values) -> str | None:
    """Each declared direction holds between all neighbours along that input, and for the derivative."""
    for level, lines in enumerate(bench.closer(values, levels=2)):
        for name, sign in bench.law.monotone.items():
            variable, line = bench.inputs[name], lines[name]
            if variable.domain.integer and level > 0:
                continue
            if complaint := _against(sign, line, variable, bench):
                return complaint
    return None


def _against(sign: int, line: Line, variable: Variable, bench: Bench) -> str | None:
    output, way = bench.law.output, "falls" if sign > 0 else "rises"
    declared = f"though monotone declares {sign:+d}"
    steps, size = sign * np.diff(line.y), np.maximum(np.abs(line.y[1:]), np.abs(line.y[:-1]))
    if (wrong := steps < -_ROUNDING * size).any():
        at = int(np.argmax(wrong))
        before, after = (amount(y, output) for y in line.y[at : at + 2])
        low, high = (amount(x, variable) for x in line.x[at : at + 2])
        return f"{output.name} {way} from {before} to {after} as {variable.name} goes from {low} to {high}, {declared}"
    wrong = sign * line.slope * np.abs(line.x) < -1e-6 * np.abs(line.y)
    if wrong.any():
        at = int(np.argmax(wrong))
        return (
            f"its derivative by {variable.name} is {line.slope[at]:.9g} at {amount(line.x[at], variable)}, {declared}"
        )
    return None


def continuous(bench: Bench, values: Values) -> str | None:
    """No steps in any input that is not declared a kink: a small move of an input moves the output little."""
    first: dict[str, Line] = {}
    last: dict[str, Line] = {}
    for lines in bench.closer(values, levels=4):
        first, last = first or lines, lines
    for name, line in last.items():
        if name in bench.claims.kinks:
            continue
        at = int(np.argmax(roughness(line)))
        left, right = line.y[at], line.y[at + 1]
        step = roughness(line)[at]
        coarse = np.searchsorted(first[name].x, line.x[at], side="right") - 1
        around = first[name].y[max(coarse - 1, 0) : coarse + 3]
        if step > 1e-6 * max(abs(left), abs(right)) and step > 1e-5 * np.ptp(around):
            output, variable = bench.law.output, bench.inputs[name]
            return (
                f"{output.name} jumps from {amount(left, output)} to {amount(right, output)} at {name} = "
                f"{amount(line.x[at + 1], variable)}; smooth it, or declare kinks = ('{name}',)"
            )
    return None


def derivative(bench: Bench, values: Values) -> str | None:
    """The derivative agrees with a central difference, away from corners and declared kinks."""
    grids = {name: _triples(variable, bench.grids(values)[name]) for name, variable in bench.inputs.items()}
    for name, line in bench.lines(values, grids).items():
        if name in bench.claims.kinks:
            continue
        x, y, slope = (part[: POINTS // 3 * 3].reshape(-1, 3) for part in (line.x, line.y, line.slope))
        valid = x[:, 0] < x[:, 1]
        x, y, slope = x[valid], y[valid], slope[valid]
        if len(x) == 0:
            continue
        before, after = (y[:, 1] - y[:, 0]) / (x[:, 1] - x[:, 0]), (y[:, 2] - y[:, 1]) / (x[:, 2] - x[:, 1])
        unit = np.abs(y[:, 1]) / np.abs(x[:, 1])
        scale = np.maximum(np.abs(before), np.abs(after)) + 1e-6 * unit
        corner = np.abs(after - before) > 0.01 * scale
        central = 0.5 * (before + after)
        variable, output = bench.inputs[name], bench.law.output
        tolerance = 1e-3 * np.abs(central) + np.abs(after - before) + 1e-6 * unit
        wrong = ~corner & (np.abs(slope[:, 1] - central) > tolerance)
        if wrong.any():
            at = int(np.argmax(wrong))
            return (
                f"its derivative by {name} is {slope[at, 1]:.9g}, and a central difference gives {central[at]:.9g} "
                f"{output.unit} per {variable.unit} at {name} = {amount(x[at, 1], variable)}"
            )
        if np.mean(corner) > _CORNERS:
            at = int(np.argmax(corner))
            return (
                f"its slope by {name} is {before[at]:.9g} just below and {after[at]:.9g} just above {name} = "
                f"{amount(x[at, 1], variable)}, and so at {np.mean(corner):.0%} of points; declare kinks = ('{name}',)"
            )
    return None


def _triples(variable: Variable, grid: np.ndarray) -> np.ndarray:
    """Each third point of a grid between two close neighbours; points too near an end of the domain are left flat."""
    low, high = bulk(variable.domain)
    middle = grid[1 : POINTS - 1 : 3]
    step = np.where((middle * (1 - _STEP) > low) & (middle * (1 + _STEP) < high), _STEP, 0.0)
    triples = np.stack([middle * (1.0 - step), middle, middle * (1.0 + step)], axis=1).ravel()
    return np.concatenate([triples, np.full(POINTS - triples.size, triples[-1])])
