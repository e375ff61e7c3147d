"""data: what was measured, where it is from, and bringing in one's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from factorgraph.cli.render import console, engineering, print_json, table
from factorgraph.cli.selectors import JsonOption
from factorgraph.errors import FactorGraphError

NameArgument = Annotated[str, typer.Argument(help="A name from `data list`, or a NetCDF file.")]


def register(app: typer.Typer) -> None:
    data = typer.Typer(help="Datasets: what was measured, where it is from, whether it is whole.", no_args_is_help=True)
    data.command("list")(list_data)
    data.command("show")(show_data)
    data.command("import")(import_data)
    data.command("verify")(verify_data)
    app.add_typer(data, name="data")


def list_data(json: JsonOption = False) -> None:
    """All datasets on the search path."""
    import factorgraph as fg

    rows = [
        {"name": entry.name, "kind": entry.kind, "title": entry.title, "licence": entry.licence, "bytes": entry.size}
        for entry in fg.list_datasets()
    ]
    if json:
        print_json({"datasets": rows})
        return
    body = [[r["name"], r["kind"], r["title"], r["licence"], engineering(r["bytes"], "B")] for r in rows]
    console().print(table("Datasets", ["dataset", "kind", "title", "licence", "size"], body, text=4))


def show_data(name: NameArgument, json: JsonOption = False) -> None:
    """A dataset's variables, provenance and datasheet."""
    import factorgraph as fg

    dataset = fg.load_dataset(name)
    variables = {
        str(key): {"dims": list(map(str, value.dims)), "unit": value.attrs.get("units", ""), "size": int(value.size)}
        for key, value in dataset.variables.items()
    }
    provenance = {key: value if isinstance(value, str) else float(value) for key, value in dataset.attrs.items()}
    if json:
        print_json({"name": name, "variables": variables, "provenance": provenance})
        return
    screen = console()
    body = [[key, " x ".join(v["dims"]), v["unit"], str(v["size"])] for key, v in variables.items()]
    screen.print(table(name, ["variable", "dimensions", "unit", "values"], body, text=3))
    screen.print()
    screen.print(table("Provenance", ["what", "value"], [[k, str(v)] for k, v in provenance.items()], text=2))


def verify_data(json: JsonOption = False) -> None:
    """Hash every dataset again and compare."""
    from factorgraph.datasets import verify

    faults = verify()
    if json:
        print_json({"datasets": [{"name": name, "fault": fault} for name, fault in faults.items()]})
    else:
        console().print(
            table("Checksums", ["dataset", "verdict"], [[n, f or "whole"] for n, f in faults.items()], text=2)
        )
    if broken := [name for name, fault in faults.items() if fault]:
        raise FactorGraphError(f"{', '.join(broken)} cannot be trusted; install factorgraph again")


def import_data(
    source: Annotated[Path, typer.Argument(help="The file to read.")],
    format: Annotated[str, typer.Option("--format", help="Its format; a wrong name lists those there are.")],
    name: Annotated[str | None, typer.Option("--name", help="Keep it under this name; otherwise only look.")] = None,
    fact: Annotated[
        list[str] | None, typer.Option("--fact", help="What the file does not say: KEY=VALUE, such as sku=h100-sxm.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="An option of the format: KEY=VALUE, such as part=gemm.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="For csv: FIELD=COLUMN, such as latency=time:ms.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Read a foreign file into a dataset, and say which of its rows were left out and why."""
    from factorgraph.datasets import add_dataset
    from factorgraph.datasets.importers import import_file

    options: dict[str, Any] = dict(_pair(text, "--option") for text in option or ())
    if column:
        options["columns"] = dict(_pair(text, "--column") for text in column)
    facts = dict(_pair(text, "--fact") for text in fact or ())
    imported = import_file(source, format, facts=facts, **options)
    if name is not None:
        add_dataset(name, imported.dataset, rejected=imported.rejected)
    rows = {str(dim): int(size) for dim, size in imported.dataset.sizes.items()}
    if json:
        print_json({"kept_as": name, "sizes": rows, "rejected": imported.counts, "notes": list(imported.notes)})
        return
    screen = console()
    sizes = ", ".join(f"{size} along {dim}" for dim, size in rows.items())
    screen.print(f"{imported.dataset.attrs['kind']} dataset: {sizes}" + (f", kept as {name}" if name else ", not kept"))
    if imported.counts:
        screen.print(table("Rows left out", ["reason", "rows"], imported.counts.items()))
    for note in imported.notes:
        screen.print(note)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise FactorGraphError(f"{option} '{text}' cannot be read; write KEY=VALUE")
    return key, value
