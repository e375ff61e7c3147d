"""What matters over whole ranges, not at one point: shares of variance (Sobol, first order) and screening (Morris)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.labelled import provenance
from factorgraph.varying import Case, Handle, open_case

METHODS = ("sobol", "morris", "first")
_HALVINGS = 3
_MEANINGS = {
    "first_order": "share of the variance that goes if the parameter is known",
    "first_order_interval": "half width of the 95 % interval of first_order",
    "total": "share of the variance that stays while only the parameter is unknown",
    "total_interval": "half width of the 95 % interval of total",
    "mean_effect": "mean change of the output as the parameter crosses its range",
    "mean_absolute_effect": "mean size of that change",
    "mean_absolute_effect_interval": "half width of the 95 % interval of mean_absolute_effect",
    "spread": "standard deviation of that change: curvature and interaction",
}


def global_sensitivity(
    graph: FactorGraph,
    *sources: Any,
    over: Mapping[str, Any],
    method: Literal["sobol", "morris", "first"] = "sobol",
    samples: int = 1024,
    output: str = "t_step",
    seed: int = 0,
    **values: Any,
) -> xr.Dataset:
    """How an output's spread over ranges, or over a posterior, is shared out among the parameters; by SALib.

    "sobol" gives first-order and total shares from samples * (parameters + 2) predictions (Sobol 2001, Saltelli 2010).
    "morris" screens many parameters with samples * (parameters + 1) predictions (Morris 1991). "first" gives
    first-order shares from any `samples` points (RBD-FAST: Tarantola 2006, Plischke 2010), and so from the joint draws
    of a posterior, correlations included.

    Args:
        graph: the laws.
        *sources: as for [`predict`][factorgraph.labelled.predict], one card and one step.
        over: by name, a tuple (low, high), within which every value is as likely; or an array of draws. "sobol" and
            "morris" take parameters for independent and use each one's draws as its own distribution; "first" uses
            draws of one length jointly. What lies on a plate or is computed by a law is scaled by a factor from its
            range.
        method: "sobol", "morris" or "first".
        samples: a power of two of at least 64.
        output: a variable without a plate.
        seed: of the sampling; the same seed gives the same result.
        **values: as for `predict`.

    Returns:
        Over (samples, parameter), the estimates from the first eighth, quarter, half and all of the samples, which show
        how far they have converged. "sobol": `first_order`, `total`; "first": `first_order`; "morris": `mean_effect`,
        `mean_absolute_effect`, `spread` in the unit of the output. Each but `mean_effect` and `spread` has the half
        width of its 95 % interval in `..._interval`.

    Raises:
        UnknownNameError: an unknown method, parameter or output.
        FactorGraphError: an empty range, draws of unlike lengths, an output that does not move at all.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> over = {"dram_bandwidth": (3e12, 3.4e12), "t_host.s0": (0.0, 1e-3)}
        >>> shares = global_sensitivity(fg.step_graph(), fg.load_sku("h100-sxm"), step, over=over, samples=256)
        >>> bool(abs(shares.first_order.isel(samples=-1).sum() - 1.0) < 0.1)
        True
    """
    if method not in METHODS:
        raise UnknownNameError("method", method, METHODS)
    if samples < 64 or samples & (samples - 1):
        raise FactorGraphError(f"samples={samples}; give a power of two of at least 64")
    if output not in graph:
        raise UnknownNameError("output", output, [variable.name for variable in graph.outputs])
    if graph.variables[output].plates:
        raise FactorGraphError(f"'{output}' is one number a kernel; look at one of the whole step, such as t_step")
    case, inputs = open_case(graph, sources, values)
    if inputs.dims:
        raise FactorGraphError(f"shares of variance are for one point, and this case spans {', '.join(inputs.dims)}")
    handles = tuple(case.handle(name, inputs) for name in over)
    if not handles:
        raise FactorGraphError("over={} names nothing to vary")
    spreads = [_spread(name, value) for name, value in over.items()]
    problem = {"num_vars": len(handles), "names": list(over), "bounds": [[0.0, 1.0]] * len(handles)}
    unit_points = _design(method, problem, samples, seed)
    points = _points(unit_points, spreads, method, seed)
    found = np.asarray(_outputs(case, inputs.arrays, handles, jnp.asarray(points, float), output), dtype=float)
    _hold_moving(found, output, list(over))
    sizes = [samples >> halving for halving in range(_HALVINGS, -1, -1)]
    per_sample = len(found) // samples
    estimates = [
        _estimate(
            method, problem, unit_points[: n * per_sample], points[: n * per_sample], found[: n * per_sample], seed
        )
        for n in sizes
    ]
    stacked = {name: (("samples", "parameter"), np.stack([one[name] for one in estimates])) for name in estimates[0]}
    dataset = xr.Dataset(
        stacked,
        coords={"samples": sizes, "parameter": list(over)},
        attrs=provenance(graph, sources)
        | {"title": f"factorgraph {method} sensitivity", "output": output, "seed": seed},
    )
    unit = graph.variables[output].unit if method == "morris" else "1"
    for name in stacked:
        dataset[name].attrs = {"units": unit, "long_name": _MEANINGS[name]}
    return dataset


def _spread(name: str, value: Any) -> np.ndarray:
    """A range as its two ends, or draws as they are."""
    spread = np.asarray(value, dtype=float)
    if spread.ndim != 1 or spread.size < 2 or not np.isfinite(spread).all():
        raise FactorGraphError(f"'{name}' needs a range (low, high) or an array of draws; got {value!r}")
    if spread.min() == spread.max() or (isinstance(value, tuple) and spread[0] > spread[1]):
        raise FactorGraphError(f"'{name}' does not vary from {spread[0]:g} to {spread[-1]:g}; give low before high")
    return spread if not isinstance(value, tuple) else np.array([spread[0], spread[-1]])


def _design(method: str, problem: dict, samples: int, seed: int) -> np.ndarray:
    """Points in the unit cube."""
    if method == "sobol":
        from SALib.sample.sobol import sample

        return sample(problem, samples, calc_second_order=False, seed=seed)
    if method == "morris":
        from SALib.sample.morris import sample

        return sample(problem, samples, seed=seed)
    from SALib.sample.latin import sample

    return sample(problem, samples, seed=seed)


def _points(unit: np.ndarray, spreads: Sequence[np.ndarray], method: str, seed: int) -> np.ndarray:
    """The unit cube as parameter values: evenly over a range, by quantile of draws; for "first", draws by the row."""
    drawn = [spread for spread in spreads if spread.size > 2]
    rows = None
    if method == "first" and drawn:
        if len({spread.size for spread in drawn}) > 1:
            raise FactorGraphError("draws of a joint posterior must be equally many for every parameter")
        rows = np.resize(np.random.default_rng(seed).permutation(drawn[0].size), len(unit))
    columns = []
    for along, spread in zip(unit.T, spreads, strict=True):
        joint = rows is not None and spread.size > 2
        columns.append(spread[rows] if joint else np.quantile(spread, along))
    return np.stack(columns, axis=1)


@eqx.filter_jit
def _outputs(case: Case, arrays: dict[str, Array], handles: tuple[Handle, ...], points: Array, output: str) -> Array:
    def one(point: Array) -> Array:
        return case.evaluate(arrays, dict(zip(handles, point, strict=True)))[output]

    return jax.lax.map(one, points, batch_size=1024)


def _hold_moving(found: np.ndarray, output: str, names: list[str]) -> None:
    if not np.isfinite(found).all():
        raise FactorGraphError(f"'{output}' is not finite somewhere in these ranges of {', '.join(names)}; narrow them")
    if found.std() <= 1e-7 * abs(found).max():
        raise FactorGraphError(
            f"'{output}' does not move over these ranges of {', '.join(names)}; nothing to share out"
        )


def _estimate(
    method: str, problem: dict, unit: np.ndarray, points: np.ndarray, found: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    if method == "sobol":
        from SALib.analyze.sobol import analyze

        indices = analyze(problem, found, calc_second_order=False, seed=seed)
        names = {"first_order": "S1", "first_order_interval": "S1_conf", "total": "ST", "total_interval": "ST_conf"}
    elif method == "morris":
        from SALib.analyze.morris import analyze

        indices = analyze(problem, unit, found, seed=seed)
        names = {"mean_effect": "mu", "mean_absolute_effect": "mu_star", "spread": "sigma"}
        names["mean_absolute_effect_interval"] = "mu_star_conf"
    else:
        from SALib.analyze.rbd_fast import analyze

        indices = analyze(problem, points, found, seed=seed)
        names = {"first_order": "S1", "first_order_interval": "S1_conf"}
    return {ours: np.asarray(indices[theirs], dtype=float) for ours, theirs in names.items()}
