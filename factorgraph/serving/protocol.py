"""Which GPUs the serving constants may be fitted on: one command refits them and writes them down.

    python -m factorgraph.serving.protocol

- home: H100 alone; H200, B200 and every mixture of experts are unseen. What the package ships.
- logo: each GPU left out in turn ("without b200"), and scored on the constants that never saw it.
- pooled: H100, H200 and B200.
- calibrated: the host's constants of one engine from one model on one H100, for a column of its own: those rows are
  left out of that column, and it is never mixed with the others.

Dense rows only, five constants, none for a device or a model. The structure of the laws and the engines' facts were
chosen with all dense rows in sight, so a GPU left out is unseen by the constants, not by the authors.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from factorgraph.datasets import list_datasets, load_dataset
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.serving.graph import FITTED, engine_step_graph, serving_graph
from factorgraph.serving.loads import evaluate, prepare
from factorgraph.serving.rows import DENSE_SKUS, GROUP, Frame, Rows, serving_rows

PROTOCOLS = ("home", "pooled", "logo")
HOME = ("h100-sxm",)
DATASET = "serving"
FREE = ("t_launches.per_kernel", "t_host.per_sequence", "t_host.per_chunk", "ttft.clustered", "t_lag.t_client")
# The one group of rows that each engine's host is calibrated on, and the constants that are the host's.
CALIBRATION = {
    "vllm": ("h100-sxm", "vllm", "meta-llama/Llama-3.1-70B"),
    "sglang": ("h100-sxm", "sglang", "Qwen/Qwen3-32B"),
    "trtllm": ("h100-sxm", "trtllm", "meta-llama/Llama-3.1-8B-Instruct"),
}
HOST = ("t_launches.per_kernel", "t_host.per_sequence", "t_host.per_chunk", "t_lag.t_client")
# How much an error of each counts: TTFT is noisy, and TPOT is what most of a request's time goes by.
_WEIGHTS = {"tpot": 1.0, "t_request": 0.7, "ttft": 0.25}
_ROBUST = 0.08


def constants_for(protocol: str, sku: str) -> str:
    """The name of the fit that a GPU is scored on under a protocol.

    Examples:
        >>> constants_for("logo", "b200"), constants_for("logo", "b300"), constants_for("home", "b200")
        ('without b200', 'pooled', 'home')
    """
    if protocol not in PROTOCOLS:
        raise UnknownNameError("serving protocol", protocol, PROTOCOLS)
    if protocol == "logo":
        return f"without {sku}" if sku in DENSE_SKUS else "pooled"
    return protocol


def splits() -> dict[str, tuple[str, ...]]:
    """The GPUs that each fit sees.

    Examples:
        >>> splits()["without b200"]
        ('h100-sxm', 'h200-sxm')
    """
    left = {f"without {out}": tuple(sku for sku in DENSE_SKUS if sku != out) for out in DENSE_SKUS}
    return {"home": HOME, "pooled": DENSE_SKUS} | left


def is_calibration(table: Frame, engine: str) -> np.ndarray:
    """Which rows an engine's host is calibrated on."""
    sku, name, model = CALIBRATION[engine]
    here = (table["sku"] == sku) & (table["engine"] == name) & (table["model"] == model) & (table["set"] == "dense")
    return here.to_numpy()


