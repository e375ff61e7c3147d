"""Errors on tables of measured GEMMs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.evaluation.rows import Cases, Row, asked_skus, rows_of
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.observations import gemm_values

# Upper ends of the ranges of M that errors are reported for, and how each is called.
M_REGIMES = ((16.0, "M <= 16"), (128.0, "M <= 128"), (1024.0, "M <= 1024"), (np.inf, "M > 1024"))


def evaluate_gemm(
    graph_of: Callable[[str], FactorGraph],
    dataset: xr.Dataset,
    *,
    home: Callable[[str], bool],
    sku: str | None = None,
    learn: bool = False,
) -> Iterator[Row]:
    """Errors of a graph's t_gemm on measured GEMM tables, one row a GPU and engine, in the dataset's order.

    Args:
        graph_of: the graph that a GPU is scored on, by the GPU's name.
        dataset: of kind "gemm": latency(sku, engine, shape) in s, with m, n, k along shape.
        home: whether that graph's constants were fitted on the GPU.
        sku: one GPU only.
        learn: whether a random forest that learned the A100's times is scored beside.

    Raises:
        FactorGraphError: the dataset holds no measurement of that GPU.
    """
    known = set(asked_skus(dataset, None))

    @functools.lru_cache(maxsize=2)
    def prediction(name: str, engine: str) -> xr.Dataset:
        return predict_gemm(graph_of(name).subgraph("t_gemm"), load_sku(name), dataset, engine=engine)

    bf16 = dataset.attrs["dtype"] == "bf16"

    shapes = np.stack([dataset[axis].values for axis in ("m", "n", "k")], axis=-1).astype(float)

    def cases(name: str, engine: str) -> Cases | None:
        if name not in known:
            return None
        out = prediction(name, "vllm" if bf16 else engine)  # only narrow types are quantised, by each in its way
        compute, memory = out["gemm_flop"] / out["peak_flops"], out["traffic"] / load_sku(name).dram_bandwidth
        return Cases(
            predicted=out["t_gemm"].values,
            measured=dataset["latency"].sel(sku=name, engine=engine).values,
            roofline=np.maximum(compute.values, memory.values),
            features=shapes,
            regime=shapes[:, 0],
            regimes=M_REGIMES,
        ).there()

    engines = [str(engine) for engine in dataset["engine"].values]
    yield from rows_of(cases, skus=asked_skus(dataset, sku), engines=engines, home=home, learn=learn)


def predict_gemm(graph: FactorGraph, card: Any, dataset: xr.Dataset, *, engine: str = "vllm") -> xr.Dataset:
    """Predict every shape of a GEMM dataset on one GPU, with the cache in the state the tables were measured in."""
    values = gemm_values(
        *(dataset[axis].values for axis in ("m", "n", "k")), dtype=dataset.attrs["dtype"], engine=engine
    )
    if "weight_bytes" not in graph.input_names:
        del values["working_set"]  # the report's law takes what a kernel streams for its working set
    return graph.predict(card, values, outputs=["t_gemm", "gemm_flop", "traffic", "peak_flops"])
