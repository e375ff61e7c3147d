"""Predictions a second: one at a time, mapped over a grid, and of single GEMMs."""

import jax
import numpy as np

import factorgraph as fg
from benchmarks.measuring import Line, seconds
from factorgraph.labelled import gather
from factorgraph.sweep import sweep

POINTS = 16_384


def run() -> list[Line]:
    graph, sku, model = fg.step_graph(), fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b")
    step = model.decode(batch=64, context=2048)
    arrays = gather(graph, sku, step).arrays
    evaluate = jax.jit(lambda arrays: graph.evaluate(arrays)["t_step"])
    one = seconds(lambda: evaluate(arrays).block_until_ready(), repeats=200)
    labelled = seconds(lambda: graph.predict(sku, step), repeats=20)
    caps = np.linspace(300.0, 700.0, POINTS)
    grid = sweep(graph, sku, model, batch=64, context=2048, power_cap=caps)
    many = seconds(lambda: grid.compute_block(0)) / POINTS
    gemms = _gemm_seconds(graph, arrays)
    return [
        Line("prediction of a whole step, compiled", f"{1 / one:,.0f} /s", 1.0, "itself"),
        Line("prediction with names and units", f"{1 / labelled:,.0f} /s", labelled / one, "time of the compiled one"),
        Line("point of a sweep", f"{1 / many:,.0f} /s", one / many, "rate of single predictions"),
        Line("GEMM in a batch", f"{1 / gemms:,.0f} /s", many / gemms, "rate of whole steps in a sweep"),
    ]


def _gemm_seconds(graph: fg.FactorGraph, arrays: dict[str, jax.Array]) -> float:
    """Time of one GEMM among many on the gemm plate."""
    gemms = graph.subgraph("t_gemm")
    names = {variable.name for variable in gemms.inputs}
    count = POINTS // 4

    def widened(name: str) -> jax.Array:
        value = arrays[name]
        return jax.numpy.resize(value, (count,)) if gemms.variables[name].plates == ("gemm",) else value

    wide = {name: widened(name) for name in names if name in arrays}
    evaluate = jax.jit(lambda arrays: gemms.evaluate(arrays)["t_gemm"])
    return seconds(lambda: evaluate(wide).block_until_ready()) / count
