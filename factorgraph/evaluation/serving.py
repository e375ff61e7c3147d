"""How far predicted serving is from measured serving: errors by group, ranking of configurations, and the noise."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import kendalltau

from factorgraph.metrics import errors
from factorgraph.serving.graph import engine_step_graph, fitted, serving_graph
from factorgraph.serving.loads import evaluate, prepare
from factorgraph.serving.protocol import CALIBRATION, constants_for, is_calibration, with_values
from factorgraph.serving.rows import GROUP, Frame, Rows, serving_rows

# Configurations under one load, below which their order says little.
_LEAST_TO_RANK = 4
_NAMES = dict(zip(GROUP, ("system", "engine", "model", "precision"), strict=True))
_CONFIGURATION = [*GROUP, "input_len", "output_len", "concurrency", "tp_size", "moe_tp_size", "moe_ep_size"]
_LOAD = ["key", "input_len", "output_len", "concurrency"]


@dataclasses.dataclass(frozen=True)
class ServingEvaluation:
    """Errors of the closed form on measured rows. Percentages, save where a unit is in the name.

    Attributes:
        table: the scored rows with predictions `p_tpot`, `p_ttft`, `p_t_request` (s), `regime` and `role`; and in
            `calibrated_tpot` what constants of the host give that were calibrated on one H100 and one model of the
            engine, on all rows but those.
        rows: errors of each system x engine x model x precision, with `set` and `role`.
        overall: errors of all dense rows of the three GPUs, of all mixtures of experts, and of the rest.
        calibrated: errors of TPOT with a calibrated host, by the same sets.
        regimes: errors by what binds a row.
        ranking: how well configurations are ordered.
        noise: how far rows with one label lie from their mean.
        excluded: rows left out, by reason.
    """

    table: Frame
    rows: list[dict[str, Any]]
    overall: dict[str, dict[str, Any]]
    calibrated: dict[str, dict[str, Any]]
    regimes: list[dict[str, Any]]
    ranking: dict[str, dict[str, Any]]
    noise: dict[str, dict[str, Any]]
    excluded: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """What `factorgraph evaluate --kind serving --json` prints."""
        names = ("rows", "overall", "calibrated", "excluded", "regimes", "ranking", "noise")
        return {"kind": "serving"} | {name: getattr(self, name) for name in names}

    def worst(self, count: int = 3) -> list[dict[str, Any]]:
        """The dense groups of more than one row with the largest errors of TPOT."""
        dense = [row for row in self.rows if row["set"] == "dense" and row["n"] > 1]
        return sorted(dense, key=lambda row: -row["tpot_mape"])[:count]


def evaluate_serving(
    dataset: xr.Dataset, *, protocol: str = "home", sku: str | None = None, rows: Rows | None = None
) -> ServingEvaluation:
    """Score the closed form of serving on measured rows.

    Args:
        dataset: such as `load_dataset("serving")`.
        protocol: the constants' home: "home" (H100), "pooled" (H100, H200, B200) or "logo" (each of these scored on
            constants that never saw it).
        sku: rows of one GPU only.
        rows: the dataset's rows, if they are already sorted out.

    Raises:
        UnknownNameError: no such protocol or GPU.
        FactorGraphError: no row is left.
    """
    rows = rows or serving_rows(dataset, sku=sku)
    step_graph, loop_graph = engine_step_graph(constants=None), serving_graph(constants=None)
    ready = prepare(step_graph, loop_graph, rows.loads)
    starts = np.cumsum([0, *(len(load.requests) for load in rows.loads)])
    table = rows.table.assign(calibrated_tpot=np.nan)
    index = starts[table["load"].astype(int)] + table["case"].astype(int).to_numpy()
    fits = [constants_for(protocol, name) for name in table["sku"]]
    for name in dict.fromkeys(fits):
        here = np.flatnonzero(np.asarray(fits) == name)
        graphs = with_values(step_graph, loop_graph, fitted()["fits"][name]["constants"])
        out = {key: np.asarray(value, float)[index[here]] for key, value in evaluate(*graphs, ready).items()}
        out["t_request"] = out["ttft"] + table["output_len"].to_numpy(float)[here] * out["tpot"]
        for key in ("tpot", "ttft", "t_request"):
            table.loc[table.index[here], f"p_{key}"] = out[key]
        table.loc[table.index[here], "regime"] = _regimes(out)
        seen = table["sku"].isin(fitted()["fits"][name]["home"]) & (table["set"] == "dense")
        table.loc[table.index[here], "role"] = np.where(seen.to_numpy()[here], "home", "unseen")
    for engine in CALIBRATION:
        graphs = with_values(step_graph, loop_graph, fitted()["fits"][f"calibrated {engine}"]["constants"])
        mine = (table["engine"] == engine).to_numpy() & ~is_calibration(table, engine)
        if mine.any():
            calibrated = np.asarray(evaluate(*graphs, ready)["tpot"], float)
            table.loc[table.index[mine], "calibrated_tpot"] = calibrated[index[mine]]
    return ServingEvaluation(
        table=table,
        rows=[_group(key, rows) for key, rows in table.groupby([*GROUP, "set", "role"])],
        overall={name: _measures(rows) for name, rows in table.groupby("set")},
        calibrated={name: _calibrated(rows) for name, rows in table.groupby("set")},
        regimes=[
            {"set": name, "regime": regime, **_measures(rows)}
            for (name, regime), rows in table.groupby(["set", "regime"])
        ],
        ranking={name: _ranking(rows) for name, rows in table.groupby("set")},
        noise={name: _noise(rows) for name, rows in table.groupby("set")},
        excluded=rows.excluded,
    )


def _regimes(out: dict[str, np.ndarray]) -> np.ndarray:
    """Queueing where not all requests run; else by the share of TPOT that the prefills of others take."""
    prefill = 1.0 - out["t_decode"] / out["tpot"]
    names = np.where(prefill < 0.1, "decode", np.where(prefill < 0.4, "mixed", "prefill"))
    return np.where(out["running"] < 0.999 * out["requests"], "queueing", names)


def _group(key: tuple[str, ...], rows: Frame) -> dict[str, Any]:
    *group, where, role = key
    labels = dict(zip(_NAMES.values(), group, strict=True))
    bias = errors(rows["p_tpot"], rows["tpot"]).bias
    return labels | _measures(rows) | {"tpot_bias": bias, "set": where, "role": role} | _calibrated(rows)


def _measures(rows: Frame) -> dict[str, Any]:
    tpot, ttft, request = (errors(rows[f"p_{name}"], rows[name]) for name in ("tpot", "ttft", "t_request"))
    return {
        "n": len(rows),
        "tpot_mape": tpot.mape,
        "tpot_median": tpot.median,
        "ttft_mape": ttft.mape,
        "ttft_median": ttft.median,
        "request_mape": request.mape,
    }


def _calibrated(rows: Frame) -> dict[str, Any]:
    """Errors of TPOT with a calibrated host, on the rows that it was not calibrated on; None where all were."""
    others = rows[rows["calibrated_tpot"].notna()]
    mape = errors(others["calibrated_tpot"], others["tpot"]).mape if len(others) else None
    return {"calibrated_n": len(others), "calibrated_tpot_mape": mape}


def _ranking(rows: Frame) -> dict[str, Any]:
    """Under each load on a model: Kendall's tau over configurations, and whether the best is found.

    Best is least TPOT, and most output tokens a second and GPU.
    """
    found: dict[str, list[tuple[float, bool]]] = {"tpot": [], "cost": []}
    for _, load in rows.groupby(_LOAD):
        if len(load) < _LEAST_TO_RANK:
            continue
        for name, factor, of in (("tpot", 1.0, "tpot"), ("cost", load["gpus"], "t_request")):
            measured, predicted = (load[of] * factor).to_numpy(), (load[f"p_{of}"] * factor).to_numpy()
            if np.ptp(measured) > 0:
                tau: Any = kendalltau(measured, predicted)[0]
                found[name].append((float(tau), bool(np.argmin(measured) == np.argmin(predicted))))
    return {
        name: {
            "loads": len(pairs),
            "kendall_tau": float(np.mean([tau for tau, _ in pairs])) if pairs else None,
            "top1_agreement": float(np.mean([hit for _, hit in pairs])) if pairs else None,
        }
        for name, pairs in found.items()
    }


def _noise(rows: Frame) -> dict[str, Any]:
    """Rows whose labels are the same, and whose values are not: their distance from the label's geometric mean."""
    repeated = rows[rows.duplicated(_CONFIGURATION, keep=False)]
    if repeated.empty:
        return {"rows": 0, "labels": 0, "tpot_mape": None, "tpot_median": None}
    centre = np.exp(np.log(repeated["tpot"]).groupby([repeated[name] for name in _CONFIGURATION]).transform("mean"))
    distance = 100.0 * (repeated["tpot"] / centre - 1.0).abs()
    labels = repeated.groupby(_CONFIGURATION).ngroups
    return {
        "rows": len(repeated),
        "labels": labels,
        "tpot_mape": float(distance.mean()),
        "tpot_median": float(distance.median()),
    }
