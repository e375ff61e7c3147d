"""The bundled dataset allreduce."""

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.datasets.importers import Imported, import_file
from factorgraph.datasets.recipes.tables import ENGINES, FACTS, RELEASE, SKUS, newest


def build() -> Imported:
    """All-reduce by each engine's own kernels and by NCCL, newest table of each GPU."""
    parts, rejected = [], []
    for sku in SKUS:
        for engine, table in [*((engine, "custom_allreduce") for engine in ENGINES), ("nccl", "nccl")]:
            if (file := newest(sku, "comm", engine, table)) is None:
                continue
            imported = import_file(file, "aiconfigurator")
            rows = imported.dataset.isel(row=np.flatnonzero(imported.dataset["operation"] == "all_reduce"))
            said = {"sku": sku, "engine": engine, "engine_version": file.parent.name}
            parts.append(
                rows.drop_attrs(deep=False).assign_coords(
                    {name: ("row", np.full(rows.sizes["row"], word)) for name, word in said.items()}
                )
            )
            rejected.append(imported.rejected.assign(sku=sku, engine=engine))
    dataset = xr.concat(parts, "row", coords="minimal", compat="override", join="override")
    return Imported(
        dataset.assign_attrs(
            FACTS,
            kind="collective",
            title="All-reduce latency, nine GPUs, three engines and NCCL",
            cache_state="unknown",
            operand_values="unknown",
            source=f"aiconfigurator-core {RELEASE}, systems/data/<system>/comm/<engine>/<version>",
        ),
        pd.concat(rejected, ignore_index=True),
    )
