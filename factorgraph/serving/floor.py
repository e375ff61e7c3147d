"""The least time that a request can take: the best kernels ever measured, and nothing else."""

from typing import Any

import numpy as np

from factorgraph.serving.loads import Load
from factorgraph.workload.feedforward import touched_experts
from factorgraph.workload.hybrid import GatedHybridAttention
from factorgraph.workload.kernels import TENSOR_TYPES, Projection

# About the 95th percentile of the share of peak in the GEMM tables of aiconfigurator-core 0.12.0, m, n, k >= 4096.
_BEST_SHARE = {"bf16": 0.80, "fp8": 0.70, "fp4": 0.62}


def floor_times(load: Load) -> np.ndarray:
    """Seconds, a case each, below which a request cannot end: all prompts prefilled while it decodes.

    requests * [prompt GEMM FLOP at the best share of peak + attention FLOP at the BF16 peak + all-reduced bytes at the
    link's peak] + output_tokens * [weights touched + cache of all requests, at the printed DRAM bandwidth]. No launch,
    host, light kernel or queue.
    """
    one = load.deployment
    sku, model, tp = one.sku, one.model, one.tp
    parts = [part for part in model.projections(tp) if part.rows in ("token", "routed", "prefilled")]
    narrowest = max((one.format_of(part).dtype for part in parts), key=TENSOR_TYPES.index)
    rate = _BEST_SHARE[narrowest] * sku.peak_flops(narrowest)
    flop = 2.0 * sum(part.n * part.k * part.used * part.layers for part in parts)
    attention = model.attention
    layers = attention.full_layers if isinstance(attention, GatedHybridAttention) else model.layers
    heads = attention.prefill_heads(tp, 2.0)
    window = model.sliding_window or np.inf
    full, sliding = (layers - model.sliding_layers), model.sliding_layers
    pairs = full * load.input_square / 2 + sliding * np.minimum(load.input_square / 2, load.input_tokens * window)
    scored = pairs * 2.0 * heads.q_heads * (heads.head_dim + heads.v_head_dim) / sku.peak_flops("bf16")
    reduced = 4.0 * model.layers * (tp - 1) / tp * 2.0 * load.input_tokens * model.hidden_size
    link = sku.nvlink_bandwidth or sku.pcie_bandwidth
    prompts = load.requests * (load.input_tokens * flop / rate + scored + reduced / link)

    requests: Any = load.requests

    def touched(part: Projection) -> Any:
        if part.rows != "routed":
            return 1.0
        return touched_experts(int(part.copies), int(part.used), requests)

    weights = sum(part.n * part.k * part.layers * one.format_of(part).weight_size * touched(part) for part in parts)
    per_layer = one.kv_bytes_per_token / layers
    cached = per_layer * (full * load.context + sliding * np.minimum(load.context, window))
    return prompts + load.output_tokens * (weights + load.requests * cached) / sku.dram_bandwidth
