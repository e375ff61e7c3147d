"""sku: GPUs, and whether the numbers on their cards fit."""

from pathlib import Path
from typing import Annotated

import typer

from factorgraph.cli.render import console, engineering, print_json, table
from factorgraph.cli.selectors import JsonOption

NameArgument = Annotated[str, typer.Argument(help="A name from `list`, or a path.")]


def register(app: typer.Typer) -> None:
    sku = typer.Typer(help="GPUs: their cards, and whether the numbers on them fit.", no_args_is_help=True)
    sku.command("list")(list_cards)
    sku.command("show")(show_card)
    sku.command("check")(check_cards)
    sku.command("from-machine")(card_of_machine)
    app.add_typer(sku, name="sku")


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


def card_of_machine(
    out: Annotated[
        Path | None, typer.Option("--out", help="The card to write (.toml); shown only if left out.")
    ] = None,
    bandwidth: Annotated[
        Path | None, typer.Option("--bandwidth", help="From `measure bandwidth`; measured now if left out.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """A card of the CPU that this runs on, with where each number is from."""
    import dataclasses

    from factorgraph.measuring import card_facts, card_text, cpu_model, write_card

    facts, title = card_facts(bandwidth), cpu_model()
    if out is not None:
        write_card(out, facts, title)
    if json:
        file = None if out is None else str(out)
        print_json({"file": file, "title": title, "facts": {k: dataclasses.asdict(fact) for k, fact in facts.items()}})
    elif out is None:
        typer.echo(card_text(facts, title), nl=False)
    else:
        console().print(f"{out}: a card of {title}; look at it with `factorgraph sku show {out}`")


def _number(value: float, unit: str) -> str:
    return f"{value:g}" if unit == "1" else engineering(value, unit)
