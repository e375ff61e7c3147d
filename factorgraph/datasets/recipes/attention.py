"""Attention tables of one phase."""

import dataclasses

import numpy as np

from factorgraph.datasets.importers import Imported
from factorgraph.datasets.recipes.tables import gather

# The collectors run the same tensors again and again, which stay in L2 where they fit.
_CACHE_STATE = "warm"


def build(table: str, title: str) -> Imported:
    """Latency over (sku, engine, case) of all rows of the vLLM tables."""
    sizes = ("q_heads", "kv_heads", "head_dim", "window", "batch", "q_len", "kv_len")
    imported = gather(
        "attention",
        table,
        keep=lambda rows: rows["latency"] > 0,
        labels={"dtype": str, "kv_dtype": str} | dict.fromkeys(sizes, np.int32),
        case="case",
        engines=("vllm",),
    )
    said = {"kind": "attention", "title": title, "cache_state": _CACHE_STATE, "operand_values": "unknown"}
    return dataclasses.replace(imported, dataset=imported.dataset.assign_attrs(said))
