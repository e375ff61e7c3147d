"""The step inside a serving engine: few constants, so that served loads pin them down."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.laws.attention import scores
from factorgraph.smooth import smooth_max
from factorgraph.variables import (
    AttentionBytes,
    AttnBatch,
    Bf16FlopPerClock,
    Causal,
    DramBandwidth,
    GemmFlop,
    GemmGroups,
    GemmType,
    HeadDim,
    KvLen,
    Launches,
    LightBytes,
    LinkBandwidth,
    M,
    MessageBytes,
    PeakFlops,
    PromptChunks,
    QHeads,
    QLen,
    Ranks,
    Sequences,
    SmClock,
    SmCount,
    TAttention,
    TAttentionTotal,
    TCollective,
    TCollectiveTotal,
    TGemm,
    TGemmTotal,
    TGpu,
    THost,
    TLaunches,
    TLight,
    TLightTotal,
    Traffic,
    VHeadDim,
)

_GEMMS = "GEMM tables of aiconfigurator-core 0.12.0, median of m, n, k >= 4096 on H100"
_ATTENTION = "attention tables of aiconfigurator-core 0.12.0, A100 and H100"
_LINKS = "all-reduce tables of aiconfigurator-core 0.12.0"
_SERVED = "served loads of aiconfigurator-core 0.12.0 on H100, dense models"


class SustainedGemm(Factor):
    """A product at the rate that large ones sustain, or its bytes at the rate that DRAM sustains.

    rate    = share * narrowing^gemm_type * peak_flops
    padded  = hypot(m, tile)/m for grouped products (experts), 1 for others
    t_gemm  = smooth_max3(padded * gemm_flop / rate, traffic / (dram_share * dram_bandwidth))

    | symbol | unit | meaning |
    |---|---|---|
    | share | 1 | share of the BF16 peak that large products sustain (power, barriers, tails) |
    | narrowing | 1 | how much less of its peak each halving of the type sustains |
    | dram_share | 1 | share of the printed DRAM bandwidth |
    | tile | 1 | rows that an expert's few tokens are padded to |

    Limits: the sustained rate for many tokens, weights over bandwidth for few. The launch is counted elsewhere.
    """

    share: Array = parameter(0.78, source=_GEMMS, lower=0.1, upper=1.0)
    narrowing: Array = parameter(0.75, source=_GEMMS, lower=0.2, upper=1.0)
    dram_share: Array = parameter(0.90, source=_GEMMS, lower=0.1, upper=1.0)
    tile: Array = parameter(16.0, source="rows of the smallest tensor-core tile, PTX mma m16n8k16", upper=256.0)

    kinks = ("gemm_groups", "gemm_type")
    monotone = {"gemm_flop": +1, "traffic": +1, "peak_flops": -1, "dram_bandwidth": -1}

    def __call__(
        self,
        gemm_flop: GemmFlop,
        traffic: Traffic,
        m: M,
        gemm_groups: GemmGroups,
        gemm_type: GemmType,
        peak_flops: PeakFlops,
        dram_bandwidth: DramBandwidth,
    ) -> TGemm:
        rate = self.share * self.narrowing**gemm_type * peak_flops
        padded = jnp.where(gemm_groups > 1.0, jnp.sqrt(1.0 + (self.tile / m) ** 2), 1.0)
        return smooth_max(padded * (gemm_flop / rate), traffic / (self.dram_share * dram_bandwidth), 3.0)


class StreamedAttention(Factor):
    """The longer of computing the scores and streaming the cache; the launch is counted elsewhere.

    t_scores = pairs * [2 (head_dim + v_head_dim) / bf16_flop_per_clock + exponential] / (sm_count sm_clock)
    t_attention = smooth_max4(t_scores, attention_bytes / (dram_share * dram_bandwidth))

    Limits: the cache's bytes for decode, product and exponential one after the other for long prompts.
    """

    exponential: Array = parameter(0.0625, unit="clock", source="FlashAttention-3: 16 exponentials a clock and SM")
    dram_share: Array = parameter(0.87, source=_ATTENTION, lower=0.1, upper=1.0)

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
        return smooth_max(t_scores, attention_bytes / (self.dram_share * dram_bandwidth), 4.0)


class StreamedLight(Factor):
    """The bytes of a light kernel at a share of the DRAM bandwidth; its launch is counted elsewhere.

    t_light = (light_bytes + sector) / (share * dram_bandwidth)

    A kernel that moves anything moves a DRAM sector. The share is assumed; from a quarter to one, served loads fit
    alike.
    """

    share: Array = parameter(0.45, source="assumed: elementwise kernels of a few hundred tokens", lower=0.05, upper=1.0)
    sector: Array = parameter(32.0, unit="B", source="CUDA C++ Best Practices Guide: 32-byte sectors", upper=1024.0)

    monotone = {"light_bytes": +1, "dram_bandwidth": -1}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return (light_bytes + self.sector) / (self.share * dram_bandwidth)


class SyncAndLink(Factor):
    """An all-reduce waits for all ranks, then moves its bytes at a share of the link.

    t_collective = t_sync + 2 (ranks - 1)/ranks message_bytes / (share link_bandwidth);  0 on one rank.

    Limits: t_sync for small messages, however many ranks; the ring bound for large ones.
    """

    t_sync: Array = parameter(5e-6, unit="s", source=_LINKS, lower=1e-7, upper=1e-3)
    share: Array = parameter(0.65, source=_LINKS, lower=0.05, upper=1.0)

    kinks = ("ranks",)
    monotone = {"message_bytes": +1, "link_bandwidth": -1, "ranks": +1}

    def __call__(self, message_bytes: MessageBytes, ranks: Ranks, link_bandwidth: LinkBandwidth) -> TCollective:
        moved = 2.0 * (ranks - 1.0) / ranks * message_bytes
        return jnp.where(ranks > 1.0, self.t_sync + moved / (self.share * link_bandwidth), 0.0)


class FixedKernelTime(Factor):
    """What a kernel takes beside its work, in a captured graph: t_launches = per_kernel * launches.

    Launch, prologue and drain. How many kernels there are is a fact of the engine.
    """

    per_kernel: Array = parameter(5e-6, unit="s", source=_SERVED, lower=1e-7, upper=1e-4)

    monotone = {"launches": +1}

    def __call__(self, launches: Launches) -> TLaunches:
        return self.per_kernel * launches


class LaunchedGpuTime(Factor):
    """t_gpu: the work of GEMMs, attention, light kernels and collectives, one after another, and their fixed times."""

    monotone = {
        "t_gemm_total": +1,
        "t_attention_total": +1,
        "t_light_total": +1,
        "t_collective_total": +1,
        "t_launches": +1,
    }

    def __call__(
        self,
        t_gemm_total: TGemmTotal,
        t_attention_total: TAttentionTotal,
        t_light_total: TLightTotal,
        t_collective_total: TCollectiveTotal,
        t_launches: TLaunches,
    ) -> TGpu:
        return t_gemm_total + t_attention_total + t_light_total + t_collective_total + t_launches


class HostOfSequences(Factor):
    """What the host adds to a step, for every sequence and every chunk of a prompt.

    t_host = per_sequence * sequences + per_chunk * prompt_chunks

    Sampling, detokenising and streaming for a sequence; scheduling, tokenising and leaving the captured graph for a
    chunk.
    """

    per_sequence: Array = parameter(20e-6, unit="s", source=_SERVED, lower=1e-8, upper=1e-3)
    per_chunk: Array = parameter(3.9e-3, unit="s", source=_SERVED, lower=1e-6, upper=0.1)

    monotone = {"sequences": +1, "prompt_chunks": +1}

    def __call__(self, sequences: Sequences, prompt_chunks: PromptChunks) -> THost:
        return self.per_sequence * sequences + self.per_chunk * prompt_chunks
