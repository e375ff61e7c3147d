"""Attention kernels: the matrix products and exponentials of scores, and the bytes of the KV cache."""

import functools

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import falling_step, rising_step, smooth_max
from factorgraph.variables import (
    AttentionBandwidth,
    AttentionBytes,
    AttentionFlop,
    AttentionGeneration,
    AttentionReuse,
    AttnBatch,
    Bf16FlopPerClock,
    Causal,
    DramBandwidth,
    EccFactor,
    ExponentialsPerClock,
    HeadDim,
    KvHeads,
    KvLen,
    KvTokenBytes,
    L2Bandwidth,
    L2Capacity,
    L2Partitions,
    PowerCap,
    ProcessEnergy,
    QHeads,
    QLen,
    ScoreClocks,
    SmClock,
    SmCount,
    TAttention,
    TDecodeAttention,
    TPrefillAttention,
    VHeadDim,
    WeightBytes,
    Windowed,
    WritesCache,
)

TABLES = "pooled fit to the vLLM BF16 attention tables of aiconfigurator-core 0.12.0, nine GPUs"
_DESIGN = "attention tables of aiconfigurator-core 0.12.0, A100 and H100 (design section 5)"


# Rows of a tile that the tensor cores compute for one group of heads (decode) or of queries (prefill), by kernel.
_DECODE_ROWS = (64.0, 64.0, 16.0)
_PREFILL_ROWS = (64.0, 128.0, 128.0)
_SLICES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


def of_kernel(constants: Array | tuple[float, float, float], attention_generation: Array) -> Array:
    """The one of three constants that belongs to a generation's kernels: FlashAttention-2, -3, Blackwell's.

    Examples:
        >>> float(of_kernel(jnp.asarray([2.0, 3.0, 4.0]), jnp.asarray(3.0)))
        3.0
    """
    flash_2, flash_3, blackwell = constants
    newer = jnp.where(attention_generation < 3.5, flash_3, blackwell)
    return jnp.where(attention_generation < 2.5, flash_2, newer)


def key_tile(head_dim: Array, attention_generation: Array) -> Array:
    """Keys that a block of threads loads at once; FlashAttention-2 loads fewer, the deeper a head."""
    flash_2 = jnp.where(head_dim <= 64.0, 256.0, jnp.where(head_dim <= 128.0, 128.0, 64.0))
    return jnp.where(attention_generation < 2.5, flash_2, 128.0)


def seen_keys(q_len: Array, kv_len: Array, causal: Array) -> Array:
    """Keys that a query sees on average, one at least: all, less half of the new ones where it sees only earlier keys.

    Examples:
        >>> float(seen_keys(4.0, 4.0, 1.0))
        2.5
    """
    return jnp.maximum(kv_len - causal * 0.5 * (jnp.minimum(q_len, kv_len) - 1.0), 1.0)


def scores(attn_batch: Array, q_len: Array, kv_len: Array, q_heads: Array, causal: Array) -> Array:
    """Query-key pairs that are computed: all of them, less the upper triangle where queries see only earlier keys.

    Examples:
        >>> float(scores(1.0, 4.0, 4.0, 1.0, 1.0))
        10.0
    """
    return attn_batch * q_heads * q_len * seen_keys(q_len, kv_len, causal)


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


class ServingCacheReuse(Factor):
    """In a serving engine a sequence's cache comes round again after all weights.

    attention_reuse = weight_bytes + attention_bytes

    A benchmark that repeats one kernel reuses sooner; give attention_reuse = attention_bytes instead.
    """

    monotone = {"weight_bytes": +1, "attention_bytes": +1}

    def __call__(self, weight_bytes: WeightBytes, attention_bytes: AttentionBytes) -> AttentionReuse:
        return weight_bytes + attention_bytes


