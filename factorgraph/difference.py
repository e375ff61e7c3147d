"""Why two predictions differ: what each input, or each factor, contributes, exact to rounding."""

import math
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
from factorgraph.kernels import FACTORS
from factorgraph.labelled import gather, predict, provenance

# Inputs that belong to one cause. What differs and stands nowhere here is a cause of its own, if it lies on no kernel
# plate; the numbers of kernels are together the workload.
CAUSES: dict[str, tuple[str, ...]] = {
    "bandwidth": ("dram_bandwidth", "ecc_factor"),
    "L2": ("l2_capacity", "l2_partitions"),
    "clock": ("sm_clock", "boost_clock"),
    "power": ("power_cap", "tdp", "process_energy"),
    "SMs": ("sm_count",),
    "tensor cores": ("bf16_flop_per_clock", "type_rates", "async_pipeline"),
    "launch": ("launch_class",),
    "link": ("link_bandwidth", "link_is_pcie"),
    "workload": ("sequences", "weight_bytes"),
}
_KERNEL_PLATES = {"gemm", "attention", "light", "collective"}
_MOST = 14
_OTHER_PARTS = {
    "attention": "t_attention_total",
    "light kernels": "t_light_total",
    "collectives": "t_collective_total",
    "host": "t_host",
}


def explain_difference(
    graph: FactorGraph,
    before: Sequence[Any],
    after: Sequence[Any],
    *,
    by: Literal["input", "factor"] = "input",
    causes: Mapping[str, Sequence[str]] = CAUSES,
) -> xr.Dataset:
    """Split the difference of two step times into contributions that add up to it.

    By input: what if only the bandwidth had changed, or all but it? The Shapley value is a cause's mean effect over all
    orders in which the inputs could go over from one case to the other; 2^causes predictions, in one compiled call.

    By factor: each GEMM's time is work / (peak eta_clock eta_wave eta_tc eta_barrier eta_mem), so its logarithm splits
    without a remainder; weighted by the logarithmic mean of its two times (LMDI I: Ang, Energy Policy 33, 2005,
    867-871) the splits of all GEMMs add up to seconds, beside the plain differences of the other kernels and the host.

    Args:
        graph: the laws.
        before, after: two cases, each a sequence of sources as for [`predict`][factorgraph.labelled.predict], such as
            (card, step) or (card, step, {"power_cap": 400.0}); of the same kernels.
        by: "input" or "factor".
        causes: for "input", which inputs count as one cause. Those left out are causes of their own.

    Returns:
        Over cause, the largest first: `seconds`, which add up to after - before; `log_ratio`, which add up to
        ln(after / before); `ratio`, its exponential, which multiply to after / before. Scalars `before`, `after`.

    Raises:
        FactorGraphError: a case spans a dimension, the kernels differ, nothing differs, or more than 14 causes do.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> cases = (fg.load_sku("h100-sxm"), step), (fg.load_sku("h200-sxm"), step)
        >>> why = explain_difference(fg.step_graph(), *cases)
        >>> str(why.cause.values[0])
        'bandwidth'
    """
    if by not in ("input", "factor"):
        raise UnknownNameError("way to split a difference", str(by), ["input", "factor"])
    for case in (before, after):
        if not isinstance(case, (list, tuple)):
            raise FactorGraphError(f"a case is a tuple of sources such as (card, step); got {case!r:.60}")
    if by == "input":
        names, seconds, logs, ends = _by_input(graph, before, after, causes)
    else:
        names, seconds, logs, ends = _by_factor(graph, before, after)
    order = np.argsort(-np.abs(logs), kind="stable")
    data = {"seconds": seconds[order], "log_ratio": logs[order], "ratio": np.exp(logs[order])}
    why = xr.Dataset(
        {name: ("cause", values) for name, values in data.items()} | {"before": ends[0], "after": ends[1]},
        coords={"cause": [names[i] for i in order]},
        attrs=provenance(graph, [*before, *after]) | {"title": f"factorgraph difference by {by}"},
    )
    why["seconds"].attrs = {"units": "s", "long_name": "contribution to the difference"}
    why["log_ratio"].attrs = {"units": "1", "long_name": "contribution to ln(after / before)"}
    why["ratio"].attrs = {"units": "1", "long_name": "times the latency"}
    for end in ("before", "after"):
        why[end].attrs = {"units": "s", "long_name": "latency of one engine step"}
    return why


