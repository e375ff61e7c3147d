"""graph and check-law: look at the laws, and hold one to its physics."""

from typing import Annotated

import typer

from factorgraph.cli.render import console, print_json
from factorgraph.cli.selectors import JsonOption, VariantOption
from factorgraph.errors import FactorGraphError


def register(app: typer.Typer) -> None:
    app.command()(graph)
    app.command("check-law")(check_law)


def graph(
    variant: VariantOption = "per-kernel",
    format: Annotated[str, typer.Option("--format", help="mermaid, dot or text.")] = "text",
    json: JsonOption = False,
) -> None:
    """Draw the graph of laws that a step is predicted with."""
    import factorgraph as fg

    drawn = fg.step_graph(variant)
    if json:
        laws = [
            {"variable": f.output.name, "law": f.law_name, "reads": [v.name for v in f.inputs]} for f in drawn.factors
        ]
        print_json({"variant": variant, "inputs": list(drawn.input_names), "laws": laws})
        return
    typer.echo(drawn.draw(format))


def check_law(
    law: Annotated[str, typer.Argument(help="The law: package.module:Class or path/to/file.py:Class.")],
    json: JsonOption = False,
) -> None:
    """Hold a law to units, bounds, gradients, monotonicity and the other physics that laws must keep."""
    from factorgraph.testing import judge, load_law

    verdicts = judge(load_law(law))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if json:
        checks = [{"check": v.check, "passed": v.passed, "message": v.message} for v in verdicts]
        print_json({"law": law, "passed": not failed, "checks": checks})
    else:
        screen = console()
        for verdict in verdicts:
            mark = "[green]ok[/green]" if verdict.passed else "[red]failed[/red]"
            screen.print(f"{mark} {verdict.check}" + (f"\n{verdict.message}" if verdict.message else ""))
    if failed:
        raise FactorGraphError(
            f"law {law} fails {len(failed)} of {len(verdicts)} checks: {', '.join(v.check for v in failed)}"
        )
