"""Two further model families as served: sparse latent attention, and gated attention among linear layers."""

import dataclasses
from collections.abc import Iterator

from factorgraph.workload.attention import AbstractAttention, GroupedAttention, LatentAttention
from factorgraph.workload.feedforward import Experts, FeedForward
from factorgraph.workload.kernels import Attention, Gemm, Heads, Light, Number, Projection
from factorgraph.workload.model import ModelConfig


@dataclasses.dataclass(frozen=True)
class SparseLatentAttention(AbstractAttention):
    """Latent attention over the keys that a small indexer chooses (DeepSeek-V3.2, arXiv:2512.02556, section 2).

    Attributes:
        latent: the attention proper.
        index_heads, index_dim: heads and key length of the indexer, which is replicated on every GPU.
        index_bytes: cache of one token and layer that the indexer keeps, B: an FP8 key and its scale.
    """

    latent: LatentAttention
    index_heads: int
    index_dim: int
    index_bytes: float

    def check_split(self, tp: int) -> None:
        self.latent.check_split(tp)

    def projections(self, hidden: int, layers: int, tp: int) -> Iterator[Projection]:
        yield from self.latent.projections(hidden, layers, tp)
        yield Projection("index_q_proj", self.index_heads * self.index_dim, self.latent.q_rank or hidden, layers)

    def other_parameters(self) -> int:
        return self.latent.other_parameters()

    def cached_elements(self, tp: int) -> float:
        return self.latent.cached_elements(tp)

    def output_width(self, tp: int) -> float:
        return self.latent.output_width(tp)

    def decode_heads(self, tp: int, kv_size: float) -> Heads:
        return self.latent.decode_heads(tp, kv_size)

    def prefill_heads(self, tp: int, kv_size: float) -> Heads:
        return self.latent.prefill_heads(tp, kv_size)

    def light(self, tokens: Number, layers: int, tp: int) -> dict[str, Light]:
        return self.latent.light(tokens, layers, tp)

    def index_scores(self, sequences: Number, queries: Number, keys: Number, *, layers: int) -> Gemm:
        """Scores of all keys, a sequence a group, in FP8; only the chosen indices are written."""
        return Gemm(
            m=queries * self.index_heads,
            n=keys,
            k=self.index_dim,
            gemm_groups=sequences,
            gemm_count=layers,
            gemm_type=1,
            weight_element_size=self.index_bytes / self.index_dim,
            activation_element_size=1.0,
            output_element_size=0.25,
            quantises=0.0,
            quantise_library=0.0,
        )


@dataclasses.dataclass(frozen=True)
class GatedHybridAttention(AbstractAttention):
    """Gated grouped-query attention in some layers, a gated recurrence in the others (Qwen3-Next and later).

    Attributes:
        grouped: attention of the full layers; its queries come with a gate of the same width.
        full_layers, linear_layers: how many layers have which.
        linear_in, linear_out: columns of the linear layers' input projection, depth of their output projection.
        state_heads, state_dim: a linear layer keeps state_heads matrices of state_dim x state_dim.
    """

    grouped: GroupedAttention
    full_layers: int
    linear_layers: int
    linear_in: int
    linear_out: int
    state_heads: int
    state_dim: int

    def check_split(self, tp: int) -> None:
        self.grouped.check_split(tp)

    def projections(self, hidden: int, layers: int, tp: int) -> Iterator[Projection]:
        gate = self.grouped.q_heads * self.grouped.head_dim / tp
        for part in self.grouped.projections(hidden, self.full_layers, tp):
            yield dataclasses.replace(part, n=part.n + gate) if part.name == "qkv_proj" else part
        yield Projection("linear_in_proj", self.linear_in / tp, hidden, self.linear_layers)
        yield Projection("linear_out_proj", hidden, self.linear_out / tp, self.linear_layers)

    def other_parameters(self) -> int:
        return self.grouped.other_parameters()

    def cached_elements(self, tp: int) -> float:
        return self.grouped.cached_elements(tp)

    def output_width(self, tp: int) -> float:
        return self.grouped.output_width(tp)

    def decode_heads(self, tp: int, kv_size: float) -> Heads:
        return self.grouped.decode_heads(tp, kv_size)

    def prefill_heads(self, tp: int, kv_size: float) -> Heads:
        return self.grouped.prefill_heads(tp, kv_size)

    def light(self, tokens: Number, layers: int, tp: int) -> dict[str, Light]:
        kernels = self.grouped.light(tokens, self.full_layers, tp)
        width = self.linear_in + self.linear_out / 2
        return kernels | {"gated_recurrence": Light(tokens * 4 * width / tp, self.linear_layers)}

    def recurrence(self, sequences: Number, tp: int) -> Attention:
        """The state of every linear layer read and written once a step, as a cache of `state_dim` rows."""
        heads = self.state_heads / tp
        return Attention(
            attn_batch=sequences,
            q_len=1.0,
            kv_len=float(self.state_dim),
            causal=0.0,
            windowed=0.0,
            writes_cache=0.0,
            attention_count=self.linear_layers,
            q_heads=heads,
            kv_heads=heads,
            head_dim=self.state_dim,
            v_head_dim=self.state_dim,
            kv_element_size=2.0,
            kv_token_bytes=heads * self.state_dim * 2 * 2.0,
        )


# Sizes from the published config.json of both; neither family has a loader yet.
GLM_5 = ModelConfig(
    name="glm-5",
    model_type="glm_moe_dsa",
    hidden_size=6144,
    layers=78,
    vocab_size=154880,
    max_position=202752,
    tied_embeddings=False,
    attention=SparseLatentAttention(LatentAttention(64, 2048, 512, 192, 64, 256), 32, 128, 132.0),
    feedforwards=(FeedForward(12288, 3), Experts(256, 8, 2048, 75, shared_intermediate=2048)),
    sliding_window=2048,
    sliding_layers=78,
)
QWEN3_5_397B = ModelConfig(
    name="qwen3.5-397b-a17b",
    model_type="qwen3_5_moe",
    hidden_size=4096,
    layers=60,
    vocab_size=248320,
    max_position=262144,
    tied_embeddings=False,
    attention=GatedHybridAttention(GroupedAttention(32, 2, 256), 15, 45, 12288 + 8192 + 128, 8192, 64, 128),
    feedforwards=(Experts(512, 10, 1024, 60, shared_intermediate=1024),),
)
