"""GEMM tables of one number type."""

import dataclasses

import numpy as np

from factorgraph.datasets.importers import Imported
from factorgraph.datasets.recipes.tables import ENGINES, SKUS, gather

# The vLLM collector cycles six copies of a weight that it never fills; the others fill theirs with random numbers.
_CACHE_STATE = ("rotating", "unknown", "unknown")
_CACHE_COPIES = (6, 0, 0)
_OPERAND_VALUES = ("unset", "random", "random")


def build(dtype: str, title: str, skus: tuple[str, ...] = SKUS) -> Imported:
    """Latency over (sku, engine, shape) of the tables' rows of one type."""
    imported = gather(
        "gemm",
        "gemm",
        keep=lambda rows: rows["dtype"] == dtype,
        labels={"m": np.int32, "n": np.int32, "k": np.int32},
        case="shape",
        skus=skus,
    )
    assert tuple(imported.dataset["engine"].values) == ENGINES
    dataset = imported.dataset.assign_coords(
        cache_state=("engine", list(_CACHE_STATE)),
        cache_copies=("engine", list(_CACHE_COPIES), {"units": "1"}),
        operand_values=("engine", list(_OPERAND_VALUES)),
    ).assign_attrs(kind="gemm", title=title, dtype=dtype)
    return dataclasses.replace(imported, dataset=dataset)
