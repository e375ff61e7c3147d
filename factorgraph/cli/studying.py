"""study: ask the bundled questions, and trace the answers."""

from pathlib import Path
from typing import Annotated

import typer

from factorgraph.cli.render import console, print_json, table
from factorgraph.cli.selectors import JsonOption
from factorgraph.errors import FactorGraphError

FolderOption = Annotated[Path, typer.Option("--out", help="Folder of results.")]
_RESULTS = Path("results/studies")


def register(app: typer.Typer) -> None:
    study = typer.Typer(help="Studies: questions asked of graph and data, each number traced.", no_args_is_help=True)
    study.command("list")(list_all)
    study.command("run")(run)
    study.command("report")(report)
    app.add_typer(study, name="study")


def list_all(json: JsonOption = False) -> None:
    """All studies on the search path."""
    from factorgraph.studies import list_studies

    rows = [{"id": s.id, "question": s.question, "datasets": list(s.datasets)} for s in list_studies()]
    if json:
        print_json({"studies": rows})
        return
    body = [[row["id"], row["question"], ", ".join(row["datasets"])] for row in rows]
    console().print(table("Studies", ["study", "question", "datasets"], body, text=3))


def run(
    ids: Annotated[list[str] | None, typer.Argument(help="Which studies; all by default.")] = None,
    out: FolderOption = _RESULTS,
    json: JsonOption = False,
) -> None:
    """Run studies and write their results and traced numbers; one that fails does not stop the others."""
    from factorgraph.studies import describe, run_studies

    screen, documents, failed = console(), [], []
    for study, findings in run_studies(tuple(ids or ()), out):
        if isinstance(findings, FactorGraphError):
            failed.append(f"{study.id}: {findings}")
            continue
        document = describe(study, findings)
        documents.append(document)
        if not json:
            screen.print(f"[bold]{study.id}[/bold] {study.question}\n{findings.verdict}")
            rows = [[n.name, f"{n.value:.4g} {n.unit}", n.reported] for n in findings.numbers]
            screen.print(table("", ["number", "value", "report"], rows))
    if json:
        print_json({"studies": documents, "failed": failed})
    if failed:
        raise FactorGraphError("; ".join(failed))


def report(out: FolderOption = _RESULTS, json: JsonOption = False) -> None:
    """Gather the results of a folder into one Markdown report."""
    from factorgraph import studies

    text = studies.report(out)
    file = out / "report.md"
    file.write_text(text, encoding="utf-8")
    if json:
        print_json({"file": str(file)})
    else:
        typer.echo(f"written to {file}")
