"""Better kernels, worse wall clock? Two step graphs against kernel tables and against served loads, side by side."""

import numpy as np
import xarray as xr

import factorgraph as fg
from factorgraph.evaluation import evaluate_attention, evaluate_gemm
from factorgraph.metrics import errors
from factorgraph.serving import engine_step_graph, serving_graph
from factorgraph.serving.loads import evaluate, prepare
from factorgraph.serving.rows import serving_rows
from factorgraph.step import fitted_on
from factorgraph.studies import Findings, number

ID = "E1.16"
QUESTION = "Does the graph that predicts kernels better also predict the wall clock of engines better?"
DATASETS = ("gemm-bf16", "attention-decode", "serving")
SKUS = ("h100-sxm", "h200-sxm", "b200")
HOME = tuple(sku for sku in SKUS if sku in fitted_on("per-kernel"))
UNSEEN = tuple(sku for sku in SKUS if sku not in HOME)
METHOD = (
    "Public tables and public served loads, not measured by the report's protocol. Kernels: a sample of the vLLM "
    "tables of three GPUs. Wall clock: time per output token of all dense rows that are scored (1,019), each step "
    "graph with its own host constants inside the same closed loop. The engine graph, whose constants were fitted to "
    "the H100 rows of these loads, stands beside as what a graph made for the wall clock reaches."
)
GRAPHS = ("base", "per-kernel", "engine")


def run() -> Findings:
    kernels = {name: _kernel_errors(fg.step_graph(name)) for name in GRAPHS[:2]}
    kernels["engine"] = {"gemm": np.nan, "decode attention": np.nan}
    wall = _wall_clock({**{name: fg.step_graph(name) for name in GRAPHS[:2]}, "engine": engine_step_graph()})
    result = xr.Dataset(
        {
            "kernel_mape": (("graph", "kind"), [list(kernels[name].values()) for name in GRAPHS], {"units": "%"}),
            "wall_mape": ("graph", [wall[name].mape for name in GRAPHS], {"units": "%"}),
            "wall_bias": ("graph", [wall[name].bias for name in GRAPHS], {"units": "%"}),
        },
        coords={"graph": list(GRAPHS), "kind": list(kernels["base"])},
    )
    numbers = [
        number(result, f"{name}, {kind}", "kernel_mape", graph=name, kind=kind)
        for name in GRAPHS[:2]
        for kind in kernels["base"]
    ]
    numbers += [number(result, f"{name}, TPOT", "wall_mape", graph=name) for name in GRAPHS]
    numbers += [number(result, f"{name}, TPOT bias", "wall_bias", graph=name) for name in GRAPHS]
    better = wall["per-kernel"].mape < wall["base"].mape
    return Findings(
        result=result,
        numbers=tuple(numbers),
        verdict=(
            ("Differs: " if better else "Reproduced: ")
            + f"per-kernel errs {kernels['per-kernel']['gemm']:.0f} % on GEMMs and "
            f"{kernels['per-kernel']['decode attention']:.0f} % on decode attention against the base graph's "
            f"{kernels['base']['gemm']:.0f} and {kernels['base']['decode attention']:.0f} %, and on the wall clock "
            f"{wall['per-kernel'].mape:.0f} against {wall['base'].mape:.0f} %; a graph made for the wall clock reaches "
            f"{wall['engine'].mape:.0f} %."
        ),
        caveats=(
            "Host constants decide much of the wall clock: those of the base graph are the report's for one engine, "
            "those of the per-kernel graph its design's, and neither was fitted to these loads. Fused engines launch "
            "fewer kernels than the kernel table has. Host constants refitted alike for both would sharpen it."
        ),
    )


def _kernel_errors(graph: fg.FactorGraph) -> dict[str, float]:
    gemm = fg.load_dataset("gemm-bf16").isel(shape=slice(None, None, 37)).fg.select(sku=list(SKUS), engine="vllm")
    decode = fg.load_dataset("attention-decode").isel(case=slice(None, None, 37)).fg.select(sku=list(SKUS))
    rows = {
        "gemm": evaluate_gemm(lambda _: graph, gemm, home=bool),
        "decode attention": evaluate_attention(lambda _: graph, decode, home=bool),
    }
    return {kind: float(np.mean([row.errors.mape for row in found])) for kind, found in rows.items()}


def _wall_clock(graphs: dict[str, fg.FactorGraph]):
    rows = serving_rows(fg.load_dataset("serving"))
    table = rows.table[rows.table["set"] == "dense"]
    used = np.unique(table["load"].astype(int))
    loads = [rows.loads[number] for number in used]
    starts = np.cumsum([0, *(len(load.requests) for load in loads)])
    index = starts[np.searchsorted(used, table["load"])] + table["case"].astype(int).to_numpy()
    found, loop = {}, serving_graph()
    for name, graph in graphs.items():
        tpot = np.asarray(evaluate(graph, loop, prepare(graph, loop, loads))["tpot"], float)
        found[name] = errors(tpot[index], table["tpot"])
    return found
