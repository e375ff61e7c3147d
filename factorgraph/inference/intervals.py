"""Intervals around predictions: what constants leave open, what laws miss on a GPU, and what repeats differ by."""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.inference.fitting import fit
from factorgraph.inference.posterior import Posterior
from factorgraph.inference.problem import log_predictions
from factorgraph.labelled import chosen, gather, shown_plates
from factorgraph.observations import Observations
from factorgraph.step import FITTED

_LEVELS = (0.5, 0.8, 0.95)
# Kernels of a step are summed by kind, and the file of fitted constants calls the kinds so.
_TOTALS = {"gemm": "t_gemm_total", "attention": "t_attention_total", "collective": "t_collective_total"}


def predict_interval(
    graph: FactorGraph,
    posterior: Posterior | Sequence[Posterior],
    *sources: Any,
    outputs: Sequence[str] | None = None,
    levels: Sequence[float] = _LEVELS,
    held_out: Mapping[str, np.ndarray] | None = None,
    repeat: float = 0.0,
    margin: float = 2.0,
    draws: int = 1000,
    seed: int = 0,
    **values: Any,
) -> xr.Dataset:
    """Quantiles of every output, by drawing constants and residuals and running the graph on each draw.

    A measured variable is its prediction over the exponential of a residual: of this GPU's own where the fit saw it,
    else of one other GPU, drawn anew each time, so that kernels of a step err together as they do on a GPU. What laws
    make of that variable follows. What comes before it in the graph carries the spread of the constants alone.

    Args:
        graph: the laws, fitted.
        posterior: of the fit; several where several kinds of kernel were fitted.
        *sources: as for [`predict`][factorgraph.labelled.predict], one card and one step.
        outputs: the variables wanted; all that laws give by default.
        levels: of the central intervals.
        held_out: residuals of each GPU under constants that never saw it, from
            [`leave_one_out`][factorgraph.inference.intervals.leave_one_out]: for a GPU that was not measured these
            take the place of the residuals of the fit (split conformal), which are too small for it.
        repeat: standard deviation of the logarithm of one repeat, where single repeats are to be covered and what
            was fitted were medians.
        margin: how many times beyond the inputs that were measured the laws may be asked. Past it, whatever depends on
            the measured variable has no interval (NaN), and the attribute "abstained" says why.
        draws: how many.
        seed: of the draws.
        **values: as for `predict`.

    Returns:
        The outputs along "quantile", the median and the ends of each interval, and their plates.

    Raises:
        FactorGraphError: a level is not between 0 and 1, the case spans a dimension, or as for `predict`.
    """
    quantiles = quantiles_of(levels)
    posteriors = [posterior] if isinstance(posterior, Posterior) else list(posterior)
    inputs = gather(graph, *sources, **values)
    if inputs.dims:
        raise FactorGraphError(f"an interval is for one point, and this case spans {', '.join(inputs.dims)}")
    variables = graph.variables
    wanted = tuple(outputs) if outputs is not None else tuple(v.name for v in graph.outputs if graph[v.name].inputs)
    base = jax.eval_shape(graph.evaluate, inputs.arrays)
    for name in (*wanted, *(one.target for one in posteriors)):
        if name not in base:
            raise FactorGraphError(f"this graph gives no '{name}'; ask for one of its outputs")
    sku = next((str(s.label[1]) for s in sources if getattr(s, "label", ("",))[0] == "sku"), "")
    draw, key = np.random.default_rng(seed), jax.random.key(seed)
    constants: dict[str, Array] = {}
    factors: dict[str, Array] = {}
    abstained = []
    for one in posteriors:
        key, mine = jax.random.split(key)
        constants |= one.sample(draws, mine)
        shape = base[one.target].shape
        residual = _drawn(draw, one, sku, held_out, draws, shape) + repeat * draw.standard_normal((draws, *shape))
        inside, reasons = _within(one, inputs.arrays, margin, shape)
        abstained += reasons
        factors[one.target] = jnp.asarray(np.where(inside, np.exp(-residual), np.nan), float)
    found = _run(graph, inputs.arrays, constants, factors, wanted)
    data = {}
    for name in wanted:
        dims = ("quantile", *shown_plates(variables[name], variables))
        attrs = {"units": variables[name].unit, "long_name": variables[name].doc}
        data[name] = (dims, np.quantile(np.asarray(found[name], np.float64), quantiles, axis=0), attrs)
    coords: dict[str, Any] = {
        name: one for name, one in inputs.coords.items() if name in {d for v in data.values() for d in v[0]}
    }
    attrs = {"levels": json.dumps(list(levels)), "abstained": "; ".join(dict.fromkeys(abstained)), "seed": seed}
    return xr.Dataset(data, coords={"quantile": quantiles} | coords, attrs=attrs)


