"""evaluate: the model's error against real measurements."""

from typing import Annotated, Literal

import typer

from factorgraph.cli.render import console, print_json, table
from factorgraph.cli.selectors import JsonOption, VariantOption


def register(app: typer.Typer) -> None:
    app.command()(evaluate)


def evaluate(
    kind: Annotated[Literal["gemm"], typer.Option("--kind", help="Which measurements.")] = "gemm",
    sku: Annotated[str | None, typer.Option("--sku", help="One GPU only.")] = None,
    source: Annotated[str, typer.Option("--source", help="Dataset: a name from `data list`, or a file.")] = "gemm-bf16",
    variant: VariantOption = "per-kernel",
    protocol: Annotated[
        Literal["pooled", "logo", "home"],
        typer.Option("--protocol", help="GPUs the constants saw: all, all but the one scored, or A100 and H100."),
    ] = "pooled",
    json: JsonOption = False,
) -> None:
    """Errors of predicted against measured kernels, beside the roofline on the same rows."""
    import factorgraph as fg
    from factorgraph.evaluation import evaluate_gemm
    from factorgraph.protocol import constants_for, graph_for
    from factorgraph.step import fitted_on

    rows = list(
        evaluate_gemm(
            lambda name: graph_for(protocol, name, variant),
            fg.load_dataset(source),
            home=lambda name: name in fitted_on(variant, constants_for(protocol, name)),
            sku=sku,
        )
    )
    document = {
        "kind": kind,
        "source": source,
        "variant": variant,
        "protocol": protocol,
        "rows": [row.as_dict() for row in rows],
    }
    if json:
        print_json(document)
        return
    screen = console()
    screen.print(
        errors_table(
            [row.as_dict() for row in rows], f"Errors on measured GEMMs ({source}, {protocol} constants), in percent"
        )
    )


def errors_table(rows: list[dict], title: str):
    """Errors by GPU and engine, then by regime of M, beside the baselines; the last line is the mean of the rows."""
    regimes = list(dict.fromkeys(name for row in rows for name in row["regimes"]))
    columns = ["GPU", "engine", "role", "n", "MAPE", "median", "bias", *regimes, "roofline", "roofline/0.8+3µs"]

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    body = [
        [
            row["sku"],
            row["engine"],
            row["role"],
            str(row["n"]),
            percent(row["mape"]),
            percent(row["median"]),
            f"{row['bias']:+.1f}",
            *(percent(row["regimes"][name]["mape"] if name in row["regimes"] else None) for name in regimes),
            percent(row["roofline_mape"]),
            percent(row["roofline_tuned_mape"]),
        ]
        for row in rows
    ]
    if len(rows) > 1:
        mean = {
            key: sum(row[key] for row in rows) / len(rows)
            for key in ("mape", "median", "bias", "roofline_mape", "roofline_tuned_mape")
        }
        body.append(
            [
                "mean of rows",
                "",
                "",
                str(sum(row["n"] for row in rows)),
                percent(mean["mape"]),
                percent(mean["median"]),
                f"{mean['bias']:+.1f}",
                *("" for _ in regimes),
                percent(mean["roofline_mape"]),
                percent(mean["roofline_tuned_mape"]),
            ]
        )
    return table(title, columns, body, text=3)
