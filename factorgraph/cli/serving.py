"""serve: TTFT, TPOT and throughput of a loaded engine; and the tables of `evaluate --kind serving`."""

from typing import Any

import xarray as xr

from factorgraph.cli.render import console, print_json, table


def show_evaluation(dataset: xr.Dataset, *, protocol: str, sku: str | None, json: bool) -> None:
    """Errors against measured serving, as tables or JSON."""
    from factorgraph.serving_evaluation import evaluate_serving

    found = evaluate_serving(dataset, protocol=protocol, sku=sku)
    if json:
        print_json(found.as_dict())
        return
    screen = console()
    screen.print(groups_table(found.rows, f"Errors of served loads ({protocol} constants), in percent"))
    screen.print(overall_table(found.overall))
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


def groups_table(rows: list[dict[str, Any]], title: str):
    """Errors of each group, home and unseen told apart."""
    body = [
        [*(row[key] for key in _LABELS), row["set"], row["role"], *_measures(row), f"{row['tpot_bias']:+.1f}"]
        for row in sorted(rows, key=lambda row: row["set"])
    ]
    return table(title, [*_LABELS, "set", "role", "n", *_MEASURES.values(), "TPOT bias"], body, text=6)


def overall_table(overall: dict[str, dict[str, Any]]):
    body = [[name, *_measures(row)] for name, row in overall.items()]
    return table("Overall, in percent", ["set", "n", *_MEASURES.values()], body)


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
