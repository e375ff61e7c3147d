"""sku and data: what the house holds."""

from typing import Annotated

import typer

from factorgraph.cli.render import console, engineering, print_json, table
from factorgraph.cli.selectors import JsonOption
from factorgraph.errors import FactorGraphError

NameArgument = Annotated[str, typer.Argument(help="A name from `list`, or a path.")]


def register(app: typer.Typer) -> None:
    sku = typer.Typer(help="GPUs: their cards, and whether the numbers on them fit.", no_args_is_help=True)
    sku.command("list")(list_cards)
    sku.command("show")(show_card)
    sku.command("check")(check_cards)
    app.add_typer(sku, name="sku")
    data = typer.Typer(help="Datasets: what was measured, where it is from, whether it is whole.", no_args_is_help=True)
    data.command("list")(list_data)
    data.command("show")(show_data)
    data.command("verify")(verify_data)
    app.add_typer(data, name="data")


def list_cards(json: JsonOption = False) -> None:
    """All GPUs, with the numbers that matter most."""
    import factorgraph as fg

    cards = [fg.load_sku(name) for name in fg.list_skus()]
    rows = [
        {
            "name": card.name,
            "title": card.title,
            "generation": card.generation,
            "sm_count": card.sm_count,
            "peak_bf16_flops": card.peak_flops("bf16") if "bf16" in card.flop_per_clock_per_sm else None,
            "dram_bandwidth": card.dram_bandwidth,
            "dram_capacity": card.dram_capacity,
            "l2_capacity": card.l2_capacity,
            "tdp": card.tdp,
        }
        for card in cards
    ]
    if json:
        print_json({"skus": rows})
        return
    body = [
        [
            row["name"],
            row["generation"],
            f"{row['sm_count']:g}",
            "-" if row["peak_bf16_flops"] is None else engineering(row["peak_bf16_flops"], "FLOP/s"),
            engineering(row["dram_bandwidth"], "B/s"),
            engineering(row["dram_capacity"], "B"),
            engineering(row["l2_capacity"], "B"),
            f"{row['tdp']:g} W",
        ]
        for row in rows
    ]
    columns = ["GPU", "generation", "SMs", "BF16 dense", "DRAM", "capacity", "L2", "TDP"]
    console().print(table("GPUs", columns, body, text=2))


def show_card(name: NameArgument, json: JsonOption = False) -> None:
    """Every number of a card with its unit and source."""
    import factorgraph as fg

    card = fg.load_sku(name)
    facts = [
        {"field": field, "value": fact.value, "unit": fact.unit, "source": fact.source, "verified": fact.verified}
        for field, fact in {**card.facts, **card.architecture.facts}.items()
    ]
    if json:
        print_json({"name": card.name, "title": card.title, "generation": card.generation, "facts": facts})
        return
    body = [
        [
            fact["field"],
            _number(fact["value"], fact["unit"]),
            fact["source"] + ("" if fact["verified"] else " (unread)"),
        ]
        for fact in facts
    ]
    console().print(table(f"{card.title} ({card.architecture.title})", ["number", "value", "source"], body, text=3))


def check_cards(
    name: Annotated[str | None, typer.Argument(help="One GPU; all of them if left out.")] = None,
    json: JsonOption = False,
) -> None:
    """Multiply countable units out against printed peaks, and list what sources disagree on or nobody read."""
    import factorgraph as fg

    findings = [finding for one in ([name] if name else fg.list_skus()) for finding in fg.load_sku(one).check()]
    if json:
        fields = ("sku", "kind", "field", "value", "other", "ratio", "unit", "source", "note")
        rows = [{field: getattr(finding, field) for field in fields} for finding in findings]
        print_json({"findings": [row | {"agrees": f.agrees} for row, f in zip(rows, findings, strict=True)]})
        return
    screen = console()
    titles = {
        "peak": "Countable units against printed peaks",
        "disagreement": "Sources that disagree",
        "unverified": "Numbers that nobody read in their source",
    }
    for kind, title in titles.items():
        body = [
            [
                finding.sku,
                finding.field,
                _number(finding.value, finding.unit),
                "-" if finding.other is None else _number(finding.other, finding.unit),
                "-" if finding.ratio is None else f"{finding.ratio:.3f}" + ("" if finding.agrees else " !"),
                finding.source,
            ]
            for finding in findings
            if finding.kind == kind
        ]
        if body:
            other = {"peak": "printed", "disagreement": "other", "unverified": "other"}[kind]
            screen.print(table(title, ["GPU", "number", "card", other, "ratio", "source"], body, text=2))
            screen.print()


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


def _number(value: float, unit: str) -> str:
    return f"{value:g}" if unit == "1" else engineering(value, unit)
