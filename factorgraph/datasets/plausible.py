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
        facts: with the card name `sku`, and `dtype` unless that is among the values.

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
    if kind not in _WORK or facts.get("sku") not in list_skus():
        return found
    card, flop = load_sku(facts["sku"]), _WORK[kind](values)
    dtypes = values["dtype"] if "dtype" in values else np.full(len(latency), facts.get("dtype", ""), dtype=object)
    # Attention on an FP8 cache may multiply in FP8 whatever the type of the queries.
    others = values.get("kv_dtype", dtypes)
    for dtype, other in set(zip(dtypes, others, strict=True)):
        rates = [rate for name in (dtype, other) if (rate := _highest_rate(card, name)) is not None]
        if rates:
            of_these = (dtypes == dtype) & (others == other)
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
