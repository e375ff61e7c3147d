"""Attention kernels: the matrix products and exponentials of scores, and the bytes of the KV cache."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import smooth_max
from factorgraph.variables import (
    AttentionBytes,
    AttentionFlop,
    AttnBatch,
    Bf16FlopPerClock,
    Causal,
    DramBandwidth,
    HeadDim,
    KvLen,
    KvTokenBytes,
    QHeads,
    QLen,
    SmClock,
    SmCount,
    TAttention,
    VHeadDim,
)

_DESIGN = "attention tables of aiconfigurator-core 0.12.0, A100 and H100 (design section 5)"


def scores(attn_batch: Array, q_len: Array, kv_len: Array, q_heads: Array, causal: Array) -> Array:
    """Query-key pairs that are computed: all of them, less the upper triangle where queries see only earlier keys.

    Examples:
        >>> float(scores(1.0, 4.0, 4.0, 1.0, 1.0))
        10.0
    """
    unseen = causal * 0.5 * (jnp.minimum(q_len, kv_len) - 1.0)
    return attn_batch * q_heads * q_len * jnp.maximum(kv_len - unseen, 1.0)


class AttentionWork(Factor):
    """Floating-point operations: attention_flop = 2 (head_dim + v_head_dim) for each query-key pair."""

    literals = ("FLOP",)
    monotone = {"attn_batch": +1, "kv_len": +1, "q_heads": +1, "head_dim": +1}

    def __call__(
        self,
        attn_batch: AttnBatch,
        q_len: QLen,
        kv_len: KvLen,
        q_heads: QHeads,
        head_dim: HeadDim,
        v_head_dim: VHeadDim,
        causal: Causal,
    ) -> AttentionFlop:
        return 2.0 * (head_dim + v_head_dim) * scores(attn_batch, q_len, kv_len, q_heads, causal)


class AttentionTraffic(Factor):
    """Bytes: the cache once, queries and outputs once in two bytes an element.

    attention_bytes = attn_batch [kv_len kv_token_bytes + 2 q_heads q_len (head_dim + v_head_dim)]

    A token's cache is keys and values of each head, or one latent that stands for both.
    """

    literals = ("B",)
    monotone = {"attn_batch": +1, "kv_len": +1, "q_len": +1, "kv_token_bytes": +1}

    def __call__(
        self,
        attn_batch: AttnBatch,
        q_len: QLen,
        kv_len: KvLen,
        q_heads: QHeads,
        head_dim: HeadDim,
        v_head_dim: VHeadDim,
        kv_token_bytes: KvTokenBytes,
    ) -> AttentionBytes:
        return attn_batch * (kv_len * kv_token_bytes + 2.0 * q_heads * q_len * (head_dim + v_head_dim))


class StreamedCache(Factor):
    """The report's base predictor: attention is the bytes of the cache at a share of the DRAM bandwidth.

    t_attention = attention_bytes / (efficiency * dram_bandwidth)
    """

    efficiency: Array = parameter(0.85, source=_DESIGN, lower=0.1, upper=1.0)

    monotone = {"attention_bytes": +1, "dram_bandwidth": -1}

    def __call__(self, attention_bytes: AttentionBytes, dram_bandwidth: DramBandwidth) -> TAttention:
        return attention_bytes / (self.efficiency * dram_bandwidth)


class ScoresAndCache(Factor):
    """A launch, then the longer of computing the scores and streaming the cache.

    t_scores = pairs * [2 (head_dim + v_head_dim) / bf16_flop_per_clock + exponential] / (sm_count sm_clock)
    t_cache  = attention_bytes / (dram_share * dram_bandwidth)
    t_attention = t_launch + smooth_max4(t_scores, t_cache)

    | symbol | unit | meaning |
    |---|---|---|
    | t_launch | s | launch and combination of partial results |
    | exponential | clock | an SM's clocks for the softmax of one score |
    | dram_share | 1 | share of the printed DRAM bandwidth |

    Limits: streaming the cache for decode, the matrix product and the exponential for long prompts.
    """

    t_launch: Array = parameter(6e-6, unit="s", source=_DESIGN, lower=1e-7, upper=1e-3)
    exponential: Array = parameter(0.0625, unit="clock", source=_DESIGN + ": 16 a clock and SM", lower=0.0, upper=2.0)
    dram_share: Array = parameter(0.85, source=_DESIGN, lower=0.1, upper=1.0)

    literals = ("FLOP",)
    monotone = {"kv_len": +1, "attn_batch": +1, "q_heads": +1, "sm_clock": -1, "dram_bandwidth": -1, "sm_count": -1}

    def __call__(
        self,
        attn_batch: AttnBatch,
        q_len: QLen,
        kv_len: KvLen,
        q_heads: QHeads,
        head_dim: HeadDim,
        v_head_dim: VHeadDim,
        causal: Causal,
        attention_bytes: AttentionBytes,
        bf16_flop_per_clock: Bf16FlopPerClock,
        sm_count: SmCount,
        sm_clock: SmClock,
        dram_bandwidth: DramBandwidth,
    ) -> TAttention:
        clocks = 2.0 * (head_dim + v_head_dim) / bf16_flop_per_clock + self.exponential
        t_scores = scores(attn_batch, q_len, kv_len, q_heads, causal) * clocks / (sm_count * sm_clock)
        t_cache = attention_bytes / (self.dram_share * dram_bandwidth)
        return self.t_launch + smooth_max(t_scores, t_cache, 4.0)
