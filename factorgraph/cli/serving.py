"""serve: TTFT, TPOT and throughput of a loaded engine; and the tables of `evaluate --kind serving`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import xarray as xr

from factorgraph.cli import selectors as select
from factorgraph.cli.render import console, print_json, seconds, table
from factorgraph.errors import FactorGraphError


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    sku: Annotated[list[str], typer.Option("--sku", help="GPU: a name or a card's path; repeat to compare.")],
    model: select.ModelOption,
    engine: Annotated[str, typer.Option("--engine", help="Engine: vllm, sglang, trtllm, or a file's path.")] = "vllm",
    concurrency: Annotated[str, typer.Option("--concurrency", help="Clients, separated by commas.")] = "1,8,64",
    input: Annotated[int, typer.Option("--input", help="Tokens of a prompt.")] = 1024,
    output: Annotated[int, typer.Option("--output", help="Tokens of an answer.")] = 512,
    tp: select.TpOption = 1,
    weights: select.WeightsOption = None,
    kv: Annotated[
        Literal["bf16", "fp8"] | None, typer.Option("--kv", help="Type of the KV cache; what the engine chooses.")
    ] = None,
    slo_tpot: Annotated[float | None, typer.Option("--slo-tpot", help="Limit of the time per token, in ms.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Figure to write, as SVG and PNG.")] = None,
    json: select.JsonOption = False,
) -> None:
    """TTFT, TPOT and throughput of a loaded engine, and what the time of a request goes to."""
    import factorgraph as fg
    from factorgraph.serving import most_clients_within

    if slo_tpot is not None and not slo_tpot > 0:
        raise FactorGraphError(f"--slo-tpot is {slo_tpot:g}; give a time above 0 ms")
    served = fg.serve(
        fg.engine_step_graph(),
        sku,
        model,
        engine=engine,
        requests=_clients(concurrency),
        input=input,
        output=output,
        tp=tp,
        weights=weights,
        kv=kv,
    )
    names = [str(name) for name in served["sku"].values]
    within = dict(zip(names, most_clients_within(served, slo_tpot / 1e3), strict=True)) if slo_tpot else None
    files = _plotted(served, plot, slo_tpot)
    if json:
        print_json(serving_document(served) | {"slo_tpot_ms": slo_tpot, "most_clients": within, "files": files})
        return
    screen = console()
    about = f"{served.attrs['model']} in {served.attrs['weights']} under {served.attrs['engine']}, tp {tp}"
    for name in names:
        screen.print(latency_table(served.sel(sku=name), f"{about} on {name}, {input} in, {output} out", slo_tpot))
        screen.print(parts_table(served.sel(sku=name), "What the time of a request goes to, in percent"))
    if within:
        kept = (f"{name} {'none' if most is None else f'{most:g}'}" for name, most in within.items())
        screen.print(f"Most of these clients within {slo_tpot:g} ms a token: {', '.join(kept)}")
    for file in files:
        screen.print(f"written {file}")


def _clients(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise FactorGraphError(f"--concurrency '{text}' cannot be read; write whole numbers such as 1,8,64") from None


def _plotted(served: xr.Dataset, plot: Path | None, slo_tpot: float | None) -> list[str]:
    if plot is None:
        return []
    from factorgraph.plotting import latency_against_concurrency, save

    figure = latency_against_concurrency(served, slo_tpot=None if slo_tpot is None else slo_tpot / 1e3)
    return [str(path) for path in save(figure, plot.with_suffix("") if plot.suffix in (".svg", ".png") else plot)]


def serving_document(served: xr.Dataset) -> dict[str, Any]:
    """What `serve --json` prints, but for the SLO."""
    numbers = {
        "ttft_s": "ttft",
        "tpot_s": "tpot",
        "request_s": "t_request",
        "output_tokens_per_s": "throughput",
        "running": "running",
        "energy_per_token_bound_j": "energy_per_token_bound",
    }
    rows = [
        {"sku": str(sku), "concurrency": int(clients)}
        | {key: float(served[name].sel(sku=sku, requests=clients)) for key, name in numbers.items()}
        | {"parts_s": served["t_part"].sel(sku=sku, requests=clients).to_series().to_dict()}
        for sku in served["sku"].values
        for clients in served["requests"].values
    ]
    inputs = {
        name: served.attrs[name] for name in ("model", "engine", "tp", "weights", "input_tokens", "output_tokens")
    }
    return {"rows": rows, "inputs": inputs}


def latency_table(served: xr.Dataset, title: str, slo_tpot: float | None):
    """A row for each number of clients of one card."""
    body = []
    for clients in served["requests"].values:
        row = served.sel(requests=clients)
        mark = "" if slo_tpot is None else ("yes" if float(row["tpot"]) <= slo_tpot / 1e3 else "no")
        body.append(
            [
                f"{clients:g}",
                f"{float(row['running']):.4g}",
                *(seconds(float(row[name])) for name in ("ttft", "tpot", "t_request", "t_queue")),
                f"{float(row['throughput']):.4g}",
                f"{float(row['energy_per_token_bound']):.3g}",
                *([mark] if slo_tpot is not None else []),
            ]
        )
    columns = ["clients", "running", "TTFT", "TPOT", "request", "queue", "tokens/s", "J/token at most"]
    return table(title, [*columns, *(["in SLO"] if slo_tpot is not None else [])], body, text=0)


def parts_table(served: xr.Dataset, title: str):
    shares = 100.0 * served["t_part"] / served["t_request"]
    clients = served["requests"].values
    body = [
        [str(part), *(f"{float(shares.sel(part=part, requests=one)):.1f}" for one in clients)]
        for part in served["part"].values
        if float(abs(shares.sel(part=part)).max()) >= 0.05
    ]
    return table(title, ["part", *(f"{one:g} clients" for one in clients)], body)


def show_evaluation(dataset: xr.Dataset, *, protocol: str, sku: str | None, json: bool) -> None:
    """Errors against measured serving, as tables or JSON."""
    from factorgraph.evaluation.serving import evaluate_serving

    found = evaluate_serving(dataset, protocol=protocol, sku=sku)
    if json:
        print_json(found.as_dict())
        return
    screen = console()
    screen.print(groups_table(found.rows, f"Errors of served loads ({protocol} constants), in percent"))
    screen.print(overall_table(found.overall, found.calibrated))
    screen.print(regimes_table(found.regimes))
    screen.print(ranking_table(found.ranking, found.noise))
    screen.print(table("Rows left out", ["reason", "rows"], [[why, str(n)] for why, n in found.excluded.items()]))
    worst = (f"{' '.join(row[key] for key in _LABELS)} {row['tpot_mape']:.1f} %" for row in found.worst())
    screen.print(f"Worst dense groups: {'; '.join(worst)}")


_LABELS = ("system", "engine", "model", "precision")
_MEASURES = {
    "tpot_mape": "TPOT",
    "tpot_median": "median",
    "ttft_mape": "TTFT",
    "ttft_median": "median",
    "request_mape": "request",
}


def _measures(row: dict[str, Any]) -> list[str]:
    return [str(row["n"]), *(f"{row[name]:.1f}" for name in _MEASURES)]


def _calibrated(row: dict[str, Any]) -> str:
    return "-" if row["calibrated_tpot_mape"] is None else f"{row['calibrated_tpot_mape']:.1f}"


def groups_table(rows: list[dict[str, Any]], title: str):
    """Errors of each group, home and unseen told apart."""
    body = [
        [
            *(row[key] for key in _LABELS),
            row["set"],
            row["role"],
            *_measures(row),
            f"{row['tpot_bias']:+.1f}",
            _calibrated(row),
        ]
        for row in sorted(rows, key=lambda row: row["set"])
    ]
    return table(
        title, [*_LABELS, "set", "role", "n", *_MEASURES.values(), "TPOT bias", "TPOT, host calibrated"], body, text=6
    )


def overall_table(overall: dict[str, dict[str, Any]], calibrated: dict[str, dict[str, Any]]):
    body = [[name, *_measures(row), _calibrated(calibrated[name])] for name, row in overall.items()]
    return table("Overall, in percent", ["set", "n", *_MEASURES.values(), "TPOT, host calibrated"], body)


def regimes_table(regimes: list[dict[str, Any]]):
    """Errors by what fills the time between tokens."""
    body = [[row["set"], row["regime"], *_measures(row)] for row in regimes]
    return table("By regime, in percent", ["set", "regime", "n", *_MEASURES.values()], body, text=2)


def ranking_table(ranking: dict[str, dict[str, Any]], noise: dict[str, dict[str, Any]]):
    """Does it order configurations as reality does, and how far apart are rows with one label."""
    body = [
        [
            name,
            *(by[of][key] for of in ("tpot", "cost") for key in ("kendall_tau", "top1_agreement")),
            by["tpot"]["loads"],
            noise[name]["tpot_mape"],
            noise[name]["rows"],
        ]
        for name, by in ranking.items()
    ]
    columns = ["set", "τ TPOT", "best found", "τ cost", "best found", "loads", "noise, %", "repeated rows"]
    return table("Order of configurations under one load, and noise of repeated rows", columns, body)
