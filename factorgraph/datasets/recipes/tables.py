"""Many tables of aiconfigurator-core as one labelled array: a row of GPUs, a row of engines, a row of cases."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.datasets.importers import Imported, import_file
from factorgraph.datasets.importers.aiconfigurator import SYSTEMS, tables_root

RELEASE = "0.12.0"
# In the order of their generations.
SKUS = (
    "a100-sxm4-80gb",
    "h100-sxm",
    "h200-sxm",
    "l40s",
    "rtx-pro-6000-server",
    "b200",
    "gb200",
    "b300",
    "gb300",
)
ENGINES = ("vllm", "trtllm", "sglang")
FACTS = {
    "licence": "Apache-2.0",
    "attribution": "derived from aiconfigurator-core, Copyright (c) NVIDIA CORPORATION & AFFILIATES",
    "clock_state": "unknown",
    "power_state": "unknown",
    "statistic": "as tabulated by the source",
    "date": "unknown",
}
_MEASURED_AGAIN = "has the same labels as an earlier row, which is kept"
_FROM = {ours: theirs for theirs, ours in SYSTEMS.items()}


def newest(sku: str, operation: str, engine: str, table: str) -> Path | None:
    """The table of the highest version, or None where there is none."""
    folder = tables_root() / "data" / _FROM[sku] / operation / engine
    files = folder.glob(f"*/{table}_perf.parquet")
    return max(files, key=lambda file: [int(n) for n in re.findall(r"\d+", file.parent.name)], default=None)


def gather(
    operation: str,
    table: str,
    *,
    keep: Callable[[xr.Dataset], xr.DataArray],
    labels: Mapping[str, type],
    case: str,
    engines: Sequence[str] = ENGINES,
    skus: Sequence[str] = SKUS,
) -> Imported:
    """Import the newest table of every GPU and engine and lay the latencies out over (sku, engine, case).

    Args:
        operation: the folder, such as "gemm".
        table: the file's name without "_perf.parquet".
        keep: which rows of an imported table are wanted.
        labels: what tells cases apart, and the type it is stored as.
        case: the name of the third dimension.
        engines, skus: the first two.
    """
    tables, rejected = [], []
    versions = np.full((len(skus), len(engines)), "", dtype=object)
    kernels = versions.copy()
    for i, sku in enumerate(skus):
        for j, engine in enumerate(engines):
            file = newest(sku, operation, engine, table)
            if file is None:
                continue
            imported = import_file(file, "aiconfigurator")
            rows = imported.dataset.isel(row=keep(imported.dataset).to_numpy())
            if rows.sizes["row"] == 0:
                continue
            versions[i, j] = file.parent.name
            kernels[i, j] = ", ".join(sorted(set(rows["kernel_source"].values)))
            tables.append(pd.DataFrame({name: rows[name].values for name in [*labels, "latency"]} | {"i": i, "j": j}))
            rejected.append(imported.rejected.assign(sku=sku, engine=engine))
    rows = pd.concat(tables, ignore_index=True)
    again = rows.duplicated(["i", "j", *labels])
    repeats = rows[again].assign(
        reason=_MEASURED_AGAIN, sku=np.array(skus)[rows.i[again]], engine=np.array(engines)[rows.j[again]]
    )
    rejected = pd.concat([*rejected, repeats.drop(columns=["i", "j"])], ignore_index=True)
    rows = rows[~again]
    by_case = rows.groupby(list(labels), sort=True)
    place = by_case.ngroup().to_numpy()
    cases = by_case.size().index.to_frame(index=False)
    latency = np.full((len(skus), len(engines), len(cases)), np.nan, np.float32)
    latency[rows["i"], rows["j"], place] = rows["latency"]
    dims = ("sku", "engine", case)
    coords: dict[str, Any] = {"sku": list(skus), "engine": list(engines)}
    for name, stored in labels.items():
        values = cases[name].to_numpy().astype(stored)
        coords[name] = (case, values, {} if values.dtype.kind == "U" else {"units": "1"})
    source = f"aiconfigurator-core {RELEASE}, systems/data/<system>/{operation}/<engine>/<version>/{table}_perf.parquet"
    dataset = xr.Dataset(
        {"latency": (dims, latency, {"units": "s", "long_name": "time of one run"})},
        coords
        | {
            "engine_version": (dims[:2], np.where(versions == "", "none", versions).astype(str)),
            "kernel_source": (dims[:2], np.where(kernels == "", "none", kernels).astype(str)),
        },
        FACTS | {"source": source},
    )
    return Imported(dataset, rejected)
