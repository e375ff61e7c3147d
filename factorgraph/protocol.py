"""Which GPUs constants may be fitted on: one command refits them under every protocol and writes them down.

    python -m factorgraph.protocol [KIND ...]

- pooled: all measured GPUs; what the package ships.
- home: A100 and H100 alone; every other GPU is unseen.
- logo: each GPU left out in turn ("without l40s"), and scored on the constants that never saw it.
- generation: each architecture generation left out in turn.

The structure of the laws, the facts on the cards and the starting values were found with all tables in sight, so a
left-out GPU is unseen by the constants, not by the authors.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.datasets import list_datasets, load_dataset
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.inference import fit
from factorgraph.inference.intervals import log_residuals
from factorgraph.observations import (
    Observations,
    attention_observations,
    collective_observations,
    gemm_observations,
)
from factorgraph.step import FITTED, HOME, step_graph
from factorgraph.workload import LIBRARIES

PROTOCOLS = ("pooled", "logo", "home")
SEED = 0
# Over PCIe only these GPUs were measured, and their constants meet no other: there they are always home.
_PCIE = ("l40s", "rtx-pro-6000-server")


@dataclasses.dataclass(frozen=True)
class Campaign:
    """Constants that are fitted together.

    Attributes:
        kind: what their kernels are called.
        datasets: the measurements, by name.
        free: the constants.
        observe: the measurements of some GPUs, from the datasets.
        always: GPUs that every fit sees, but where they are left out themselves.
    """

    kind: str
    datasets: tuple[str, ...]
    free: tuple[str, ...]
    observe: Callable[[Sequence[xr.Dataset], Sequence[str]], Observations]
    always: tuple[str, ...] = ()


# In order: a later campaign holds the constants that an earlier one fitted to the same GPUs.
CAMPAIGNS = (
    Campaign(
        kind="gemm",
        datasets=("gemm-bf16",),
        free=(
            "t_launch.t0",
            "t_reduce.t_meet",
            "operand_latency.latency",
            "operand_latency.overlap",
            "eta_barrier.epilogue",
            "eta_barrier.overlap",
            "eta_barrier.offload",
            "l2_bandwidth.width",
            "reached_bandwidth.dram_share",
            "reached_bandwidth.outstanding",
            "gemm_energy.e_mac",
            "gemm_energy.e_sm",
        ),
        observe=lambda datasets, skus: gemm_observations(
            datasets[0], engines=["vllm"], skus=skus, sample=700, seed=SEED
        ),
    ),
    Campaign(
        kind="gemm-fp8",
        datasets=("gemm-fp8",),
        free=("t_prologue.t_quantise", "t_prologue.row", "t_prologue.element", "t_prologue.passes"),
        observe=lambda datasets, skus: gemm_observations(
            datasets[0], engines=LIBRARIES[:3], skus=skus, sample=400, seed=SEED
        ),
    ),
    Campaign(
        kind="attention",
        datasets=("attention-decode", "attention-prefill"),
        free=(
            "attention_bandwidth.dram_share",
            "attention_bandwidth.fit",
            "score_clocks.efficiency",
            "score_clocks.exponential",
            "t_decode_attention.t_launch",
            "t_decode_attention.launch_clocks",
            "t_decode_attention.block",
            "t_decode_attention.depth",
            "t_decode_attention.resident",
            "t_decode_attention.combine",
            "t_decode_attention.slice",
            "t_decode_attention.copy",
            "t_prefill_attention.t_launch",
            "t_prefill_attention.launch_clocks",
            "t_prefill_attention.block",
            "t_prefill_attention.edge",
            "t_prefill_attention.tail",
            "t_prefill_attention.last",
            "t_prefill_attention.e_operand",
            "t_prefill_attention.e_issue",
            "t_prefill_attention.write",
            "t_prefill_attention.token",
        ),
        observe=lambda datasets, skus: attention_observations(datasets, skus=skus, sample=700, seed=SEED),
    ),
    Campaign(
        kind="collective",
        datasets=("allreduce",),
        free=(
            "t_collective.t_sync",
            "t_collective.one_shot",
            "t_collective.t_two_shot",
            "t_collective.two_shot",
            "t_collective.pcie_sync",
            "t_collective.pcie_rank",
            "t_collective.pcie_share",
            "t_collective.contention",
        ),
        observe=lambda datasets, skus: collective_observations(datasets[0], skus=skus),
        always=_PCIE,
    ),
)


def constants_for(protocol: str, sku: str) -> str:
    """The name of the fit that a GPU is scored on under a protocol.

    Examples:
        >>> constants_for("logo", "l40s")
        'without l40s'
    """
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", protocol, PROTOCOLS)
    return f"without {sku}" if protocol == "logo" else protocol


def graph_for(protocol: str, sku: str, variant: str = "per-kernel") -> FactorGraph:
    """The step graph with the constants that a GPU is scored on under a protocol."""
    if variant != "per-kernel":
        if protocol != "pooled":
            raise FactorGraphError(f"the {variant} graph has the report's constants and no refits; use per-kernel")
        return step_graph(variant)
    return step_graph(variant, constants=constants_for(protocol, sku))


def splits(skus: tuple[str, ...], always: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name of each fit, and the GPUs it sees.

    Examples:
        >>> dict(splits(("h100-sxm", "h200-sxm", "l40s")))["without generation hopper"]
        ('l40s',)
    """
    yield "pooled", skus
    yield "home", tuple(sku for sku in skus if sku in (*HOME, *always))
    for left_out in skus:
        yield f"without {left_out}", tuple(sku for sku in skus if sku != left_out)
    generations = {sku: load_sku(sku).generation for sku in skus}
    for generation in dict.fromkeys(generations.values()):
        yield f"without generation {generation}", tuple(sku for sku in skus if generations[sku] != generation)


