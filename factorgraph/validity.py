"""How sure a prediction is: whether its inputs lie where the laws' constants were fitted.

A law states in `fitted_in` the range of each input that its measurements spanned, and in `supported_in` a range beyond
which its form does not hold. A prediction is as sure as the least sure of its laws.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from factorgraph.graph import FactorGraph
from factorgraph.variables import Variable

# From sure to unsure; a result holds the index.
LEVELS = ("inside", "extrapolated", "unsupported")


def judge(graph: FactorGraph, inputs: Mapping[str, xr.DataArray]) -> xr.DataArray:
    """The validity of a prediction, by the outer dimensions of its inputs.

    Args:
        graph: the laws.
        inputs: what the graph was given, by variable name, outer dimensions and plates named.

    Returns:
        0, 1 or 2 for "inside", "extrapolated" and "unsupported", with the reasons in the attribute "reasons", the
        graver ones first.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> out = fg.step_graph().predict(fg.load_sku("h100-sxm"), step, power_cap=[250.0, 700.0])
        >>> out.validity.values.tolist(), out.validity.attrs["reasons"]
        ([1, 0], 'power_cap = 250 W: the constants of EnergyRoof were fitted in 350 to 1400 W')
    """
    level: xr.DataArray = xr.DataArray(np.int8(0))
    reasons: dict[int, list[str]] = {1: [], 2: []}
    for grade, law, variable, (low, high) in _stated(graph):
        if variable.name not in inputs:
            continue
        value = inputs[variable.name]
        outside = (value < low * (1.0 - _ROUNDING)) | (value > high * (1.0 + _ROUNDING))
        if bool(outside.any()):
            beyond = value.values[outside.values].flat[0]
            reasons[grade].append(_reason(grade, law, variable, float(beyond), low, high))
            here = outside.any([dim for dim in outside.dims if dim in variable.plates])
            level = xr.where(here, np.maximum(level, grade), level).astype(np.int8)
    level.attrs = {
        "long_name": "whether the inputs lie where the laws were fitted",
        "units": "1",
        "flag_values": np.arange(len(LEVELS), dtype=np.int8),
        "flag_meanings": " ".join(LEVELS),
        "reasons": "; ".join([*reasons[2], *reasons[1]]),
    }
    return level


# Inputs pass through single precision.
_ROUNDING = 1e-5


def _stated(graph: FactorGraph) -> Iterator[tuple[int, str, Variable, Sequence[float]]]:
    for factor in graph.factors:
        known = {variable.name: variable for variable in factor.inputs}
        for grade, ranges in ((1, factor.fitted_in), (2, factor.supported_in)):
            for name, limits in ranges.items():
                yield grade, factor.law_name, known[name], limits


def _reason(grade: int, law: str, variable: Variable, value: float, low: float, high: float) -> str:
    unit = "" if variable.unit == "1" else f" {variable.unit}"
    stated = f"{low:g} to {high:g}{unit}"
    what = f"the constants of {law} were fitted in {stated}" if grade == 1 else f"{law} holds in {stated} only"
    return f"{variable.name} = {value:g}{unit}: {what}"
