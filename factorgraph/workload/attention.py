"""The two kinds of attention: grouped queries over cached keys and values, and DeepSeek's over a cached latent."""

import abc
import dataclasses
from collections.abc import Iterator
from typing import Literal

from factorgraph.errors import FactorGraphError
from factorgraph.workload.kernels import ACTIVATION_SIZE, Heads, Light, Number, Projection

# A light kernel that changes a tensor in place reads it and writes it.
_IN_PLACE = 2 * ACTIVATION_SIZE


class AbstractAttention(abc.ABC):
    """What a step asks of the attention of a model; every size is for one of `tp` GPUs."""

    @abc.abstractmethod
    def check_split(self, tp: int) -> None:
        """Raise FactorGraphError when the heads cannot be dealt to `tp` GPUs."""

    @abc.abstractmethod
    def projections(self, hidden: int, layers: int, tp: int) -> Iterator[Projection]:
        """The matrices around attention."""

    @abc.abstractmethod
    def other_parameters(self) -> int:
        """Parameters of one layer outside matrices and their biases."""

    @abc.abstractmethod
    def cached_elements(self, tp: int) -> float:
        """Elements that one token leaves in the cache of one layer."""

    @abc.abstractmethod
    def output_width(self, tp: int) -> float:
        """Length of a token's result, before the output projection."""

    @abc.abstractmethod
    def decode_heads(self, tp: int, kv_size: float) -> Heads:
        """Heads of the decode kernel."""

    @abc.abstractmethod
    def prefill_heads(self, tp: int, kv_size: float) -> Heads:
        """Heads of the prefill kernel."""

    @abc.abstractmethod
    def light(self, tokens: Number, layers: int, tp: int) -> dict[str, Light]:
        """Light kernels between the projections and attention, the cache write aside."""


@dataclasses.dataclass(frozen=True)
class GroupedAttention(AbstractAttention):
    """Multi-head (`kv_heads == q_heads`), grouped-query and multi-query (`kv_heads == 1`) attention.

    Past one KV head a GPU, KV heads are replicated, as every engine does.

    Attributes:
        qk_norm: queries and keys are normalised "per head", over the whole "projection", or not (None).
        sinks: whether each query head has a learned sink logit.
    """

    q_heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["per head", "projection"] | None = None
    sinks: bool = False

    def __post_init__(self):
        if self.q_heads % self.kv_heads:
            raise FactorGraphError(
                f"{self.q_heads} query heads cannot be shared among {self.kv_heads} key-value heads; "
                "num_attention_heads must be a multiple of num_key_value_heads"
            )

    def check_split(self, tp: int) -> None:
        if self.q_heads % tp:
            raise FactorGraphError(f"tp={tp} does not divide {self.q_heads} query heads")
        if self.kv_heads % tp and tp % self.kv_heads:
            raise FactorGraphError(f"tp={tp} neither divides {self.kv_heads} key-value heads nor is a multiple of them")

    def projections(self, hidden: int, layers: int, tp: int) -> Iterator[Projection]:
        qkv = self.q_heads / tp + 2 * self._kv_heads(tp)
        yield Projection("qkv_proj", qkv * self.head_dim, hidden, layers, bias=self.qkv_bias)
        yield Projection("o_proj", hidden, self.output_width(tp), layers, bias=self.output_bias)

    def other_parameters(self) -> int:
        norms = {None: 0, "per head": 2, "projection": self.q_heads + self.kv_heads}[self.qk_norm]
        return norms * self.head_dim + self.sinks * self.q_heads

    def cached_elements(self, tp: int) -> float:
        return 2 * self._kv_heads(tp) * self.head_dim

    def output_width(self, tp: int) -> float:
        return self.q_heads * self.head_dim / tp

    def decode_heads(self, tp: int, kv_size: float) -> Heads:
        return Heads(
            q_heads=self.q_heads / tp,
            kv_heads=self._kv_heads(tp),
            head_dim=self.head_dim,
            v_head_dim=self.head_dim,
            kv_element_size=kv_size,
            kv_token_bytes=self.cached_elements(tp) * kv_size,
        )

    def prefill_heads(self, tp: int, kv_size: float) -> Heads:
        return self.decode_heads(tp, kv_size)

    def light(self, tokens: Number, layers: int, tp: int) -> dict[str, Light]:
        q_width = self.q_heads / tp * self.head_dim
        k_width = self._kv_heads(tp) * self.head_dim
        kernels = {}
        if self.qk_norm:
            kernels["q_norm"] = Light(tokens * q_width * _IN_PLACE, layers)
            kernels["k_norm"] = Light(tokens * k_width * _IN_PLACE, layers)
        kernels["rope"] = Light(tokens * (q_width + k_width) * _IN_PLACE, layers)
        return kernels

    def _kv_heads(self, tp: int) -> float:
        return max(self.kv_heads / tp, 1.0)


