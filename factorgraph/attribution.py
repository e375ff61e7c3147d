"""Where the peak goes: what each factor takes from a GEMM, exact to rounding."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.kernels import FACTORS
from factorgraph.labelled import predict

# Single precision through a chain of some twenty operations; a factor left out shows as a few percent.
_ROUNDING = 1e-4


def waterfall(graph: FactorGraph, *sources: Any, factors: Sequence[str] = FACTORS, **values: Any) -> xr.Dataset:
    """How the efficiency of each GEMM comes down from 1, one factor after the other.

    What a factor takes depends on what stood before it, so three readings are given. `points_lost` is the fall in the
    order of `factors`; `points_shapley` is its mean over all orders; `share` is the factor's part of the logarithm of
    the loss, which no order changes. Each adds up to the whole loss.

    Args:
        graph: the laws.
        *sources: cards, steps or mappings, as for [`predict`][factorgraph.labelled.predict]; a list adds "sku".
        factors: the variables that multiply to the efficiency of `t_gemm`, in the order in which they are taken off.
        **values: as for `predict`; a sequence adds a dimension.

    Returns:
        Over (gemm, factor) and any outer dimension: `factor_value`; `efficiency` after the factor; `points_lost`,
        `points_shapley` (percentage points of peak); `share` (1). Over gemm: `achieved` = gemm_flop / (peak_flops
        t_gemm), and `time_share` of the GEMMs' time. Over factor, for all GEMMs of the step taken together by time:
        `total_efficiency`, `total_points_lost`, `total_share`.

    Raises:
        FactorGraphError: as for `predict`; or the factors do not multiply to what `t_gemm` achieves.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> falls = waterfall(fg.step_graph(), fg.load_sku("h100-sxm"), step)
        >>> left = 100.0 * falls.efficiency.isel(factor=-1)
        >>> bool(abs(falls.points_lost.sum("factor") + left - 100.0).max() < 1e-9)
        True
    """
    if not factors:
        raise FactorGraphError("a waterfall of no factors; name those that t_gemm is made of with factors=[...]")
    names = [*factors, "gemm_flop", "peak_flops", "t_gemm", "gemm_count"]
    out = predict(graph, *sources, outputs=names, **values).astype(float)
    taken = xr.concat([out[name] for name in factors], dim=xr.IndexVariable("factor", list(factors)))
    efficiency = taken.cumprod("factor")
    achieved = out.gemm_flop / (out.peak_flops * out.t_gemm)
    _hold_to_product(efficiency.isel(factor=-1, drop=True), achieved, factors)
    ideal = out.gemm_count * out.gemm_flop / out.peak_flops
    together = ideal.sum("gemm") / (ideal / efficiency).sum("gemm")
    time = out.gemm_count * out.t_gemm
    falls = xr.Dataset(
        {
            "factor_value": taken,
            "efficiency": efficiency,
            "points_lost": _points(efficiency),
            "points_shapley": 100.0 * _mean_marginal(taken),
            "share": _log_share(taken),
            "achieved": achieved,
            "time_share": time / time.sum("gemm"),
            "total_efficiency": together,
            "total_points_lost": _points(together),
            "total_share": _log_share(_steps(together)),
        },
        attrs={**out.attrs, "title": "factorgraph waterfall"},
    )
    for name, (unit, meaning) in _MEANING.items():
        falls[name].attrs = {"units": unit, "long_name": meaning}
    return falls.transpose(..., "gemm", "factor")


_MEANING = {
    "factor_value": ("1", "value of the factor"),
    "efficiency": ("1", "share of peak left after the factor"),
    "points_lost": ("percentage_point", "peak that the factor takes, in the stated order"),
    "points_shapley": ("percentage_point", "peak that the factor takes, mean over all orders"),
    "share": ("1", "part of the logarithm of the loss"),
    "achieved": ("1", "FLOP/s over peak"),
    "time_share": ("1", "part of the GEMMs' time"),
    "total_efficiency": ("1", "share of peak left after the factor, all GEMMs of the step"),
    "total_points_lost": ("percentage_point", "peak that the factor takes, all GEMMs of the step"),
    "total_share": ("1", "part of the logarithm of the loss, all GEMMs of the step"),
}


def _hold_to_product(product: xr.DataArray, achieved: xr.DataArray, factors: Sequence[str]) -> None:
    off = float(abs(product / achieved - 1.0).max())
    if not off < _ROUNDING:
        raise FactorGraphError(
            f"{', '.join(factors)} multiply to an efficiency {off:.1%} away from what t_gemm achieves; "
            f"name every factor that t_gemm is made of with factors=[...]"
        )


def _steps(efficiency: xr.DataArray) -> xr.DataArray:
    """The factor that leads from each efficiency to the next, from 1 down."""
    return efficiency / efficiency.shift(factor=1, fill_value=1.0)


def _points(efficiency: xr.DataArray) -> xr.DataArray:
    return 100.0 * (efficiency.shift(factor=1, fill_value=1.0) - efficiency)


def _log_share(factors: xr.DataArray) -> xr.DataArray:
    """ln(factor) over the logarithm of the product; where nothing is lost, no factor has a share in it."""
    logs: xr.DataArray = xr.apply_ufunc(np.log, factors)
    whole = logs.sum("factor")
    return (logs / whole.where(whole != 0.0, 1.0)).where(whole != 0.0, 0.0)


def _mean_marginal(factors: xr.DataArray) -> xr.DataArray:
    """Shapley value of each factor in the loss 1 - product: its fall, averaged over all orders."""
    names = list(factors["factor"].values)
    falls: list[xr.DataArray] = []
    for name in names:
        one, others = factors.sel(factor=name, drop=True), [other for other in names if other != name]
        fall = 0.0 * one
        for size in range(len(names)):
            weight = 1.0 / (len(names) * math.comb(len(others), size))
            for before in combinations(others, size):
                fall = fall + weight * factors.sel(factor=list(before)).prod("factor") * (1.0 - one)
        falls.append(fall)
    return xr.concat(falls, dim=factors["factor"])