def refit(kinds: Sequence[str], file: Path = FITTED) -> None:
    """Fit the constants of some kinds under every protocol, and write them beside the old file, then over it.

    Raises:
        UnknownNameError: there is no such kind.
    """
    campaigns = {campaign.kind: campaign for campaign in CAMPAIGNS}
    for kind in kinds:
        if kind not in campaigns:
            raise UnknownNameError("kind of constants", kind, campaigns)
    document = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for kind in (kind for kind in campaigns if kind in kinds):
        document[kind] = _refit(campaigns[kind], document)
        document[kind]["residuals"] = left_out_quantiles(campaigns[kind], document)
        beside = file.with_suffix(f".{os.getpid()}.part")
        beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, file)


def _refit(campaign: Campaign, earlier: dict[str, Any]) -> dict[str, Any]:
    datasets = [load_dataset(name) for name in campaign.datasets]
    known = {entry.name: entry for entry in list_datasets()}
    skus = tuple(dict.fromkeys(str(sku) for dataset in datasets for sku in dataset["sku"].values))
    fits: dict[str, Any] = {}
    for name, seen in splits(skus, campaign.always):
        observations = campaign.observe(datasets, seen)
        held = step_graph(constants=None).with_parameters(_held(campaign, earlier, name))
        start = held.subgraph(observations.target)
        found = fit(start, observations, free=campaign.free, residual="relative", robust=0.03, steps=100)
        mape = 100.0 * float(np.nanmean(np.abs(np.expm1(found.residuals))))
        print(f"{campaign.kind} {name}: {found.result}, {found.steps} steps, {mape:.1f} % on what it saw", flush=True)
        constants = {path: _rounded(value) for path, value in found.constants.items()}
        fits[name] = {"home": list(seen), "result": found.result, "constants": constants}
    return {
        "datasets": {name: {key: one.sha256 for key, one in known[name].files.items()} for name in campaign.datasets},
        "seed": SEED,
        "fits": fits,
    }


# The ends of the intervals that a prediction is shown with.
_QUANTILES = (0.025, 0.1, 0.25, 0.75, 0.9, 0.975)


def left_out_quantiles(campaign: Campaign, document: dict[str, Any]) -> dict[str, float]:
    """Quantiles of ln(predicted / measured) on GPUs by constants that never saw them, every GPU weighing the same.

    Args:
        campaign: of the kernels.
        document: the fits, its own among them.
    """
    datasets, residuals = [load_dataset(name) for name in campaign.datasets], []
    for name in document[campaign.kind]["fits"]:
        left_out = name.removeprefix("without ")
        if left_out == name or left_out.startswith("generation ") or left_out in campaign.always:
            continue
        observations = campaign.observe(datasets, (left_out,))
        constants = document[campaign.kind]["fits"][name]["constants"]
        graph = step_graph(constants=None).with_parameters(_held(campaign, document, name) | constants)
        residuals.append(log_residuals(graph.subgraph(observations.target), observations).ravel())
    shortest = min(np.isfinite(one).sum() for one in residuals)
    draw = np.random.default_rng(SEED)
    alike = [draw.choice(one[np.isfinite(one)], shortest, replace=False) for one in residuals]
    levels = np.quantile(np.concatenate(alike), _QUANTILES)
    return {f"{q:g}": float(f"{level:.4g}") for q, level in zip(_QUANTILES, levels, strict=True)}


def _held(campaign: Campaign, earlier: dict[str, Any], name: str) -> dict[str, Any]:
    """Constants that earlier campaigns fitted to the same GPUs."""
    order = [one.kind for one in CAMPAIGNS]
    before = [kind for kind in order[: order.index(campaign.kind)] if kind in earlier]
    fits = [earlier[kind]["fits"] for kind in before]
    return {path: value for fit in fits for path, value in fit.get(name, fit["pooled"])["constants"].items()}


def _rounded(value: float | list[float]) -> float | list[float]:
    return [_rounded(one) for one in value] if isinstance(value, list) else float(f"{value:.5g}")  # type: ignore[return-value]


if __name__ == "__main__":
    refit(sys.argv[1:] or [campaign.kind for campaign in CAMPAIGNS])