@dataclasses.dataclass(frozen=True)
class LatentAttention(AbstractAttention):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    A token caches one latent for all heads. Prefill expands it to keys and values; decode attends over the latent
    itself, the expansion absorbed into queries and results. Down-projections and cache are replicated on every GPU.

    Attributes:
        q_rank: length of the queries' latent; None where queries come straight from the hidden state.
        kv_rank: length of the cached latent, beside which `rope_dim` positional elements are cached.
        nope_dim, rope_dim: the parts of a key without and with position.
        v_dim: length of a value.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int

    def check_split(self, tp: int) -> None:
        if self.heads % tp:
            raise FactorGraphError(f"tp={tp} does not divide {self.heads} attention heads")

    def projections(self, hidden: int, layers: int, tp: int) -> Iterator[Projection]:
        heads, latent = self.heads / tp, self.kv_rank + self.rope_dim
        q_width = heads * (self.nope_dim + self.rope_dim)
        if self.q_rank is None:
            yield Projection("q_proj", q_width, hidden, layers)
            yield Projection("kv_a_proj", latent, hidden, layers)
        else:
            yield Projection("q_kv_a_proj", self.q_rank + latent, hidden, layers)
            yield Projection("q_b_proj", q_width, self.q_rank, layers)
        yield Projection("kv_b_proj", heads * (self.nope_dim + self.v_dim), self.kv_rank, layers, rows="prefilled")
        # The two halves of kv_b_proj, head by head; engines keep this copy in BF16.
        for name, n, k in (("absorb_k", self.kv_rank, self.nope_dim), ("absorb_v", self.v_dim, self.kv_rank)):
            yield Projection(
                name, n, k, layers, rows="decoded", copies=heads, used=heads, quantised=False, owns_weights=False
            )
        yield Projection("o_proj", hidden, self.output_width(tp), layers)

    def other_parameters(self) -> int:
        return (self.q_rank or 0) + self.kv_rank

    def cached_elements(self, tp: int) -> float:
        return self.kv_rank + self.rope_dim

    def output_width(self, tp: int) -> float:
        return self.heads * self.v_dim / tp

    def decode_heads(self, tp: int, kv_size: float) -> Heads:
        return Heads(
            q_heads=self.heads / tp,
            kv_heads=1.0,
            head_dim=self.kv_rank + self.rope_dim,
            v_head_dim=self.kv_rank,
            kv_element_size=kv_size,
            kv_token_bytes=self.cached_elements(tp) * kv_size,
        )

    def prefill_heads(self, tp: int, kv_size: float) -> Heads:
        heads, key = self.heads / tp, self.nope_dim + self.rope_dim
        return Heads(
            q_heads=heads,
            kv_heads=heads,
            head_dim=key,
            v_head_dim=self.v_dim,
            kv_element_size=ACTIVATION_SIZE,
            kv_token_bytes=heads * (key + self.v_dim) * ACTIVATION_SIZE,
        )

    def light(self, tokens: Number, layers: int, tp: int) -> dict[str, Light]:
        kernels = {}
        if self.q_rank is not None:
            kernels["q_a_norm"] = Light(tokens * self.q_rank * _IN_PLACE, layers)
        kernels["kv_a_norm"] = Light(tokens * self.kv_rank * _IN_PLACE, layers)
        kernels["rope"] = Light(tokens * (self.heads / tp + 1) * self.rope_dim * _IN_PLACE, layers)
        return kernels
