"""The families of Hugging Face models that are understood: which fields each reads, and what they mean."""

import abc
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from factorgraph.errors import FactorGraphError
from factorgraph.workload.attention import AbstractAttention, GroupedAttention, LatentAttention
from factorgraph.workload.feedforward import Experts, FeedForward

Count = Annotated[int, Field(gt=0, le=100_000_000)]
LayerCount = Annotated[int, Field(gt=0, le=10_000)]


class AbstractFamily(BaseModel, abc.ABC):
    """The fields that all families share, and what a family says of its layers.

    A field without a default must be in the file. Defaults are those of the family's class in `transformers`, and
    only for fields that published files leave out.
    """

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    norms_per_layer: ClassVar[int] = 2
    irrelevant: ClassVar[frozenset[str]] = frozenset()  # fields that this family's own code does not use either

    model_type: str
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: LayerCount
    num_attention_heads: Count
    vocab_size: Count
    max_position_embeddings: Count
    tie_word_embeddings: bool = False
    quantization_config: dict[str, Any] | None = None

    @abc.abstractmethod
    def attention(self) -> AbstractAttention:
        """The attention of every layer."""

    @property
    def window(self) -> int | None:
        """Tokens that sliding layers attend to."""
        return None

    def sliding(self) -> list[bool]:
        """Which layers slide."""
        return [False] * self.num_hidden_layers

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        """The feed-forward layers: dense unless a family says otherwise."""
        return (FeedForward(self.intermediate_size, self.num_hidden_layers),)

    @property
    def logit_softcap(self) -> bool:
        """Whether logits are capped."""
        return False

    def _mixture(self, experts: Experts) -> tuple[FeedForward | Experts, ...]:
        """Experts, and dense layers in the layers that have none."""
        dense = FeedForward(self.intermediate_size, self.num_hidden_layers - experts.layers)
        return tuple(part for part in (dense, experts) if part.layers)


class AbstractGrouped(AbstractFamily):
    """Families with grouped-query attention."""

    usual_head_dim: ClassVar[int | None] = None  # None: hidden size over heads
    qk_norm: ClassVar[Literal["per head", "projection"] | None] = None
    sinks: ClassVar[bool] = False

    num_key_value_heads: Count
    head_dim: Count | None = None
    attention_bias: bool = False

    def attention(self) -> AbstractAttention:
        return GroupedAttention(
            self.num_attention_heads,
            self.num_key_value_heads,
            self._head_dim(),
            qkv_bias=self.attention_bias,
            output_bias=self.attention_bias,
            qk_norm=self.qk_norm,
            sinks=self.sinks,
        )

    def _head_dim(self) -> int:
        stated = self.head_dim or self.usual_head_dim
        if stated is not None:
            return stated
        if self.hidden_size % self.num_attention_heads:
            raise FactorGraphError(
                f"hidden_size {self.hidden_size} is no multiple of num_attention_heads {self.num_attention_heads}, "
                "and head_dim is not stated"
            )
        return self.hidden_size // self.num_attention_heads


class AbstractSliding(AbstractGrouped):
    """Families whose layers, or some of them, attend to a sliding window."""

    sliding_window: Count | None = None
    layer_types: list[str] | None = None

    @property
    def window(self) -> int | None:
        return self.sliding_window

    def sliding(self) -> list[bool]:
        if self.layer_types is None:
            return [self.window is not None and self._slides_unless_listed(i) for i in range(self.num_hidden_layers)]
        unknown = sorted(set(self.layer_types) - {"sliding_attention", "full_attention"})
        if unknown:
            raise FactorGraphError(f"layer_types names '{unknown[0]}', which has no kernel here")
        if len(self.layer_types) != self.num_hidden_layers:
            raise FactorGraphError(
                f"layer_types has {len(self.layer_types)} entries for {self.num_hidden_layers} layers; give one each"
            )
        slides = [kind == "sliding_attention" for kind in self.layer_types]
        if any(slides) and self.window is None:
            raise FactorGraphError("layer_types has sliding layers, but sliding_window is not stated")
        return slides

    def _slides_unless_listed(self, layer: int) -> bool:
        return True


class AbstractAlternating(AbstractSliding):
    """Families in which every other layer slides, the first one included."""

    def _slides_unless_listed(self, layer: int) -> bool:
        return layer % 2 == 0


class AbstractQwen(AbstractSliding):
    """Qwen's way: the layers from `max_window_layers` on slide, if any do."""

    use_sliding_window: bool = False
    max_window_layers: Annotated[int, Field(ge=0)] | None = None

    @property
    def window(self) -> int | None:
        return self.sliding_window if self.use_sliding_window else None

    def _slides_unless_listed(self, layer: int) -> bool:
        return self.max_window_layers is not None and layer >= self.max_window_layers


