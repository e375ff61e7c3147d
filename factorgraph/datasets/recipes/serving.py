"""The bundled dataset serving."""

import dataclasses

from factorgraph.datasets.importers import Imported, import_file
from factorgraph.datasets.importers.aiconfigurator import tables_root
from factorgraph.datasets.recipes.tables import RELEASE


def build() -> Imported:
    """Every row of the sample of served loads."""
    imported = import_file(
        tables_root() / "silicon_sample.csv",
        "silicon-sample",
        facts={"title": "TTFT and TPOT of served loads on six GPUs, three engines"},
    )
    said = {
        "attribution": "derived from aiconfigurator-core, Copyright (c) NVIDIA CORPORATION & AFFILIATES",
        "release": f"aiconfigurator-core {RELEASE}, systems/silicon_sample.csv",
    }
    return dataclasses.replace(imported, dataset=imported.dataset.assign_attrs(said))
