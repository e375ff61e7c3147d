"""Measurements that cannot be: faster than the GPU could compute at its highest clock."""

from collections.abc import Mapping

import numpy as np

from factorgraph.hardware import Sku, list_skus, load_sku

IMPOSSIBLE = "is faster than the GPU's peak rate at its highest clock"
# Timers and printed clocks are good to about this much.
_TOLERANCE = 1.02
# The rate at which scaled and block-scaled types compute.
_RATE_OF = {"fp8_block": "fp8", "nvfp4": "fp4", "fp16": "bf16"}


def faster_than_possible(kind: str, values: Mapping[str, np.ndarray], facts: Mapping[str, str]) -> np.ndarray:
    """Which rows of GEMMs or attention imply more than the peak; none where the GPU or the type is not known.

    Args:
        kind: of the dataset.
        values: by field, for all rows; latency in s.
        facts: the card name `sku`, `dtype` and `kv_dtype`, unless they are among the values.

    Returns:
        One boolean a row.

    Examples:
        >>> one = {"m": np.array([8192.0]), "n": np.array([8192.0]), "k": np.array([8192.0])}
        >>> too_fast = one | {"latency": np.array([1e-6])}
        >>> faster_than_possible("gemm", too_fast, {"sku": "h100-sxm", "dtype": "bf16"})
        array([ True])
    """
    latency = values["latency"]
    found = np.zeros(len(latency), dtype=bool)
    if kind not in _WORK:
        return found
    labels = [values.get(name, np.full(len(latency), facts.get(name, ""))) for name in ("sku", "dtype", "kv_dtype")]
    labels = np.stack([column.astype(str) for column in labels])
    flop, known = _WORK[kind](values), list_skus()
    for sku, *dtypes in set(map(tuple, labels.T.tolist())):
        if sku not in known:
            continue
        # Attention on an FP8 cache may multiply in FP8 whatever the type of the queries.
        rates = [rate for dtype in dtypes if (rate := _highest_rate(load_sku(sku), dtype)) is not None]
        if rates:
            of_these = (labels == np.array([[sku], *([dtype] for dtype in dtypes)])).all(axis=0)
            found |= of_these & (flop > _TOLERANCE * max(rates) * latency)
    return found


def _highest_rate(card: Sku, dtype: str) -> float | None:
    rate = _RATE_OF.get(dtype, dtype)
    if rate not in card.flop_per_clock_per_sm:
        return None
    return card.peak_flops(rate) * max(card.max_clock / card.boost_clock, 1.0)


def _gemm_flop(values: Mapping[str, np.ndarray]) -> np.ndarray:
    return 2.0 * values["m"] * values["n"] * values["k"]


def _attention_flop(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The least that causal attention with a window must do."""
    q, kv = values["q_len"], values["kv_len"]
    window = values.get("window", np.zeros_like(kv))
    reach = np.where(window > 0, np.minimum(window, kv), kv)
    # New tokens see all earlier ones up to the window; the first of a prompt see fewer.
    ramp = np.minimum(np.maximum(reach - (kv - q), 0.0), q)
    pairs = q * reach - ramp * (ramp - 1.0) / 2.0
    return 4.0 * values["batch"] * values["q_heads"] * values["head_dim"] * np.maximum(pairs, 0.0)


_WORK = {"gemm": _gemm_flop, "attention": _attention_flop}