class CacheBandwidth(Factor):
    """Bandwidth of keys and values: that of L2 as far as what is touched between two uses fits there, else DRAM's.

    hit = 1/(1 + (attention_reuse * l2_partitions / (fit * l2_capacity))^12)
    dram = dram_share * ecc_factor * dram_bandwidth
    1/attention_bandwidth = (1 - hit)/dram + hit/max(l2_bandwidth, dram)

    | symbol | unit | meaning |
    |---|---|---|
    | dram_share | 1 | share of the printed bandwidth that streaming reaches |
    | fit | 1 | share of L2 that a cyclic set may fill before it evicts itself |
    """

    dram_share: Array = parameter(0.94, source=TABLES, lower=0.3, upper=1.0)
    fit: Array = parameter(1.2, source=TABLES, lower=0.3, upper=2.0)

    kinks = ("l2_bandwidth", "dram_bandwidth", "ecc_factor")
    monotone = {"attention_reuse": -1, "l2_capacity": +1, "dram_bandwidth": +1, "l2_bandwidth": +1}

    def __call__(
        self,
        attention_reuse: AttentionReuse,
        l2_capacity: L2Capacity,
        l2_partitions: L2Partitions,
        l2_bandwidth: L2Bandwidth,
        dram_bandwidth: DramBandwidth,
        ecc_factor: EccFactor,
    ) -> AttentionBandwidth:
        dram = self.dram_share * ecc_factor * dram_bandwidth
        filled = attention_reuse * l2_partitions / (self.fit * l2_capacity)
        missed, hit = rising_step(filled, 12.0), falling_step(filled, 12.0)
        return dram / (missed + hit * dram / jnp.maximum(l2_bandwidth, dram))


class ScoreRate(Factor):
    """Clocks of an SM for one query-key pair: two products of a head's depth, and an exponential beside them.

    score_clocks = smooth_max_p[2 (head_dim + v_head_dim)/(efficiency * bf16_flop_per_clock),
                                16 exponential / exponentials_per_clock]

    Each constant has a value for FlashAttention-2, FlashAttention-3 (Hopper) and Blackwell's kernels.

    | symbol | unit | meaning |
    |---|---|---|
    | efficiency | 1 | share of the tensor-core rate that the products reach |
    | exponential | clock | an SM's clocks for a softmax term on 16 exponential units |
    | overlap | 1 | p: 1 where products and exponentials take turns, large where one hides the other |
    """

    efficiency: Array = parameter((0.677, 0.833, 1.0), source=TABLES, lower=0.2, upper=1.0)
    exponential: Array = parameter((0.401, 0.0907, 0.0832), unit="clock", source=TABLES, lower=0.01, upper=4.0)
    overlap: Array = parameter((8.0, 1.8, 1.8), source=TABLES, lower=1.0, upper=20.0)

    kinks = ("attention_generation",)
    literals = ("FLOP",)
    monotone = {"head_dim": +1, "v_head_dim": +1, "bf16_flop_per_clock": -1, "exponentials_per_clock": -1}

    fitted_in = {"head_dim": (64, 512), "bf16_flop_per_clock": (1024, 8192)}
    supported_in = {"attention_generation": (2, 4)}

    def __call__(
        self,
        head_dim: HeadDim,
        v_head_dim: VHeadDim,
        bf16_flop_per_clock: Bf16FlopPerClock,
        exponentials_per_clock: ExponentialsPerClock,
        attention_generation: AttentionGeneration,
    ) -> ScoreClocks:
        products = (
            2.0 * (head_dim + v_head_dim) / (of_kernel(self.efficiency, attention_generation) * bf16_flop_per_clock)
        )
        exponential = of_kernel(self.exponential, attention_generation) * 16.0 / exponentials_per_clock
        return smooth_max(products, exponential, of_kernel(self.overlap, attention_generation))


