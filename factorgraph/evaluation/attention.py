"""Errors on tables of measured attention kernels."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from factorgraph.evaluation.rows import Cases, Row, asked_skus, rows_of
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.observations import attention_cases, attention_values

# Upper ends of the ranges of attended keys that errors are reported for.
KEY_REGIMES = ((256.0, "keys <= 256"), (2048.0, "keys <= 2k"), (16384.0, "keys <= 16k"), (np.inf, "keys > 16k"))
_FEATURES = ("attn_batch", "q_len", "kv_len", "q_heads", "kv_heads", "head_dim")


def evaluate_attention(
    graph_of: Callable[[str], FactorGraph],
    dataset: xr.Dataset,
    *,
    home: Callable[[str], bool],
    sku: str | None = None,
    kv_dtype: str = "bf16",
    learn: bool = False,
) -> Iterator[Row]:
    """Errors of a graph's t_attention on measured attention tables, one row a GPU and engine.

    Args:
        graph_of: the graph that a GPU is scored on, by the GPU's name.
        dataset: of kind "attention": latency(sku, engine, case) in s, with the shapes along case.
        home: whether that graph's constants were fitted on the GPU.
        sku: one GPU only.
        kv_dtype: cases with this type of cache, and BF16 queries.
        learn: whether a random forest that learned the A100's times is scored beside.

    Raises:
        FactorGraphError: the dataset holds no measurement of that GPU, or no case of that type.
    """
    known = set(asked_skus(dataset, None))
    picked = attention_cases(dataset, kv_dtype)
    phase = "prefill" if (dataset["q_len"].values[picked] > 1).any() else "decode"
    values = attention_values(dataset, picked)

    def cases(name: str, engine: str) -> Cases | None:
        if name not in known:
            return None
        card = load_sku(name)
        graph = graph_of(name).subgraph("t_attention", "attention_flop")
        given = {key: value for key, value in values.items() if key in graph.variables}
        out = graph.predict(card, given, outputs=["t_attention", "attention_flop", "attention_bytes"])
        compute = out["attention_flop"].values / card.peak_flops("bf16")
        return Cases(
            predicted=out["t_attention"].values,
            measured=dataset["latency"].sel(sku=name, engine=engine).values[picked],
            roofline=np.maximum(compute, out["attention_bytes"].values / card.dram_bandwidth),
            features=np.stack([values[key] for key in _FEATURES], axis=-1),
            regime=values["kv_len"],
            regimes=KEY_REGIMES,
            labels={"phase": phase, "kv_dtype": kv_dtype},
        ).there()

    engines = [str(engine) for engine in dataset["engine"].values]
    yield from rows_of(cases, skus=asked_skus(dataset, sku), engines=engines, home=home, learn=learn)
