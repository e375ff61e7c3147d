"""evaluate: the model's error against real measurements."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from factorgraph.cli.render import console, print_json, table
from factorgraph.cli.selectors import JsonOption, VariantOption
from factorgraph.errors import FactorGraphError


def register(app: typer.Typer) -> None:
    app.command()(evaluate)


# What is evaluated where no dataset is named.
SOURCES = {"gemm": ("gemm-bf16",), "attention": ("attention-decode", "attention-prefill"), "collective": ("allreduce",)}


def evaluate(
    kind: Annotated[
        Literal["gemm", "attention", "collective", "serving"], typer.Option("--kind", help="Which measurements.")
    ] = "gemm",
    sku: Annotated[str | None, typer.Option("--sku", help="One GPU only.")] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", help="Dataset: a name from `data list`, or a file. Default: the bundled ones."),
    ] = None,
    variant: VariantOption = "per-kernel",
    protocol: Annotated[
        Literal["pooled", "logo", "home"] | None,
        typer.Option(
            "--protocol",
            help="GPUs the constants saw: all, all but the one scored, or A100 and H100 (serving: H100). "
            "Default: pooled; serving: home.",
        ),
    ] = None,
    forest: Annotated[
        bool, typer.Option("--forest/--no-forest", help="Score a random forest that learned the A100's times beside.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Errors of predicted against measured kernels, beside simple baselines on the same rows."""
    import factorgraph as fg

    if kind == "serving":
        from factorgraph.cli.serving import show_evaluation

        dataset = _of_kind(kind, fg.load_dataset(source or "serving"))
        show_evaluation(dataset, protocol=protocol or "home", sku=sku, json=json)
        return
    protocol = protocol or "pooled"
    sources = (source,) if source else SOURCES[kind]
    rows = [
        row.as_dict()
        for name in sources
        for row in _rows(kind, fg.load_dataset(name), variant=variant, protocol=protocol, sku=sku, learn=forest)
    ]
    document = {
        "kind": kind,
        "source": ", ".join(sources),
        "variant": variant,
        "protocol": protocol,
        "rows": rows,
    }
    if json:
        print_json(document)
        return
    title = f"Errors on measured {_PLURALS[kind]} ({document['source']}; {protocol} constants), in percent"
    console().print(errors_table(rows, title))


_PLURALS = {"gemm": "GEMMs", "attention": "attention kernels", "collective": "all-reduces"}


def _of_kind(kind: str, dataset: Any) -> Any:
    if dataset.attrs["kind"] != kind:
        raise FactorGraphError(f"that dataset holds measurements of kind {dataset.attrs['kind']}, not {kind}")
    return dataset


def _rows(kind: str, dataset: Any, *, variant: str, protocol: str, sku: str | None, learn: bool) -> Iterator[Any]:
    from factorgraph import evaluation
    from factorgraph.protocol import constants_for, graph_for
    from factorgraph.step import fitted_on

    dataset = _of_kind(kind, dataset)
    run = {
        "gemm": evaluation.evaluate_gemm,
        "attention": evaluation.evaluate_attention,
        "collective": evaluation.evaluate_collective,
    }[kind]
    fitted = "gemm-fp8" if dataset.attrs.get("dtype") == "fp8" else kind
    return run(
        lambda name: graph_for(protocol, name, variant),
        dataset,
        home=lambda name: name in fitted_on(variant, constants_for(protocol, name), fitted),
        sku=sku,
        learn=learn,
    )


def errors_table(rows: list[dict], title: str):
    """Errors by GPU and engine, then by regime, beside the baselines; the last line is the mean of the rows."""
    regimes = list(dict.fromkeys(name for row in rows for name in row["regimes"]))
    labels = [name for name in ("phase", "link") if any(name in row for row in rows)]
    baselines = {
        "roofline_mape": "roofline",
        "roofline_tuned_mape": "roofline/0.8+3µs",
        "forest_mape": "A100 forest",
        "forest_scaled_mape": "scaled forest",
    }
    shown = {key: title for key, title in baselines.items() if any(row[key] is not None for row in rows)}
    columns = ["GPU", "engine", *labels, "role", "n", "MAPE", "median", "bias", *regimes, *shown.values()]

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    def mean(key: str) -> float | None:
        known = [row[key] for row in rows if row[key] is not None]
        return sum(known) / len(known) if known else None

    body = [
        [
            row["sku"],
            row["engine"],
            *(row.get(name, "") for name in labels),
            row["role"],
            str(row["n"]),
            percent(row["mape"]),
            percent(row["median"]),
            f"{row['bias']:+.1f}",
            *(percent(row["regimes"][name]["mape"] if name in row["regimes"] else None) for name in regimes),
            *(percent(row[key]) for key in shown),
        ]
        for row in rows
    ]
    if len(rows) > 1:
        bias = sum(row["bias"] for row in rows) / len(rows)
        body.append(
            [
                "mean of rows",
                *("" for _ in range(2 + len(labels))),
                str(sum(row["n"] for row in rows)),
                percent(mean("mape")),
                percent(mean("median")),
                f"{bias:+.1f}",
                *("" for _ in regimes),
                *(percent(mean(key)) for key in shown),
            ]
        )
    return table(title, columns, body, text=3 + len(labels))