class DecodeAttention(Factor):
    """One new query a sequence: each block of threads walks a slice of one head's cache, and slices are combined.

    groups  = attn_batch kv_heads (query heads of a group share a tile), cut into s slices, s the fastest of 1 ... 128
    t_block = [block (1 + depth (d/128 - 1)) + max(kv_len/s, tile) rows score_clocks] / sm_clock, d the mean head depth
    rounds  = max(groups s/(resident sm_count), 1)
    t(s)    = t_combine(s) + smooth_max2(rounds t_block, attention_bytes/attention_bandwidth)
    t_decode_attention = t_launch + launch_clocks/sm_clock + t_copy + min over s of t(s)

    t_combine: for s > 1, (combine + slice (s - 1)) clocks, and 8 B of each partial result through L2. FlashAttention-2
    shares a tile and slices only where query heads outnumber KV heads and no window cuts the keys; it then transposes
    its queries and results (t_copy) where there are several KV heads and sequences. Constants are those of
    FlashAttention-2, FlashAttention-3 (Hopper) and Blackwell's kernels.

    | symbol | unit | meaning |
    |---|---|---|
    | t_launch, launch_clocks | s, clock | launch: at its own pace, and at the SM's |
    | block | clock | to start and end a block, for a head of depth 128 |
    | depth | 1 | how much of that grows with the depth |
    | resident | 1 | blocks that share an SM |
    | combine, slice | clock | to add up partial results, and for each more of them |
    | copy | clock | of FlashAttention-2's transpositions |

    Limits: the bytes of the cache for many long sequences, a constant for few short ones.
    """

    t_launch: Array = parameter((0.38e-6, 3.51e-6, 3.18e-6), unit="s", source=TABLES, lower=1e-8, upper=1e-4)
    launch_clocks: Array = parameter(9813.0, unit="clock", source=TABLES, lower=1.0, upper=1e6)
    block: Array = parameter((4309.0, 4964.0, 3220.0), unit="clock", source=TABLES, lower=1.0, upper=1e5)
    depth: Array = parameter(0.4, source=TABLES, lower=0.0, upper=1.0)
    resident: Array = parameter((1.7, 1.0, 1.0), source=TABLES, lower=0.5, upper=4.0)
    combine: Array = parameter((9262.0, 2634.0, 555.0), unit="clock", source=TABLES, lower=1.0, upper=1e6)
    slice: Array = parameter((280.0, 130.0, 165.0), unit="clock", source=TABLES, lower=0.1, upper=1e5)
    copy: Array = parameter(9582.0, unit="clock", source=TABLES, lower=1.0, upper=1e6)

    kinks = (
        "kv_len",
        "attn_batch",
        "q_heads",
        "kv_heads",
        "head_dim",
        "v_head_dim",
        "attention_generation",
        "windowed",
    )
    literals = ("B",)
    monotone = {
        "kv_len": +1,
        "score_clocks": +1,
        "attention_bandwidth": -1,
        "l2_bandwidth": -1,
        "sm_clock": -1,
        "sm_count": -1,
    }

    fitted_in = {"attn_batch": (1, 2048), "kv_len": (1, 131072), "q_heads": (1, 96)}

    def __call__(
        self,
        attn_batch: AttnBatch,
        kv_len: KvLen,
        q_heads: QHeads,
        kv_heads: KvHeads,
        head_dim: HeadDim,
        v_head_dim: VHeadDim,
        windowed: Windowed,
        attention_bytes: AttentionBytes,
        score_clocks: ScoreClocks,
        attention_bandwidth: AttentionBandwidth,
        l2_bandwidth: L2Bandwidth,
        sm_count: SmCount,
        sm_clock: SmClock,
        attention_generation: AttentionGeneration,
    ) -> TDecodeAttention:
        mine = functools.partial(of_kernel, attention_generation=attention_generation)
        flash_2 = attention_generation < 2.5
        shares = jnp.logical_or(~flash_2, (q_heads > kv_heads) & (windowed < 0.5))
        groups = attn_batch * jnp.where(shares, kv_heads * jnp.maximum(q_heads / kv_heads / 64.0, 1.0), q_heads)
        results = attn_batch * q_heads * v_head_dim

        slices = jnp.asarray(_SLICES, jnp.result_type(kv_len))
        tile = key_tile(head_dim, attention_generation)
        own_depth = 1.0 + self.depth * (0.5 * (head_dim + v_head_dim) / 128.0 - 1.0)
        walk = jnp.maximum(kv_len / slices, tile) * mine(_DECODE_ROWS) * score_clocks
        t_block = (mine(self.block) * own_depth + walk) / sm_clock
        rounds = jnp.maximum(groups * slices / (mine(self.resident) * sm_count), 1.0)
        t_combine = jnp.where(slices > 1.0, mine(self.combine) + mine(self.slice) * (slices - 1.0), 0.0) / sm_clock
        t_partial = 8.0 * (slices - 1.0) * results / l2_bandwidth
        times = t_combine + t_partial + smooth_max(rounds * t_block, attention_bytes / attention_bandwidth, 2.0)
        fastest = jnp.where(shares, jnp.min(times), times[0])

        transposes = flash_2 & shares & (kv_heads > 1.0) & (attn_batch > 1.0)
        moved = 4.0 * attn_batch * q_heads * (head_dim + v_head_dim)
        t_copy = jnp.where(transposes, self.copy / sm_clock + moved / l2_bandwidth, 0.0)
        return mine(self.t_launch) + self.launch_clocks / sm_clock + t_copy + fastest


