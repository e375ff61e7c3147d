"""The served loads that aiconfigurator-core ships for comparison, `systems/silicon_sample.csv`: TTFT and TPOT in ms."""

from pathlib import Path

import numpy as np
import pandas as pd

from factorgraph.datasets.importers.aiconfigurator import SYSTEMS
from factorgraph.datasets.importers.reading import read_table
from factorgraph.datasets.importers.rows import Imported, Rows
from factorgraph.datasets.schema import UNKNOWN

# Sizes of the deployment; those of the other mode (aggregated or disaggregated) are empty.
_SIZES = ("batch_size", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_WORKERS = ("batch_size", "num_workers", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_DEPLOYMENT = _SIZES + tuple(f"{phase}_{size}" for phase in ("prefill", "decode") for size in _WORKERS)
_LABELS = ("id", "mode", "gemm_quant_mode", "moe_quant_mode")


def read(source: Path, facts: dict[str, str]) -> Imported:
    """The serving measurements of aiconfigurator-core, silicon_sample.csv.

    `concurrency` is the file's batch size, or what its source column says where that is empty (disaggregated rows).
    `repeats_earlier` is 1 where an earlier row has the same deployment, load and results. Sizes are 0 where not given.
    """
    rows = Rows.of_table(read_table(source), source)
    rows.require("model_path", "system", "backend", "isl", "osl", "silicon_ttft_ms", "silicon_tpot_ms")
    frame = rows.frame
    given = frame["silicon_data_source"] if "silicon_data_source" in frame else pd.Series("", index=frame.index)
    stated = pd.to_numeric(given.str.extract(r"silicon_concurrency=(\d{1,9})(?!\d)", expand=False), errors="coerce")
    sizes = {name: rows.numbers(name, whole=True, zero=True, optional=True) for name in _DEPLOYMENT if name in frame}
    batch = sizes.get("batch_size", np.full(len(frame), np.nan))
    concurrency = np.where(np.isnan(batch), np.asarray(stated, dtype=float), batch)
    measured = given.str.extract(r"measured=(\d{4}-\d{2}-\d{2})", expand=False).fillna(UNKNOWN)
    system = rows.text("system")
    rows.reject(~np.isin(system, list(SYSTEMS)), "system is none that is known")
    same = [name for name in frame if name not in ("id", "silicon_data_source")]
    values = {
        "sku": np.array([SYSTEMS.get(name, UNKNOWN) for name in system], dtype=object),
        "engine": rows.text("backend"),
        "model": rows.text("model_path"),
        "input_len": rows.numbers("isl", whole=True),
        "output_len": rows.numbers("osl", whole=True),
        "ttft": rows.numbers("silicon_ttft_ms", "ms", "s"),
        "tpot": rows.numbers("silicon_tpot_ms", "ms", "s"),
        "concurrency": np.nan_to_num(concurrency),
        "date": np.asarray(measured, dtype=object),
        "source": np.asarray(given.where(given != "", source.name), dtype=object),
        "repeats_earlier": np.asarray(frame.duplicated(same), dtype=float),
    }
    values |= {name: np.nan_to_num(size) for name, size in sizes.items()}
    values |= {name: rows.text(name, absent=UNKNOWN) for name in _LABELS if name in frame}
    for fact, column in {"engine_version": "backend_version", "dtype": "precision"}.items():
        if column in frame:
            values[fact] = rows.text(column, absent=UNKNOWN)
    said = {"statistic": "as tabulated by the source", "licence": "Apache-2.0"}
    return rows.finish("serving", values, said | facts, title="Served loads measured on GPUs")