def quantiles_of(levels: Sequence[float]) -> np.ndarray:
    """The median and both ends of each central interval, in order.

    Examples:
        >>> quantiles_of((0.5, 0.8)).tolist()
        [0.1, 0.25, 0.5, 0.75, 0.9]
    """
    for level in levels:
        if not 0.0 < level < 1.0:
            raise FactorGraphError(f"a level lies between 0 and 1, such as 0.8; {level:g} does not")
    ends = {0.5} | {0.5 + sign * level / 2 for level in levels for sign in (-1, 1)}
    return np.asarray(sorted(round(end, 9) for end in ends))


def _drawn(draw, posterior: Posterior, sku: str, held_out, draws: int, shape: tuple[int, ...]) -> np.ndarray:
    """Log residuals, (draw, *shape); those of one draw are of one GPU."""
    if sku in posterior.residuals:
        pools = [posterior.residuals[sku]]
    else:
        pools = list((held_out or posterior.residuals).values())
    picks = draw.integers(len(pools), size=draws)
    return np.stack([draw.choice(pools[pick], size=shape) for pick in picks])


def _within(posterior: Posterior, arrays: Mapping[str, Array], margin: float, shape: tuple[int, ...]):
    """Which entries of the target are asked within what was measured, and a sentence for each input that is not."""
    inside, reasons = np.ones(shape, bool), []
    for name, (low, high) in posterior.seen.items():
        if name not in arrays:
            continue
        value = np.asarray(arrays[name])
        good = (value >= low / margin) & (value <= high * margin)
        if not good.all():
            worst = value[~good].flat[0]
            reasons.append(f"{name} = {worst:g} is far from the {low:g} to {high:g} that was measured")
            inside = inside & (good if value.shape == shape else good.all())
    return inside, reasons


@functools.partial(jax.jit, static_argnames="wanted")
def _run(graph, arrays, constants, factors, wanted):
    def once(drawn):
        constants, factors = drawn
        changed = graph.with_parameters(constants)
        values = dict(arrays)
        # Laws are run up to each measured variable; its residual then takes the law's place, and the rest follows.
        for name, factor in factors.items():
            values[name] = changed.evaluate(values)[name] * factor
        known = changed.evaluate(values)
        return {name: chosen(changed.variables, known, name) for name in wanted}

    return jax.lax.map(once, (constants, factors), batch_size=64)


def leave_one_out(graph: FactorGraph, observations: Observations, **settings: Any) -> dict[str, np.ndarray]:
    """Log residuals of each GPU under constants fitted to all others.

    Args:
        graph: the laws, with the constants to start from.
        observations: of at least three GPUs.
        **settings: as for [`fit`][factorgraph.inference.fitting.fit].

    Raises:
        FactorGraphError: there are fewer GPUs, or as for `fit`.
    """
    names = np.asarray(observations.groups)
    skus = list(dict.fromkeys(observations.groups))
    if len(skus) < 3:
        raise FactorGraphError(f"leaving one GPU out needs at least three; {', '.join(skus)} are too few")
    found = {}
    for sku in skus:
        fitted = fit(graph, groups_of(observations, np.flatnonzero(names != sku)), **settings).graph
        found[sku] = log_residuals(fitted, groups_of(observations, np.flatnonzero(names == sku)))
    return found