class PrefillAttention(Factor):
    """Many new queries a sequence: blocks of threads hold a tile of queries each and walk the keys it sees.

    rows   = max(q_len, tile_q) q_heads/kv_heads for each KV head; FlashAttention-3 fills its tiles with several heads
    keys   = those that a query sees on average, and edge * tile/2 more at the diagonal; a tile at least
    blocks = attn_batch kv_heads rows/tile_q;   walk(keys) = block + tile_q * keys * score_clocks
    longest = last * walk(all keys)
    t_sm   = smooth_max4[blocks walk(mean keys)/sm_count + tail * longest, longest]/sm_clock
    t_energy = (e_operand + e_issue 1024/bf16_flop_per_clock) process_energy * computed FLOP / (0.9 power_cap)
    t_prefill_attention = t_launch + launch_clocks/sm_clock
                          + smooth_max_p[smooth_max6(t_sm, t_energy), attention_bytes/attention_bandwidth] + t_write

    t_write, where the launch also writes the new keys and values to the cache: those bytes `write` times at the same
    bandwidth, and `token` clocks a token spread over the SMs. Constants are those of FlashAttention-2,
    FlashAttention-3 (Hopper) and Blackwell's kernels.

    Limits: products and exponentials of all pairs for long prompts, a constant for short ones.
    """

    t_launch: Array = parameter((0.26e-6, 6.09e-6, 3.65e-6), unit="s", source=TABLES, lower=1e-8, upper=1e-4)
    launch_clocks: Array = parameter(7723.0, unit="clock", source=TABLES, lower=1.0, upper=1e6)
    block: Array = parameter((3721.0, 4489.0, 3887.0), unit="clock", source=TABLES, lower=1.0, upper=1e5)
    edge: Array = parameter((1.77, 1.29, 0.09), source=TABLES, lower=0.0, upper=4.0)
    tail: Array = parameter((0.62, 0.33, 0.81), source=TABLES, lower=0.0, upper=4.0)
    last: Array = parameter((0.91, 0.74, 1.46), source=TABLES, lower=0.1, upper=4.0)
    e_operand: Array = parameter(0.557e-12, unit="J/FLOP", source=TABLES, lower=1e-14, upper=1e-11)
    e_issue: Array = parameter(1.004e-12, unit="J/FLOP", source=TABLES, lower=0.0, upper=1e-11)
    overlap: Array = parameter((8.0, 1.15, 1.15), source=TABLES, lower=1.0, upper=20.0)
    write: Array = parameter((1.32, 1.79, 2.35), source=TABLES, lower=0.1, upper=10.0)
    token: Array = parameter(133.0, unit="clock", source=TABLES, lower=0.0, upper=1e5)

    kinks = ("q_len", "head_dim", "attention_generation")
    literals = ("B", "FLOP")
    monotone = {
        "attn_batch": +1,
        "kv_len": +1,
        "score_clocks": +1,
        "attention_bandwidth": -1,
        "sm_clock": -1,
        "sm_count": -1,
        "power_cap": -1,
        "writes_cache": +1,
    }

    fitted_in = {"attn_batch": (1, 2048), "q_len": (1, 16384), "q_heads": (1, 96)}

    def __call__(
        self,
        attn_batch: AttnBatch,
        q_len: QLen,
        kv_len: KvLen,
        causal: Causal,
        q_heads: QHeads,
        kv_heads: KvHeads,
        head_dim: HeadDim,
        v_head_dim: VHeadDim,
        kv_token_bytes: KvTokenBytes,
        writes_cache: WritesCache,
        attention_bytes: AttentionBytes,
        score_clocks: ScoreClocks,
        attention_bandwidth: AttentionBandwidth,
        bf16_flop_per_clock: Bf16FlopPerClock,
        process_energy: ProcessEnergy,
        power_cap: PowerCap,
        sm_count: SmCount,
        sm_clock: SmClock,
        attention_generation: AttentionGeneration,
    ) -> TPrefillAttention:
        mine = functools.partial(of_kernel, attention_generation=attention_generation)
        tile_q, tile = mine(_PREFILL_ROWS), key_tile(head_dim, attention_generation)
        shared, alone = jnp.maximum(q_len * q_heads / kv_heads, tile_q), jnp.maximum(q_len, tile_q) * q_heads / kv_heads
        rows = jnp.where(jnp.abs(attention_generation - 3.0) < 0.5, shared, alone)
        blocks = attn_batch * kv_heads * rows / tile_q

        def keys(seen):
            return smooth_max(seen + mine(self.edge) * tile / 2.0, tile, 8.0)

        def walk(seen):
            return mine(self.block) + tile_q * keys(seen) * score_clocks

        mean = seen_keys(q_len, kv_len, causal)
        longest = mine(self.last) * walk(kv_len)
        t_sm = smooth_max(blocks * walk(mean) / sm_count + mine(self.tail) * longest, longest, 4.0) / sm_clock
        flop = 2.0 * (head_dim + v_head_dim) * attn_batch * kv_heads * rows * keys(mean)
        per_flop = (self.e_operand + self.e_issue * 1024.0 / bf16_flop_per_clock) * process_energy
        t_compute = smooth_max(t_sm, per_flop * flop / (0.9 * power_cap), 6.0)
        t_bytes = attention_bytes / attention_bandwidth
        new = attn_batch * q_len
        copied = new * (2.0 * kv_heads * (head_dim + v_head_dim) + kv_token_bytes)
        t_write = mine(self.write) * copied / attention_bandwidth + self.token * new / (sm_count * sm_clock)
        t_launch = mine(self.t_launch) + self.launch_clocks / sm_clock
        return t_launch + smooth_max(t_compute, t_bytes, mine(self.overlap)) + writes_cache * t_write


class AttentionTime(Factor):
    """One query a sequence takes the decode kernel, more the prefill kernel."""

    kinks = ("q_len",)
    monotone = {"t_decode_attention": +1, "t_prefill_attention": +1}

    def __call__(
        self, q_len: QLen, t_decode_attention: TDecodeAttention, t_prefill_attention: TPrefillAttention
    ) -> TAttention:
        return jnp.where(q_len > 1.0, t_prefill_attention, t_decode_attention)
