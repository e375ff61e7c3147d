"""The same GEMMs through aiconfigurator-core's single-operation call, where the extra `silicon` is installed."""

import importlib.util

import numpy as np

import factorgraph as fg
from benchmarks.measuring import Line, seconds
from factorgraph.evaluation import predict_gemm

SHAPES = 64


def run() -> list[Line]:
    measured = fg.load_dataset("gemm-bf16").sel(sku="h100-sxm", engine="vllm").dropna("shape")
    dataset = measured.isel(shape=slice(None, None, 301)).isel(shape=slice(SHAPES))
    graph, card = fg.step_graph().subgraph("t_gemm"), fg.load_sku("h100-sxm")
    ours = seconds(lambda: predict_gemm(graph, card, dataset)) / SHAPES
    line = Line("GEMM with names and units, 64 at a time", f"{1 / ours:,.0f} /s", 1.0, "itself")
    if importlib.util.find_spec("aiconfigurator_core") is None:
        return [line]
    theirs = seconds(lambda: _ask_peer(dataset)) / SHAPES
    return [line, Line("the same, aiconfigurator-core, warm", f"{1 / theirs:,.0f} /s", theirs / ours, "time of ours")]


def _ask_peer(dataset) -> list[float]:
    from aiconfigurator_core.sdk import common, perf_database  # type: ignore[import-not-found]
    from aiconfigurator_core.sdk.operations.gemm import GEMM  # type: ignore[import-not-found]

    database = perf_database.get_database_view("h100_sxm", "vllm", "0.24.0", database_mode="SILICON")
    shapes = np.stack([dataset[axis].values for axis in ("m", "n", "k")], axis=-1)
    bf16 = common.GEMMQuantMode.bfloat16
    return [float(GEMM("gemm", 1.0, int(n), int(k), bf16)._engine_query(database, x=int(m))) for m, n, k in shapes]
