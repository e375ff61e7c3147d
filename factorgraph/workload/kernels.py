"""The kernels of a step, one row each: their fields are the variables that the laws read, per launch and per GPU."""

import dataclasses
from typing import Literal, NamedTuple

from jax import Array

Number = Array | float

# Types that tensor cores compute in; `gemm_type` is an index into them.
TENSOR_TYPES = ("bf16", "fp8", "fp4")

# Libraries whose kernels differ: `collective_library` and `quantise_library` are indices into them.
LIBRARIES = ("vllm", "sglang", "trtllm", "nccl")

ACTIVATION_SIZE = 2.0  # B; hidden states, logits and outputs are BF16 in every engine


class Gemm(NamedTuple):
    """`gemm_groups` products of (m, k) with (k, n) in one launch. Activations come quantised (`quantises` 0)."""

    m: Number
    n: Number
    k: Number
    gemm_groups: Number
    gemm_count: Number
    gemm_type: Number
    weight_element_size: Number
    activation_element_size: Number
    output_element_size: Number
    quantises: Number
    quantise_library: Number

    @property
    def launches(self) -> Number:
        return self.gemm_count

    @property
    def flop(self) -> Number:
        return 2.0 * self.gemm_groups * self.m * self.n * self.k

    @property
    def bytes(self) -> Number:
        return self.gemm_groups * (
            self.n * self.k * self.weight_element_size
            + self.m * self.k * self.activation_element_size
            + self.m * self.n * self.output_element_size
        )


class Heads(NamedTuple):
    """The heads of attention on one GPU. Where the value is a part of the key, `kv_token_bytes` counts it once."""

    q_heads: float
    kv_heads: float
    head_dim: float
    v_head_dim: float
    kv_element_size: float
    kv_token_bytes: float


class Attention(NamedTuple):
    """One attention kernel. With `causal` 1 the last query sees all `kv_len` keys and each before it one less; with 0
    every query sees as many. The cache is written by a kernel of its own (`writes_cache` 0)."""

    attn_batch: Number
    q_len: Number
    kv_len: Number
    causal: Number
    windowed: Number
    writes_cache: Number
    attention_count: Number
    q_heads: Number
    kv_heads: Number
    head_dim: Number
    v_head_dim: Number
    kv_element_size: Number
    kv_token_bytes: Number

    @property
    def launches(self) -> Number:
        return self.attention_count

    @property
    def flop(self) -> Number:
        seen = self.kv_len - self.causal * (self.q_len - 1.0) / 2.0
        return 2.0 * self.attn_batch * self.q_heads * self.q_len * seen * (self.head_dim + self.v_head_dim)

    @property
    def bytes(self) -> Number:
        """Keys and values once, queries in, results out."""
        ends = self.q_len * self.q_heads * (self.head_dim + self.v_head_dim) * ACTIVATION_SIZE
        return self.attn_batch * (self.kv_len * self.kv_token_bytes + ends)


class Light(NamedTuple):
    """A kernel that only moves bytes."""

    light_bytes: Number
    light_count: Number

    @property
    def launches(self) -> Number:
        return self.light_count

    @property
    def flop(self) -> Number:
        return 0.0

    @property
    def bytes(self) -> Number:
        return self.light_bytes


class Collective(NamedTuple):
    """An all-reduce of `message_bytes` by one of `LIBRARIES`, or another collective that moves as much."""

    message_bytes: Number
    ranks: Number
    collective_library: Number
    collective_count: Number

    @property
    def launches(self) -> Number:
        return self.collective_count

    @property
    def flop(self) -> Number:
        return 0.0

    @property
    def bytes(self) -> Number:
        return self.message_bytes


@dataclasses.dataclass(frozen=True)
class Format:
    """How the weights of a product are stored and in what type it is computed."""

    dtype: str
    weight_size: float
    activation_size: float


BF16 = Format("bf16", 2.0, ACTIVATION_SIZE)

# NVFP4 has an FP8 scale for 16 elements and MXFP4 one for 32; FP8 scales of 128 x 128 blocks weigh nothing.
FORMATS = {
    "bf16": BF16,
    "fp8": Format("fp8", 1.0, 1.0),
    "fp4": Format("fp4", 0.5 + 1 / 16, 0.5 + 1 / 16),
    # Weight-only: the kernel widens the weights and multiplies in BF16, as engines run gpt-oss unless told otherwise.
    "mxfp4": Format("bf16", 0.5 + 1 / 32, ACTIVATION_SIZE),
}
KV_SIZES = {"bf16": 2.0, "fp8": 1.0}

Rows = Literal["token", "routed", "decoded", "prefilled", "sequence"]


@dataclasses.dataclass(frozen=True)
class Projection:
    """A weight matrix of the model as one GPU holds it, and which rows are multiplied with it.

    Attributes:
        name: the GEMM's name in the kernel table.
        n, k: columns and depth on one GPU.
        layers: how many layers have it.
        rows: what passes through it: every "token", tokens "routed" to experts, "decoded" or "prefilled" tokens only,
            or one row a "sequence".
        copies: like matrices side by side in one launch (experts, heads).
        used: how many of the copies one token uses.
        bias: whether a bias of length n comes with it.
        quantised: whether it takes the step's weight format; else it stays BF16.
        owns_weights: False for a second use of weights that another projection owns.
    """

    name: str
    n: float
    k: float
    layers: int
    rows: Rows = "token"
    copies: float = 1.0
    used: float = 1.0
    bias: bool = False
    quantised: bool = True
    owns_weights: bool = True

    def format(self, weights: str) -> Format:
        if not self.quantised or (weights == "mxfp4" and self.rows != "routed"):
            return BF16
        return FORMATS[weights]

    def parameters(self, copies: float) -> float:
        return self.layers * copies * (self.n * self.k + self.bias * self.n) if self.owns_weights else 0.0