def fit_serving(
    step_graph: FactorGraph,
    loop_graph: FactorGraph,
    rows: Rows,
    skus: Sequence[str],
    *,
    engine: str | None = None,
    free: Sequence[str] = FREE,
) -> dict[str, float]:
    """Constants of both graphs that make the dense rows of some GPUs, or an engine's calibration rows, most likely.

    Every system x engine x model x precision weighs the same; the loss is linear past 8 % (soft L1).

    Raises:
        FactorGraphError: there is no dense row of these GPUs, or the solver did not end.
    """
    wanted = (rows.table["set"] == "dense") & rows.table["sku"].isin(skus)
    table: Frame = rows.table[wanted if engine is None else is_calibration(rows.table, engine)]
    if table.empty:
        raise FactorGraphError(f"there is no dense row of {', '.join(skus)} to fit on")
    used = np.unique(table["load"].astype(int))
    loads = [rows.loads[number] for number in used]
    starts = np.cumsum([0, *(len(load.requests) for load in loads)])
    index = jnp.asarray(starts[np.searchsorted(used, table["load"])] + table["case"].astype(int))
    ready = prepare(step_graph, loop_graph, loads)
    measured = {name: jnp.asarray(table[name].to_numpy(float)) for name in _WEIGHTS}
    share = table.groupby(GROUP)["tpot"].transform("size").to_numpy() ** -0.5
    weight = jnp.asarray(share / np.sqrt(np.mean(share**2)))
    labels = jnp.asarray(table["output_len"].to_numpy(float))
    start = {**step_graph.parameters, **loop_graph.parameters}

    @jax.jit
    def residuals(logs: jax.Array) -> jax.Array:
        values = dict(zip(free, jnp.exp(logs), strict=True))
        out = evaluate(*with_values(step_graph, loop_graph, values), ready)
        predicted = {"tpot": out["tpot"][index], "ttft": out["ttft"][index]}
        predicted["t_request"] = predicted["ttft"] + labels * predicted["tpot"]
        return jnp.concatenate([w * weight * jnp.log(predicted[n] / measured[n]) for n, w in _WEIGHTS.items()])

    slopes = jax.jit(jax.jacfwd(residuals))
    derivative: Any = lambda x: np.asarray(slopes(jnp.asarray(x, float)), np.float64)  # noqa: E731 (SciPy has no types)
    found = least_squares(
        lambda x: np.asarray(residuals(jnp.asarray(x, float)), np.float64),
        np.log([float(start[path]) for path in free]),
        jac=derivative,
        loss="soft_l1",
        f_scale=_ROBUST,
        max_nfev=100,
    )
    if found.status <= 0:
        raise FactorGraphError(f"the serving fit did not end: {found.message}")
    return {path: float(f"{np.exp(value):.5g}") for path, value in zip(free, found.x, strict=True)}


def with_values(
    step_graph: FactorGraph, loop_graph: FactorGraph, values: Mapping[str, object]
) -> tuple[FactorGraph, FactorGraph]:
    """Both graphs with other constants, each given to the one that has it."""
    step, loop = (
        graph.with_parameters({path: value for path, value in values.items() if path in graph.parameters})
        for graph in (step_graph, loop_graph)
    )
    return step, loop


def refit(file: Path = FITTED) -> None:
    """Fit the constants under every protocol, and write them beside the old file, then over it."""
    rows = serving_rows(load_dataset(DATASET))
    entry = next(entry for entry in list_datasets() if entry.name == DATASET)
    graphs = engine_step_graph(constants=None), serving_graph(constants=None)
    fits = {}
    for name, skus in splits().items():
        constants = fit_serving(*graphs, rows, skus)
        print(f"{name}: {constants}", flush=True)
        fits[name] = {"home": list(skus), "constants": constants}
    held = with_values(*graphs, fits["home"]["constants"])
    for engine, (sku, _, model) in CALIBRATION.items():
        constants = fit_serving(*held, rows, (sku,), engine=engine, free=HOST)
        print(f"calibrated {engine}: {constants}", flush=True)
        home = fits["home"]["constants"] | constants
        fits[f"calibrated {engine}"] = {"home": [sku], "model": model, "constants": home}
    document = {
        "dataset": DATASET,
        "sha256": {name: found.sha256 for name, found in entry.files.items()},
        "rows": "dense, aggregated; see factorgraph.serving.rows",
        "fits": fits,
    }
    beside = file.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, file)


if __name__ == "__main__":
    refit()
