"""measure: time this machine's kernels."""

from pathlib import Path
from typing import Annotated

import typer

from factorgraph.cli.render import cell, console, print_json, seconds
from factorgraph.cli.selectors import JsonOption


def register(app: typer.Typer) -> None:
    app.command("measure")(measure_machine)


def measure_machine(
    kind: Annotated[str, typer.Argument(help="gemm, bandwidth, light or step.")],
    out: Annotated[Path, typer.Option("--out", help="The dataset to write (NetCDF).")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller cases, under a minute on a CPU.")] = False,
    sku: Annotated[str | None, typer.Option("--sku", help="Card of this device; its own name if left out.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the order and the operands.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from an interrupted run.")] = False,
    json: JsonOption = False,
) -> None:
    """Time kernels on this machine's CPU or GPU, and write them as a dataset."""
    import jax
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from factorgraph.measuring import find_sampler, measure

    sampler, note = find_sampler(jax.default_backend())
    if note:
        typer.echo(note, err=True)
    columns = (TextColumn(f"measuring {kind}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(kind, total=None)
        dataset = measure(
            kind,
            out,
            quick=quick,
            sku=sku,
            seed=seed,
            resume=resume,
            sampler=sampler,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    rows, spread = dataset.sizes["row"], float(dataset["spread"].median())
    fastest, slowest = float(dataset["latency"].min()), float(dataset["latency"].max())
    if json:
        print_json(
            {
                "file": str(out),
                "rows": rows,
                "fastest_s": fastest,
                "slowest_s": slowest,
                "spread": spread,
                "left_out": dataset.attrs["left_out"],
            }
        )
        return
    console().print(
        f"{out}: {rows} rows on {dataset.attrs['device']}, {seconds(fastest)} to {seconds(slowest)}, "
        f"median spread {cell(100 * spread)} %, {dataset.attrs['left_out']} left out because the clock gave no time"
    )