def groups_of(observations: Observations, index: np.ndarray) -> Observations:
    """Some groups of observations."""
    return Observations(
        values={name: value[index] for name, value in observations.values.items()},
        measured=observations.measured[index],
        target=observations.target,
        groups=tuple(observations.groups[i] for i in index),
    )


def log_residuals(graph: FactorGraph, observations: Observations) -> np.ndarray:
    """ln(predicted / measured) of every measurement, flat, those that are NaN left out."""
    part = graph.subgraph(observations.target)
    values = {name: value for name, value in observations.values.items() if name in part.variables}
    logs = np.asarray(jax.jit(lambda v: log_predictions(part, v, observations.target, {}))(values), np.float64)
    measured = np.asarray(observations.measured, np.float64)
    found = logs.reshape(measured.shape) - np.log(measured)
    return found[np.isfinite(measured)]


def coverage(
    residuals: Mapping[str, np.ndarray],
    calibration: Mapping[str, np.ndarray],
    *,
    levels: Sequence[float] = _LEVELS,
    home: bool = False,
) -> xr.DataArray:
    """The share of measurements that lie inside their intervals, of each GPU.

    Args:
        residuals: ln(predicted / measured) of the measurements to look at, by GPU.
        calibration: those that intervals are made from, by GPU, of other measurements.
        levels: of the central intervals.
        home: whether a GPU's intervals are made from its own residuals; else from those of all others, each GPU
            weighing the same.

    Returns:
        Dims (sku, level).

    Raises:
        FactorGraphError: there is nothing to make an interval from.
    """
    shares = []
    quantiles = np.asarray([0.5 + sign * level / 2 for level in levels for sign in (-1, 1)])
    for sku, found in residuals.items():
        pools = [pool for name, pool in calibration.items() if (name == sku) == home and pool.size]
        if not pools or not found.size:
            raise FactorGraphError(f"no residual to make an interval for {sku} from; calibrate on more measurements")
        weights = np.concatenate([np.full(pool.size, 1.0 / pool.size) for pool in pools])
        ends = np.quantile(np.concatenate(pools), quantiles, weights=weights, method="inverted_cdf").reshape(-1, 2)
        shares.append([float(np.mean((found >= low) & (found <= high))) for low, high in ends])
    return xr.DataArray(shares, dims=("sku", "level"), coords={"sku": list(residuals), "level": list(levels)})


def interval_for(
    graph_name: str, out: xr.Dataset, *, level: float = 0.8, file: Path = FITTED
) -> tuple[float, float] | None:
    """The interval of t_step that the residuals of the shipped constants on GPUs they never saw leave.

    The file holds, for each kind of kernel, `"residuals": {"0.1": ..., "0.9": ...}`: quantiles of
    ln(predicted / measured) over GPUs left out in turn. Residuals of a kind, and of all kinds, are taken to err
    together, which is the widest that they can make of a step; kinds without residuals are taken as they stand.

    Args:
        graph_name: "per-kernel", whose constants were fitted; another graph has no interval.
        out: a prediction of one point.
        level: of the interval; its ends must be among the quantiles of the file.
        file: of fitted constants.

    Returns:
        Ends in seconds; None where the file holds no such residuals.
    """
    if graph_name != "per-kernel" or not file.is_file() or out["t_step"].ndim:
        return None
    document = json.loads(file.read_text(encoding="utf-8"))
    low = high = step = float(out["t_step"])
    for kind, total in _TOTALS.items():
        stored = document.get(kind, {}).get("residuals", {})
        ends = [stored.get(f"{0.5 + sign * level / 2:g}") for sign in (1, -1)]
        if total in out and None not in ends:
            # Predicted too slow (a high residual) means that the time was lower.
            low += float(out[total]) * float(np.expm1(-ends[0]))
            high += float(out[total]) * float(np.expm1(-ends[1]))
    return None if low == high == step else (low, high)