class Llama(AbstractGrouped):
    mlp_bias: bool = False

    @model_validator(mode="before")
    @classmethod
    def _multi_head_unless_stated(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("num_key_value_heads") is None:
            return {**fields, "num_key_value_heads": fields.get("num_attention_heads")}
        return fields

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        return (FeedForward(self.intermediate_size, self.num_hidden_layers, bias=self.mlp_bias),)


class Mistral(AbstractSliding):
    sliding_window: Count | None = 4096


class Mixtral(AbstractSliding):
    num_local_experts: Count
    num_experts_per_tok: Count

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        return self._mixture(
            Experts(self.num_local_experts, self.num_experts_per_tok, self.intermediate_size, self.num_hidden_layers)
        )


class Phi3(AbstractSliding):
    pass


class Qwen2(AbstractQwen):
    def attention(self) -> AbstractAttention:
        return GroupedAttention(self.num_attention_heads, self.num_key_value_heads, self._head_dim(), qkv_bias=True)


class Qwen3(AbstractQwen):
    usual_head_dim = 128
    qk_norm = "per head"


class Qwen3Moe(AbstractQwen):
    usual_head_dim = 128
    qk_norm = "per head"

    moe_intermediate_size: Count
    num_experts: Count
    num_experts_per_tok: Count
    decoder_sparse_step: Count
    mlp_only_layers: list[int] = []

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        sparse = [
            (layer + 1) % self.decoder_sparse_step == 0 and layer not in self.mlp_only_layers
            for layer in range(self.num_hidden_layers)
        ]
        return self._mixture(
            Experts(self.num_experts, self.num_experts_per_tok, self.moe_intermediate_size, sum(sparse))
        )


class Gemma(AbstractGrouped):
    usual_head_dim = 256

    tie_word_embeddings: bool = True


class Gemma2(AbstractAlternating):
    norms_per_layer = 4
    usual_head_dim = 256

    sliding_window: Count | None = 4096
    tie_word_embeddings: bool = True
    final_logit_softcapping: FiniteFloat | None = 30.0

    @property
    def logit_softcap(self) -> bool:
        return self.final_logit_softcapping is not None


class Gemma3(AbstractSliding):
    norms_per_layer = 4
    usual_head_dim = 256
    qk_norm = "per head"

    num_attention_heads: Count = 8
    num_key_value_heads: Count = 4
    vocab_size: Count = 262_208
    max_position_embeddings: Count = 131_072
    tie_word_embeddings: bool = True
    sliding_window: Count | None = 4096
    sliding_window_pattern: Count = 6

    def _slides_unless_listed(self, layer: int) -> bool:
        return (layer + 1) % self.sliding_window_pattern != 0


class Deepseek(AbstractFamily):
    # Latent attention has a key for each query, whatever the file says; the latent itself has no heads.
    irrelevant = frozenset({"num_key_value_heads", "head_dim", "qk_head_dim"})

    q_lora_rank: Count | None
    kv_lora_rank: Count
    qk_nope_head_dim: Count
    qk_rope_head_dim: Count
    v_head_dim: Count
    n_routed_experts: Count
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    n_shared_experts: Annotated[int, Field(ge=0, le=1000)] | None = None
    first_k_dense_replace: Annotated[int, Field(ge=0)]
    moe_layer_freq: Count = 1
    topk_method: str | None = None

    def attention(self) -> AbstractAttention:
        return LatentAttention(
            self.num_attention_heads,
            self.q_lora_rank,
            self.kv_lora_rank,
            self.qk_nope_head_dim,
            self.qk_rope_head_dim,
            self.v_head_dim,
        )

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        sparse = [
            layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0
            for layer in range(self.num_hidden_layers)
        ]
        return self._mixture(
            Experts(
                self.n_routed_experts,
                self.num_experts_per_tok,
                self.moe_intermediate_size,
                sum(sparse),
                shared_intermediate=(self.n_shared_experts or 0) * self.moe_intermediate_size,
                correction_bias=self.topk_method == "noaux_tc",
            )
        )


class GptOss(AbstractAlternating):
    usual_head_dim = 64
    sinks = True

    sliding_window: Count | None = 128
    attention_bias: bool = True
    num_local_experts: Count
    num_experts_per_tok: Count

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        return self._mixture(
            Experts(
                self.num_local_experts,
                self.num_experts_per_tok,
                self.intermediate_size,
                self.num_hidden_layers,
                bias=True,
            )
        )


class MinimaxM2(AbstractGrouped):
    qk_norm = "projection"

    use_qk_norm: Literal[True]
    qk_norm_type: Literal["per_layer"] = "per_layer"
    attn_type_list: list[Literal[1]] | None = None  # 1 is softmax attention; 0 would be linear
    num_local_experts: Count
    num_experts_per_tok: Count
    shared_intermediate_size: Literal[0] = 0
    use_routing_bias: bool = False

    def feedforwards(self) -> tuple[FeedForward | Experts, ...]:
        return self._mixture(
            Experts(
                self.num_local_experts,
                self.num_experts_per_tok,
                self.intermediate_size,
                self.num_hidden_layers,
                correction_bias=self.use_routing_bias,
            )
        )


FAMILIES: dict[str, type[AbstractFamily]] = {
    "llama": Llama,
    "mistral": Mistral,
    "mixtral": Mixtral,
    "phi3": Phi3,
    "qwen2": Qwen2,
    "qwen3": Qwen3,
    "qwen3_moe": Qwen3Moe,
    "gemma": Gemma,
    "gemma2": Gemma2,
    "gemma3_text": Gemma3,
    "deepseek_v2": Deepseek,
    "deepseek_v3": Deepseek,
    "kimi_k2": Deepseek,
    "gpt_oss": GptOss,
    "minimax_m2": MinimaxM2,
}

# Models that wrap one of the families, under `text_config`, together with a vision tower.
WRAPPERS = ("gemma3", "kimi_k25", "mistral3")
