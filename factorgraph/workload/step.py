"""One engine step as a table of kernels, differentiable by everything that is a number in it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from factorgraph.workload.feedforward import touched_experts
from factorgraph.workload.kernels import (
    ACTIVATION_SIZE,
    FORMATS,
    KV_SIZES,
    LIBRARIES,
    TENSOR_TYPES,
    Attention,
    Collective,
    Gemm,
    Light,
    Number,
    Projection,
)

if TYPE_CHECKING:
    from factorgraph.workload.model import ModelConfig

Kernel = Gemm | Attention | Light | Collective
Phase = Literal["decode", "prefill", "mixed"]


def _number(value: Number) -> Array:
    return jnp.asarray(value, float)


class Step(eqx.Module):
    """One step of an inference engine on one of `tp` GPUs. Made by `ModelConfig.decode`, `.prefill` and `.mixed`.

    The numbers are JAX leaves of any one shape (scalars, or a sweep's axis); model, phase, `tp` and formats are
    static, and alone decide which kernels there are. So changing a number never recompiles what reads the step.

    Attributes:
        decode_batch: sequences that decode one token each; 0 in a prefill step.
        context: tokens each of them attends to, its own included.
        prefill_batch: sequences being prefilled; 0 in a decode step.
        prompt: new tokens of each of them in this step.
        prefix: tokens each of them already has in the cache.
        model: the model.
        phase: "decode", "prefill" or "mixed".
        tp: GPUs the model is split over.
        weights: weight format, "bf16", "fp8", "fp4" (NVFP4) or "mxfp4" (experts in MXFP4, the rest in BF16).
        kv: format of the cache, "bf16" or "fp8".

    Examples:
        >>> from factorgraph.workload import load_model
        >>> step = load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> step.coords["gemm"]
        ('qkv_proj', 'o_proj', 'gate_up_proj', 'down_proj', 'lm_head')
        >>> step.values()["m"].tolist()
        [64.0, 64.0, 64.0, 64.0, 64.0]
    """

    decode_batch: Array = eqx.field(converter=_number)
    context: Array = eqx.field(converter=_number)
    prefill_batch: Array = eqx.field(converter=_number)
    prompt: Array = eqx.field(converter=_number)
    prefix: Array = eqx.field(converter=_number)
    model: "ModelConfig" = eqx.field(static=True)
    phase: Phase = eqx.field(static=True)
    tp: int = eqx.field(static=True)
    weights: str = eqx.field(static=True)
    kv: str = eqx.field(static=True)

    @property
    def tokens(self) -> Array:
        """Tokens that pass through the layers."""
        return self.decode_batch + self.prefill_batch * self.prompt

    @property
    def batch(self) -> Array:
        """Sequences in the step, each of which gets logits."""
        return self.decode_batch + self.prefill_batch

    @property
    def resident_bytes(self) -> Array:
        """B of one GPU that its weights and the cache of all sequences in the step take.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> step = load_model("llama-3.1-8b").decode(batch=64, context=2048)
            >>> f"{(float(step.resident_bytes) - 64 * 2048 * 131072) / 1e9:.1f} GB"
            '16.1 GB'
        """
        prefilled = 0.0 if self.phase == "decode" else self.prefill_batch * (self.prefix + self.prompt)
        cached = prefilled + (0.0 if self.phase == "prefill" else self.decode_batch * self.context)
        weights = self.model.weight_bytes(tp=self.tp, weights=self.weights)
        return weights + cached * self._kv_bytes_per_token()

    def kernels(self) -> Mapping[str, Mapping[str, Kernel]]:
        """The kernel table: plate, kernel name, and the kernel's numbers per launch and GPU."""
        return {
            "gemm": {part.name: self._gemm(part) for part in self._projections()},
            "attention": self._attention(),
            "light": self._light(),
            "collective": self._collectives(),
        }

    @property
    def coords(self) -> dict[str, tuple[str, ...]]:
        """Kernel names of each plate, in the order of `values()`."""
        return {plate: tuple(kernels) for plate, kernels in self.kernels().items()}

    @property
    def gemm_dtypes(self) -> tuple[str, ...]:
        """The type each GEMM multiplies in: "bf16", "fp8" or "fp4", in the order of the gemm plate."""
        return tuple(part.format(self.weights).dtype for part in self._projections())

    @property
    def label(self) -> tuple[str, str]:
        """What several steps are told apart by in a result: the dimension "step", and this one's name on it.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> load_model("llama-3.1-8b").decode(batch=64, context=2048).label
            ('step', 'llama-3.1-8b decode batch=64 context=2048 tp=1 weights=bf16 kv=bf16')
        """
        numbers = {
            "decode": {"batch": self.decode_batch, "context": self.context},
            "prefill": {"batch": self.prefill_batch, "prompt": self.prompt, "prefix": self.prefix},
            "mixed": {
                "decode_batch": self.decode_batch,
                "context": self.context,
                "chunk": self.prompt,
                "prefix": self.prefix,
            },
        }[self.phase]
        words = [f"{name}={','.join(f'{one:.10g}' for one in np.ravel(number))}" for name, number in numbers.items()]
        return "step", " ".join(
            [self.model.name, self.phase, *words, f"tp={self.tp}", f"weights={self.weights}", f"kv={self.kv}"]
        )

    def accepts(self, other: Any) -> None:
        """Any card may run a step; it is for the card to refuse a type in `gemm_dtypes` that it has no rate for."""

    def values(self) -> dict[str, Array]:
        """Every variable that the step supplies to a graph, by name.

        Returns:
            The fields of `Gemm`, `Attention`, `Light` and `Collective` (factorgraph.workload.kernels), each an array
            whose last axis is its plate; and without a plate: `tokens`, `sequences`, `weight_bytes` (B of weights on
            one GPU) and `kv_bytes_per_token` (B of cache on one GPU: what a sequence of this step's length takes, over
            its tokens; sliding layers keep no more than their window).

        Examples:
            >>> from factorgraph.workload import load_model
            >>> step = load_model("llama-3.1-8b").decode(batch=1, context=1024)
            >>> float(step.values()["kv_bytes_per_token"])
            131072.0
        """
        values = {}
        for kernels in self.kernels().values():
            for name, column in zip(_fields(kernels.values()), zip(*kernels.values(), strict=True), strict=True):
                values[name] = jnp.stack(jnp.broadcast_arrays(*map(_number, column)), axis=-1)
        return values | {
            "tokens": self.tokens,
            "sequences": self.batch,
            "weight_bytes": _number(self.model.weight_bytes(tp=self.tp, weights=self.weights)),
            "kv_bytes_per_token": self._kv_bytes_per_token(),
        }

    def table(self) -> list[dict[str, str | float]]:
        """Rows to display: plate, kernel, launches in the step, and FLOP and bytes of one launch on one GPU.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> step = load_model("llama-3.1-8b").decode(batch=64, context=2048)
            >>> step.table()[0] == {"plate": "gemm", "kernel": "qkv_proj", "launches": 32.0,
            ...                     "flop": 2.0 * 64 * 6144 * 4096, "bytes": 2.0 * (6144 * 4096 + 64 * (6144 + 4096))}
            True
        """
        return [
            {"plate": plate, "kernel": name}
            | {key: float(getattr(kernel, key)) for key in ("launches", "flop", "bytes")}
            for plate, kernels in self.kernels().items()
            for name, kernel in kernels.items()
        ]

    def _projections(self) -> Iterable[Projection]:
        absent = {"decode": "prefilled", "prefill": "decoded"}.get(self.phase)
        return (part for part in self.model.projections(self.tp) if part.rows != absent)

    def _gemm(self, part: Projection) -> Gemm:
        groups = part.copies
        match part.rows:
            case "token":
                rows = self.tokens
            case "sequence":
                rows = self.batch
            case "decoded":
                rows = self.decode_batch
            case "prefilled":  # the cached prefix is expanded again with the new tokens
                rows = self.prefill_batch * (self.prefix + self.prompt)
            case "routed":
                groups = _at_least(part.used, touched_experts(int(part.copies), int(part.used), self.tokens))
                rows = _at_least(1.0, self.tokens * part.used / groups)
        number_format = part.format(self.weights)
        return Gemm(
            m=rows,
            n=part.n,
            k=part.k,
            gemm_groups=groups,
            gemm_count=part.layers,
            gemm_type=TENSOR_TYPES.index(number_format.dtype),
            weight_element_size=number_format.weight_size,
            activation_element_size=number_format.activation_size,
            output_element_size=ACTIVATION_SIZE,
            quantises=0.0,
            quantise_library=float(LIBRARIES.index("vllm")),
        )

    def _attention(self) -> dict[str, Attention]:
        """Decode over the cache; prefill over a triangle, or in sliding layers over the band that is left of it."""
        model, kv_size = self.model, KV_SIZES[self.kv]
        kernels = {}
        for suffix, layers, window in (
            ("", model.layers - model.sliding_layers, None),
            ("_sliding", model.sliding_layers, model.sliding_window),
        ):
            windowed = float(window is not None)
            if layers and self.phase != "prefill":
                heads = model.attention.decode_heads(self.tp, kv_size)
                seen = _within(window, self.context)
                kernels[f"attention_decode{suffix}"] = Attention(
                    self.decode_batch, 1.0, seen, 0.0, windowed, 0.0, layers, *heads
                )
            if layers and self.phase != "decode":
                heads = model.attention.prefill_heads(self.tp, kv_size)
                if window is None:
                    seen, causal = self.prefix + self.prompt, 1.0
                else:
                    seen, causal = mean_attended(self.prompt, self.prefix, window), 0.0
                kernels[f"attention_prefill{suffix}"] = Attention(
                    self.prefill_batch, self.prompt, seen, causal, windowed, 0.0, layers, *heads
                )
        return kernels

    def _light(self) -> dict[str, Light]:
        """Kernels as engines launch them: each norm fused with the residual addition before it and, for narrow
        weights, with quantising what it writes; the gated activation apart from the products around it."""
        model, tokens, tp = self.model, self.tokens, self.tp
        hidden_bytes = tokens * model.hidden_size * ACTIVATION_SIZE
        chosen = FORMATS[self.weights]
        narrow_size = None if chosen.dtype == "bf16" else chosen.activation_size
        cached = model.attention.cached_elements(tp)
        kernels = {
            "embedding": Light(2 * hidden_bytes, 1.0),
            "norm": Light(
                3 * hidden_bytes + tokens * model.hidden_size * (narrow_size or ACTIVATION_SIZE), 2 * model.layers + 1
            ),
        }
        if model.norms_per_layer == 4:
            kernels["post_norm"] = Light(2 * hidden_bytes, 2 * model.layers)
        kernels |= model.attention.light(tokens, model.layers, tp)
        kernels["kv_write"] = Light(tokens * cached * (ACTIVATION_SIZE + KV_SIZES[self.kv]), model.layers)
        if narrow_size is not None:
            kernels["attention_quantise"] = Light(
                tokens * model.attention.output_width(tp) * (ACTIVATION_SIZE + narrow_size), model.layers
            )
        for part in model.feedforwards:
            kernels |= part.light(tokens, model.hidden_size, tp, narrow_size)
        logits = self.batch * model.vocab_size
        if model.logit_softcap:
            kernels["logit_softcap"] = Light(logits * 2 * ACTIVATION_SIZE, 1.0)
        # Widened to FP32 and read once more to draw from.
        kernels["sampling"] = Light(logits * (ACTIVATION_SIZE + 4 + 4), 1.0)
        return kernels

    def _collectives(self) -> dict[str, Collective]:
        """On one GPU the same two stand with a count of 0, so that `tp` changes no plate."""
        split, custom = float(self.tp > 1), float(LIBRARIES.index("vllm"))
        hidden_bytes = self.tokens * self.model.hidden_size * ACTIVATION_SIZE
        logit_bytes = self.batch * self.model.vocab_size * ACTIVATION_SIZE
        return {
            # After attention, after the feed-forward layer, and after the embedding, whose rows are dealt out.
            "all_reduce": Collective(hidden_bytes, float(self.tp), custom, split * (2 * self.model.layers + 1)),
            # Gathering V bytes moves half of what reducing V bytes does: it stands as an all-reduce of V/2.
            "all_gather_logits": Collective(logit_bytes / 2, float(self.tp), custom, split),
        }

    def _kv_bytes_per_token(self) -> Array:
        model = self.model
        length = self.prefix + self.prompt if self.phase == "prefill" else self.context
        kept = _within(model.sliding_window, length) / length
        layers = (model.layers - model.sliding_layers) + model.sliding_layers * kept
        return layers * model.attention.cached_elements(self.tp) * KV_SIZES[self.kv]


def mean_attended(new: Number, prefix: Number, window: Number) -> Number:
    """Mean number of tokens that each of `new` queries attends to, itself included, after `prefix` cached tokens.

    The queries before the window is full see a token more each, the rest `window` tokens. At the kink the derivative
    is the mean of both sides.

    Args:
        new, prefix: numbers of tokens, of any shape.
        window: tokens the layer attends to at most.

    Examples:
        >>> float(mean_attended(4.0, 0.0, 2))  # 1, 2, 2, 2
        1.75
    """
    start = _within(window, prefix)
    growing = _within(window, prefix + new) - start
    return (growing * (start + (growing + 1.0) / 2.0) + (new - growing) * window) / new


def _within(window: Number | None, length: Number) -> Number:
    return length if window is None else jnp.minimum(length, window)


def _at_least(least: float, value: Number) -> Number:
    """Undo a rounding that took the value below its bound, and leave its derivative alone."""
    return value + lax.stop_gradient(jnp.maximum(least - value, 0.0))


def _fields(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    return next(iter(kernels))._fields
