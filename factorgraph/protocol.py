"""Which GPUs constants may be fitted on: one command refits them under every protocol and writes them down.

    python -m factorgraph.protocol

- pooled: all measured GPUs; what the package ships.
- home: A100 and H100 alone; every other GPU is unseen.
- logo: each GPU left out in turn ("without l40s"), and scored on the constants that never saw it.
- generation: each architecture generation left out in turn.

The structure of the laws, the facts on the cards and the starting values were found with all tables in sight, so a
left-out GPU is unseen by the constants, not by the authors.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from factorgraph.datasets import list_datasets, load_dataset
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.inference import fit
from factorgraph.observations import gemm_observations
from factorgraph.step import FITTED, HOME, step_graph

PROTOCOLS = ("pooled", "logo", "home")
DATASET, ENGINE, SAMPLE, SEED = "gemm-bf16", "vllm", 500, 0


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


def splits(skus: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name of each fit, and the GPUs it sees."""
    yield "pooled", skus
    yield "home", HOME
    for left_out in skus:
        yield f"without {left_out}", tuple(sku for sku in skus if sku != left_out)
    generations = {sku: load_sku(sku).generation for sku in skus}
    for generation in dict.fromkeys(generations.values()):
        yield f"without generation {generation}", tuple(sku for sku in skus if generations[sku] != generation)


def refit(file: Path = FITTED) -> None:
    """Fit the GEMM constants under every protocol, and write them beside the old file, then over it."""
    dataset = load_dataset(DATASET)
    entry = next(entry for entry in list_datasets() if entry.name == DATASET)
    start = step_graph(constants=None).subgraph("t_gemm")
    fits: dict[str, Any] = {}
    for name, skus in splits(tuple(str(sku) for sku in dataset["sku"].values)):
        seen = gemm_observations(dataset, engine=ENGINE, skus=skus, sample=SAMPLE, seed=SEED)
        found = fit(start, seen, free=list(start.parameters))
        mape = 100.0 * float(np.nanmean(np.abs(np.expm1(found.residuals))))
        print(f"{name}: {found.result} after {found.steps} steps, {mape:.1f} % on the GPUs it saw", flush=True)
        constants = {path: float(f"{value:.5g}") for path, value in found.constants.items()}
        fits[name] = {"home": list(skus), "result": found.result, "constants": constants}
    document = {
        "gemm": {
            "dataset": DATASET,
            "sha256": {name: file.sha256 for name, file in entry.files.items()},
            "engine": ENGINE,
            "sample": SAMPLE,
            "seed": SEED,
            "fits": fits,
        }
    }
    beside = file.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, file)


if __name__ == "__main__":
    refit()
