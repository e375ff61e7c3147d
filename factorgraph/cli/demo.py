"""demo: the main job on one screen. Predict, explain, differentiate, and compare with real measurements."""

from pathlib import Path
from typing import Annotated

import typer

from factorgraph.cli.render import console

SKUS = ("h100-sxm", "h200-sxm", "l40s", "b200")
MODEL, BATCH, CONTEXT = "llama-3.1-8b", 64, 2048
SHOWN = "h100-sxm"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for figures and results.")] = Path("results/demo"),
) -> None:
    """Predict Llama-3.1-8B on four GPUs, say where the time goes, and compare the laws with measured kernels."""
    import factorgraph as fg
    from factorgraph import plotting, results
    from factorgraph.attribution import waterfall
    from factorgraph.cli import evaluating, predicting
    from factorgraph.evaluation import evaluate_gemm
    from factorgraph.sensitivity import sensitivity
    from factorgraph.step import fitted_on

    screen = console()
    graph, model = fg.step_graph(), fg.load_model(MODEL)
    cards = [fg.load_sku(name) for name in SKUS]
    steps = {
        "decode": model.decode(batch=BATCH, context=CONTEXT),
        "prefill": model.prefill(batch=BATCH, prompt=CONTEXT),
    }
    written = []
    for phase, step in steps.items():
        prediction = fg.predict(graph, cards, step)
        written.append(results.write(prediction, out / f"{phase}.nc"))
        for card in cards:
            one = prediction.sel(sku=card.name)
            inputs = {"model": MODEL, "phase": phase, "sku": card.name, "batch": BATCH, "context": CONTEXT}
            document = predicting.prediction_document(one, {**inputs, "tp": 1, "weights": "bf16"})
            screen.print(predicting.headline(document))
            if card.name == SHOWN:
                screen.print(predicting.kernels_table(document["kernels"], f"\nWhere the time goes, {card.title}"))
                screen.print()
        screen.print()

    falls = waterfall(graph, cards, steps["prefill"])
    gemm = "gate_up_proj"
    screen.print(
        predicting.falls_table(falls.sel(gemm=gemm), f"Loss waterfall of {gemm} in prefill, points of peak", "sku")
    )
    written += plotting.save(plotting.waterfall(falls.sel(sku=SHOWN), gemm=gemm), out / "waterfall")
    written += plotting.save(plotting.pull_down(falls, gemm=gemm), out / "pull-down")

    for phase, step in steps.items():
        slopes = sensitivity(graph, cards, step, wrt=["sm_clock", "power_cap", "working_set"])
        screen.print()
        screen.print(predicting.slopes_table(slopes, f"What moves t_step of {phase}, batch {BATCH}, context {CONTEXT}"))
        written += plotting.save(plotting.elasticity_map(slopes), out / f"elasticities-{phase}")
    screen.print("A working set of all weights is cold in every L2, so no small change of it matters.")

    screen.print()
    rows = [
        row.as_dict()
        for row in evaluate_gemm(
            lambda _: graph, fg.load_dataset("gemm-bf16"), home=fitted_on("per-kernel").__contains__
        )
    ]
    screen.print(evaluating.errors_table(rows, "The same laws against measured bf16 GEMMs: errors in percent"))
    screen.print("\nWritten: " + ", ".join(str(path) for path in written))