def _by_input(graph, before, after, causes):
    cases = [gather(graph, *sources) for sources in (before, after)]
    _hold_alike(graph, *cases)
    first, second = (case.arrays for case in cases)
    for name in first.keys() ^ second.keys():
        raise FactorGraphError(f"one case gives '{name}' and the other does not; give it in both")
    groups = _differing(graph, first, second, causes)
    if not groups:
        raise FactorGraphError("the two cases have the same inputs; there is no difference to explain")
    if len(groups) > _MOST:
        raise FactorGraphError(
            f"{len(groups)} causes differ ({', '.join(groups)}), and every subset of them is a prediction; "
            f"put them into at most {_MOST} groups with causes={{...}}"
        )
    member = {name: i for i, names in enumerate(groups.values()) for name in names}
    subsets = np.arange(2 ** len(groups))
    switched = (subsets[:, None] >> np.arange(len(groups))) & 1
    shared = {name: value for name, value in first.items() if name not in member}
    moving = {name: (first[name], second[name], jnp.asarray(i)) for name, i in member.items()}
    times = np.asarray(_mixtures(graph, shared, moving, jnp.asarray(switched, bool)), dtype=float)
    return list(groups), _shapley(times), _shapley(np.log(times)), (times[0], times[-1])


@eqx.filter_jit
def _mixtures(graph: FactorGraph, shared: dict[str, Array], moving: dict, switched: Array) -> Array:
    """Step times of cases that have some inputs from one side and the rest from the other."""

    def time(switch: Array) -> Array:
        mixed = {name: jnp.where(switch[i], new, old) for name, (old, new, i) in moving.items()}
        return graph.evaluate(shared | mixed)["t_step"]

    return jax.lax.map(time, switched, batch_size=1024)


def _shapley(value: np.ndarray) -> np.ndarray:
    """Shapley values of a game given by its value on every subset; bit i of an index says whether i is in."""
    players = int(np.log2(len(value)))
    subsets = np.arange(len(value))
    size = np.array([int(s).bit_count() for s in subsets])
    weight = np.array([1.0 / (players * math.comb(players - 1, s)) for s in range(players)])
    shares = []
    for player in range(players):
        without = subsets[(subsets >> player) & 1 == 0]
        shares.append(np.sum(weight[size[without]] * (value[without | (1 << player)] - value[without])))
    return np.array(shares)


def _differing(graph, first, second, causes) -> dict[str, list[str]]:
    """The inputs that differ, by cause."""
    owner = {name: cause for cause, names in causes.items() for name in names}
    groups: dict[str, list[str]] = {}
    for name, value in first.items():
        if not np.array_equal(value, second[name]):
            of_kernels = not _KERNEL_PLATES.isdisjoint(graph.variables[name].plates)
            groups.setdefault(owner.get(name, "workload" if of_kernels else name), []).append(name)
    return groups


def _hold_alike(graph, before, after) -> None:
    for case in (before, after):
        if case.dims:
            raise FactorGraphError(f"a case to explain is one point, and this one spans {', '.join(case.dims)}")
    for name in before.arrays.keys() & after.arrays.keys():
        if before.arrays[name].shape != after.arrays[name].shape:
            plate = graph.variables[name].plates[0]
            raise FactorGraphError(f"the two cases do not list the same kernels on plate '{plate}'")


def _by_factor(graph, before, after):
    _hold_alike(graph, *(gather(graph, *sources) for sources in (before, after)))
    parts = {cause: name for cause, name in _OTHER_PARTS.items() if name in graph}
    wanted = ["gemm_count", "gemm_flop", "peak_flops", *FACTORS, "t_gemm", *parts.values(), "t_step"]
    first, second = (predict(graph, *sources, outputs=wanted).astype(float) for sources in (before, after))
    ratios = {"work": _ratio(first, second, "gemm_count") * _ratio(first, second, "gemm_flop")}
    ratios["peak"] = 1.0 / _ratio(first, second, "peak_flops")
    ratios |= {name: 1.0 / _ratio(first, second, name) for name in FACTORS}
    old, new = first.gemm_count * first.t_gemm, second.gemm_count * second.t_gemm
    weight = _log_mean(old.values, new.values)
    seconds = {cause: float(np.sum(weight * np.log(ratio))) for cause, ratio in ratios.items()}
    seconds |= {cause: float(second[name] - first[name]) for cause, name in parts.items()}
    ends = float(first.t_step), float(second.t_step)
    # Where host and GPU overlap, the step is not the sum of its parts, and the difference that makes is a cause too.
    rest = ends[1] - ends[0] - sum(seconds.values())
    if abs(rest) > 1e-4 * max(ends):
        seconds["overlap"] = rest
    contributions = np.array(list(seconds.values()))
    return list(seconds), contributions, contributions / _log_mean(*map(np.asarray, ends)), ends


def _ratio(first: xr.Dataset, second: xr.Dataset, name: str) -> np.ndarray:
    return second[name].values / first[name].values


def _log_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a - b) / ln(a / b), and a where both are equal."""
    alike = np.isclose(a, b, rtol=1e-9, atol=0.0)
    return np.where(alike, a, (a - b) / np.where(alike, 1.0, np.log(a / b)))
