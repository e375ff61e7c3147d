"""predict, waterfall, sensitivity and sweep."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from factorgraph.cli import selectors as select
from factorgraph.cli.render import console, engineering, print_json, seconds, table
from factorgraph.errors import FactorGraphError


def register(app: typer.Typer) -> None:
    for command in (predict, waterfall, sensitivity, sweep):
        app.command()(command)


def predict(
    sku: select.SkuOption,
    model: select.ModelOption,
    phase: select.PhaseOption = "decode",
    batch: select.BatchOption = 1,
    context: select.ContextOption = 1024,
    chunk: select.ChunkOption = 512,
    tp: select.TpOption = 1,
    weights: select.WeightsOption = None,
    kv: select.KvOption = "bf16",
    power_cap: select.PowerCapOption = None,
    clock: select.ClockOption = None,
    variant: select.VariantOption = "per-kernel",
    json: select.JsonOption = False,
) -> None:
    """How long one step takes, and which kernels it spends its time in."""
    from factorgraph.inference import interval_for

    case = _case(sku, model, phase, batch, context, chunk, tp, weights, kv, power_cap, clock, variant)
    out = case.graph.predict(case.sku, case.step, **case.settings)
    document = prediction_document(out, case.inputs)
    needed, there = float(case.step.resident_bytes), case.sku.dram_capacity
    if needed > there:
        reason = f"weights and cache need {engineering(needed, 'B')} on a GPU of {engineering(there, 'B')}"
        document["validity"] = {"level": "unsupported", "reasons": reason}
    interval = interval_for(variant, out)
    if interval is not None:
        document["t_step_interval_s"] = {"level": 0.8, "low": interval[0], "high": interval[1]}
    if json:
        print_json(document)
        return
    screen = console()
    screen.print(headline(document))
    if interval is not None:
        screen.print(
            f"80 % interval, as for a GPU that was not measured: {seconds(interval[0])} to {seconds(interval[1])}"
        )
    if document["validity"]["reasons"]:
        screen.print("[yellow]{level}[/yellow]: {reasons}".format(**document["validity"]))
    screen.print(kernels_table(document["kernels"], f"Kernels of one step, {document['inputs']['sku']}"))


def waterfall(
    sku: select.SkuOption,
    model: select.ModelOption,
    phase: select.PhaseOption = "decode",
    batch: select.BatchOption = 1,
    context: select.ContextOption = 1024,
    chunk: select.ChunkOption = 512,
    tp: select.TpOption = 1,
    weights: select.WeightsOption = None,
    kv: select.KvOption = "bf16",
    power_cap: select.PowerCapOption = None,
    clock: select.ClockOption = None,
    variant: select.VariantOption = "per-kernel",
    json: select.JsonOption = False,
) -> None:
    """What each of the five factors takes from the peak, for every GEMM of the step."""
    from factorgraph.attribution import waterfall as attribute

    case = _case(sku, model, phase, batch, context, chunk, tp, weights, kv, power_cap, clock, variant)
    falls = attribute(case.graph, case.sku, case.step, **case.settings)
    if json:
        factors = [str(name) for name in falls["factor"].values]
        readings = ("factor_value", "efficiency", "points_lost", "points_shapley", "share")
        rows = [
            {"gemm": str(gemm)}
            | {name: dict(zip(factors, falls[name].sel(gemm=gemm).values.tolist(), strict=True)) for name in readings}
            for gemm in falls["gemm"].values
        ]
        print_json({"gemms": rows, "inputs": case.inputs})
        return
    console().print(falls_table(falls, f"Points of peak that each factor takes, {case.sku.name}", "gemm"))


def sensitivity(
    sku: select.SkuOption,
    model: select.ModelOption,
    phase: select.PhaseOption = "decode",
    batch: select.BatchOption = 1,
    context: select.ContextOption = 1024,
    chunk: select.ChunkOption = 512,
    tp: select.TpOption = 1,
    weights: select.WeightsOption = None,
    kv: select.KvOption = "bf16",
    power_cap: select.PowerCapOption = None,
    clock: select.ClockOption = None,
    variant: select.VariantOption = "per-kernel",
    wrt: Annotated[list[str] | None, typer.Option("--wrt", help="A variable or law constant; repeat for more.")] = None,
    json: select.JsonOption = False,
) -> None:
    """How t_step moves with clock, power cap, working set, or whatever --wrt names."""
    from factorgraph.sensitivity import sensitivity as differentiate

    case = _case(sku, model, phase, batch, context, chunk, tp, weights, kv, power_cap, clock, variant)
    wrt = wrt or ["sm_clock", "power_cap", "working_set"]
    found = differentiate(case.graph, case.sku, case.step, wrt=wrt, **case.settings)
    rows = sensitivity_rows(found)
    if json:
        print_json({"rows": rows, "inputs": case.inputs})
        return
    console().print(sensitivity_table(rows, f"Derivatives of t_step, {case.sku.name}"))


def sweep(
    sku: select.SkuOption,
    model: select.ModelOption,
    over: Annotated[
        list[str],
        typer.Option(
            "--over", help="NAME=START:STOP:N in SI units, of a variable, batch or context; repeat for a grid."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="File to write, .nc or .zarr.")] = Path("sweep.nc"),
    phase: select.PhaseOption = "decode",
    batch: select.BatchOption = 1,
    context: select.ContextOption = 1024,
    chunk: select.ChunkOption = 512,
    tp: select.TpOption = 1,
    weights: select.WeightsOption = None,
    kv: select.KvOption = "bf16",
    power_cap: select.PowerCapOption = None,
    clock: select.ClockOption = None,
    variant: select.VariantOption = "per-kernel",
    json: select.JsonOption = False,
) -> None:
    """Predict a grid of values of any variables or of batch and context, and write it; interrupted, it goes on."""
    import xarray as xr

    import factorgraph as fg

    case = _case(sku, model, phase, batch, context, chunk, tp, weights, kv, power_cap, clock, variant)
    grid = dict(_range(text) for text in over)
    axes = {**_step_numbers(case.inputs), **case.settings, **grid}
    lazily = fg.sweep(case.graph, case.sku, fg.load_model(model), phase=phase, **axes)
    lazily.write(out, progress=not json)
    with xr.open_dataset(out) if out.suffix == ".nc" else xr.open_zarr(out) as result:
        times = result["t_step"]
        low, high, points = float(times.min()), float(times.max()), int(times.size)
    summary = {
        "file": str(out),
        "points": points,
        "t_step_s": {"min": low, "max": high},
        "over": {name: [float(values[0]), float(values[-1]), len(values)] for name, values in grid.items()},
        "inputs": case.inputs,
    }
    if json:
        print_json(summary)
        return
    console().print(f"{points} points, t_step from {seconds(low)} to {seconds(high)}, written to {out}")


def _step_numbers(inputs: dict) -> dict:
    """What the step is made from, as `fg.sweep` names it."""
    batch, context = ("batch", "prompt") if inputs["phase"] == "prefill" else ("batch", "context")
    if inputs["phase"] == "mixed":
        batch = "decode_batch"
    numbers = {batch: inputs["batch"], context: inputs["context"]}
    if "chunk" in inputs:
        numbers["chunk"] = inputs["chunk"]
    return numbers | {name: inputs[name] for name in ("tp", "weights", "kv")}


def _case(sku, model, phase, batch, context, chunk, tp, weights, kv, power_cap, clock, variant) -> select.Case:
    return select.select(
        sku=sku,
        model=model,
        phase=phase,
        batch=batch,
        context=context,
        chunk=chunk,
        tp=tp,
        weights=weights,
        kv=kv,
        power_cap=power_cap,
        clock=clock,
        variant=variant,
    )


def _range(text: str):
    """NAME=START:STOP:N as a name and N evenly spaced values."""
    import numpy as np

    name, equals, spec = text.partition("=")
    try:
        start, stop, count = spec.split(":")
        values = np.linspace(float(start), float(stop), int(count)) if equals and int(count) > 0 else None
    except ValueError:
        values = None
    if values is None:
        raise FactorGraphError(f"--over '{text}' cannot be read; write NAME=START:STOP:N such as power_cap=300:700:9")
    return name, values


def prediction_document(out, inputs: dict) -> dict:
    """What `predict --json` prints."""
    from factorgraph.kernels import kernel_table
    from factorgraph.validity import LEVELS

    return {
        "t_step_s": float(out["t_step"]),
        "t_gpu_s": float(out["t_gpu"]),
        "t_host_s": float(out["t_host"]),
        "validity": {"level": LEVELS[int(out["validity"])], "reasons": out["validity"].attrs["reasons"]},
        "kernels": [dataclasses.asdict(kernel) for kernel in kernel_table(out)],
        "inputs": inputs,
    }


def headline(document: dict) -> str:
    inputs = document["inputs"]
    return (
        f"[bold]{inputs['model']}[/bold] {inputs['phase']} on [bold]{inputs['sku']}[/bold], batch {inputs['batch']}, "
        f"context {inputs['context']}, tp {inputs['tp']}, {inputs['weights']}: "
        f"[bold]{seconds(document['t_step_s'])}[/bold] a step "
        f"(GPU {seconds(document['t_gpu_s'])}, host {seconds(document['t_host_s'])})"
    )


def kernels_table(kernels: list[dict], title: str):
    columns = ["kernel", "kind", "bound", "count", "time", "share", "FLOP", "bytes"]
    factors = ["clock", "wave", "tc", "barrier", "mem"]
    total = sum(kernel["count"] * kernel["time_s"] for kernel in kernels)
    rows = [
        [
            kernel["name"],
            kernel["kind"],
            kernel["bound"],
            f"{kernel['count']:g}",
            seconds(kernel["time_s"]),
            f"{100 * kernel['count'] * kernel['time_s'] / total:.1f} %",
            engineering(kernel["flop"], "") if kernel["flop"] else "-",
            engineering(kernel["bytes"], "B"),
            *("-" if kernel[f"eta_{f}"] is None else f"{kernel[f'eta_{f}']:.2f}" for f in factors),
        ]
        for kernel in kernels
    ]
    return table(title, [*columns, *(f"η {factor}" for factor in factors)], rows, text=3)


def falls_table(falls, title: str, along: str):
    """Points of peak that each factor takes, a row for each entry along a dimension ("gemm" or "sku")."""
    factors = [str(name) for name in falls["factor"].values]
    body = [
        [
            str(falls[along].values[i]),
            *(f"{points:.1f}" for points in falls["points_lost"].isel({along: i}).values),
            f"{100 * float(falls['efficiency'].isel({along: i, 'factor': -1})):.1f} %",
        ]
        for i in range(falls.sizes[along])
    ]
    return table(title, [{"gemm": "GEMM", "sku": "GPU"}[along], *factors, "left of peak"], body)


def sensitivity_rows(found) -> list[dict]:
    """One row a parameter, for one GPU, of the derivative of t_step."""
    one = found.sel(output="t_step")
    return [
        {
            "parameter": str(name),
            "output": "t_step",
            "derivative": float(one["derivative"].sel(parameter=name)),
            "unit": str(one["derivative_unit"].sel(parameter=name).values),
            "elasticity": float(one["elasticity"].sel(parameter=name)),
        }
        for name in one["parameter"].values
    ]


def sensitivity_table(rows: list[dict], title: str):
    body = [[row["parameter"], f"{row['derivative']:.3e} {row['unit']}", f"{row['elasticity']:+.3f}"] for row in rows]
    return table(title, ["by", "derivative", "elasticity (% per %)"], body)


def slopes_table(found, title: str):
    """Derivative and elasticity of t_step by each parameter, a row for each GPU."""
    names = [str(name) for name in found["parameter"].values]
    body = []
    for sku in found["sku"].values:
        rows = sensitivity_rows(found.sel(sku=sku))
        body.append([str(sku), *(f"{row['derivative']:.2e} {row['unit']} ({row['elasticity']:+.2f})" for row in rows)])
    return table(title + "; elasticity in brackets", ["GPU", *names], body)
