"""A decoder-only language model as its kernels see it: sizes, parameter count, bytes, and the steps it can make."""

import dataclasses
import operator
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.workload.attention import AbstractAttention
from factorgraph.workload.feedforward import Experts, FeedForward
from factorgraph.workload.kernels import BF16, FORMATS, KV_SIZES, Projection
from factorgraph.workload.step import Phase, Step


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """What `load_model` reads from a `config.json`.

    Attributes:
        name, model_type: how it was called, and its family as Hugging Face names it.
        hidden_size, layers, vocab_size, max_position: widths and lengths.
        tied_embeddings: whether the LM head is the embedding table.
        attention: its attention.
        sliding_window, sliding_layers: tokens that sliding-window layers attend to, and how many layers those are.
        feedforwards: dense layers, experts, or both, each with its number of layers.
        norms_per_layer: 2, or 4 where branches are normalised after as well as before.
        logit_softcap: whether logits are capped.
        checkpoint_weights: how the checkpoint stores weights: a weight format, or a method that has no kernel here.
        unread_fields: fields of the file that nothing here reads and nobody has judged harmless.
        ignored: what the file describes beside the decoder, and is left out.
    """

    name: str
    model_type: str
    hidden_size: int
    layers: int
    vocab_size: int
    max_position: int
    tied_embeddings: bool
    attention: AbstractAttention
    feedforwards: tuple[FeedForward | Experts, ...]
    sliding_window: int | None = None
    sliding_layers: int = 0
    norms_per_layer: int = 2
    logit_softcap: bool = False
    checkpoint_weights: str = "bf16"
    unread_fields: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def parameter_count(self) -> int:
        """Parameters of the decoder, a tied embedding counted once.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> load_model("llama-3.1-8b").parameter_count
            8030261248
        """
        return self._count(operator.attrgetter("copies"))

    @property
    def active_parameter_count(self) -> int:
        """Parameters that one token uses, embedding table and LM head included; all of them without experts.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> round(load_model("mixtral-8x7b").active_parameter_count / 1e9, 1)
            12.9
        """
        return self._count(operator.attrgetter("used"))

    def projections(self, tp: int = 1) -> Iterator[Projection]:
        """The weight matrices that one of `tp` GPUs multiplies with."""
        yield from self.attention.projections(self.hidden_size, self.layers, tp)
        for part in self.feedforwards:
            yield from part.projections(self.hidden_size, tp)
        yield Projection(
            "lm_head",
            self.vocab_size / tp,
            self.hidden_size,
            1,
            rows="sequence",
            quantised=False,
            owns_weights=not self.tied_embeddings,
        )

    def weight_bytes(self, *, tp: int = 1, weights: str | None = None) -> float:
        """Bytes of weights on one of `tp` GPUs; norms, which are under 0.1 %, left out.

        Args:
            tp: GPUs the model is split over.
            weights: weight format; without one, the checkpoint's.

        Raises:
            FactorGraphError: the model cannot be split so, or the format is unknown.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> round(load_model("llama-3.1-8b").weight_bytes() / 1e9, 2)
            16.06
        """
        self._check_split(tp)
        weights = self._weight_format(weights)
        matrices = sum(part.parameters(part.copies) * part.format(weights).weight_size for part in self.projections(tp))
        return matrices + self.vocab_size * self.hidden_size / tp * BF16.weight_size

    def decode(self, *, batch: Any, context: Any, tp: int = 1, weights: str | None = None, kv: str = "bf16") -> Step:
        """A step in which each of `batch` sequences decodes one token.

        Args:
            batch: sequences, a whole number, or a JAX array of any shape for sweeps and derivatives.
            context: tokens each attends to, the new one included; a mean over the batch may be fractional.
            tp: GPUs the model is split over.
            weights: "bf16", "fp8", "fp4" or "mxfp4"; without one, the checkpoint's.
            kv: "bf16" or "fp8".

        Raises:
            FactorGraphError: a number out of range, a split that does not come out even, an unknown format.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> load_model("llama-3.1-8b").decode(batch=64, context=2048).coords["attention"]
            ('attention_decode',)
        """
        _check_whole("batch", batch)
        _check_number("context", context, least=1)
        self._check_positions("context", context)
        return self._step("decode", (batch, context, 0.0, 0.0, 0.0), tp, weights, kv)

    def prefill(
        self,
        *,
        batch: Any = 1,
        prompt: Any = None,
        context: Any = None,
        prefix: Any = 0.0,
        tp: int = 1,
        weights: str | None = None,
        kv: str = "bf16",
    ) -> Step:
        """A step that prefills `batch` prompts.

        Args:
            batch: sequences.
            prompt: new tokens of each; `context` is another name for it.
            context: see `prompt`.
            prefix: tokens of each that the cache already holds.
            tp, weights, kv: as for `decode`.

        Raises:
            FactorGraphError: as for `decode`.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> float(load_model("llama-3.1-8b").prefill(batch=2, prompt=2048).values()["tokens"])
            4096.0
        """
        if (prompt is None) == (context is None):
            raise FactorGraphError("prefill needs the prompt length once: prompt=2048 (or context=2048)")
        prompt = context if prompt is None else prompt
        _check_whole("batch", batch)
        _check_whole("prompt", prompt)
        _check_number("prefix", prefix, least=0)
        self._check_positions("prefix and prompt together", prefix, prompt)
        return self._step("prefill", (0.0, 0.0, batch, prompt, prefix), tp, weights, kv)

    def mixed(
        self,
        *,
        decode_batch: Any,
        context: Any,
        chunk: Any = 512,
        prefix: Any = 0.0,
        tp: int = 1,
        weights: str | None = None,
        kv: str = "bf16",
    ) -> Step:
        """A step of chunked prefill: `decode_batch` sequences decode a token beside `chunk` tokens of one prompt.

        All tokens share one set of matrix products; attention runs once for each kind.

        Args:
            decode_batch: sequences that decode.
            context: tokens each of those attends to.
            chunk: tokens of the prompt in this step.
            prefix: tokens of the prompt that came before.
            tp, weights, kv: as for `decode`.

        Raises:
            FactorGraphError: as for `decode`.

        Examples:
            >>> from factorgraph.workload import load_model
            >>> step = load_model("llama-3.1-8b").mixed(decode_batch=64, context=2048, chunk=512)
            >>> step.values()["m"].tolist()  # the last row of each sequence goes through the LM head
            [576.0, 576.0, 576.0, 576.0, 65.0]
        """
        _check_whole("decode_batch", decode_batch)
        _check_whole("chunk", chunk)
        _check_number("context", context, least=1)
        _check_number("prefix", prefix, least=0)
        self._check_positions("context", context)
        self._check_positions("prefix and chunk together", prefix, chunk)
        return self._step("mixed", (decode_batch, context, 1.0, chunk, prefix), tp, weights, kv)

    def _step(self, phase: Phase, numbers: tuple, tp: int, weights: str | None, kv: str) -> Step:
        self._check_split(tp)
        if kv not in KV_SIZES:
            raise UnknownNameError("KV cache format", kv, KV_SIZES)
        return Step(*numbers, model=self, phase=phase, tp=int(tp), weights=self._weight_format(weights), kv=kv)

    def _count(self, copies: Any) -> int:
        matrices = sum(part.parameters(copies(part)) for part in self.projections())
        norms = (self.norms_per_layer * self.layers + 1) * self.hidden_size
        other = self.layers * self.attention.other_parameters() + sum(
            part.layers * part.other_parameters() for part in self.feedforwards
        )
        return int(matrices) + self.vocab_size * self.hidden_size + norms + other

    def _weight_format(self, weights: str | None) -> str:
        if weights is None:
            if self.checkpoint_weights not in FORMATS:
                raise FactorGraphError(
                    f"the checkpoint of model '{self.name}' stores weights as {self.checkpoint_weights}, "
                    "which has no kernel here; state weights='bf16', 'fp8' or 'fp4'"
                )
            return self.checkpoint_weights
        if weights not in FORMATS:
            raise UnknownNameError("weight format", weights, FORMATS)
        if weights == "mxfp4" and not any(isinstance(part, Experts) for part in self.feedforwards):
            raise FactorGraphError(f"weights 'mxfp4' quantises experts, and model '{self.name}' has none")
        return weights

    def _check_split(self, tp: int) -> None:
        if isinstance(tp, bool) or not isinstance(tp, int | np.integer) or tp < 1:
            raise FactorGraphError(f"tp is {tp!r}; it must be a whole number of GPUs, 1 or more")
        try:
            for part in (self.attention, *self.feedforwards):
                part.check_split(tp)
        except FactorGraphError as error:
            raise FactorGraphError(f"model '{self.name}' cannot be split so: {error}") from None

    def _check_positions(self, what: str, *lengths: Any) -> None:
        if any(isinstance(length, Tracer) for length in lengths):
            return
        longest = np.max(sum(np.asarray(length, float) for length in lengths))
        if longest > self.max_position:
            raise FactorGraphError(
                f"{what} is {longest:g} tokens; model '{self.name}' has {self.max_position} positions"
            )


def _check_number(name: str, value: Any, *, least: float) -> None:
    """Refuse what is no number, or below `least`. A traced value has no number yet and passes."""
    if isinstance(value, Tracer):
        return
    numbers = np.asarray(value) if isinstance(value, int | float | np.ndarray | np.generic | jax.Array) else None
    if numbers is None or numbers.dtype.kind not in "iuf" or not numbers.size:
        raise FactorGraphError(f"{name} is {value!r}; it must be a number")
    if not np.all(np.isfinite(numbers) & (numbers >= least)):
        raise FactorGraphError(f"{name} is {value!r}; it must be finite and {least} or more")


def _check_whole(name: str, value: Any) -> None:
    """Refuse fractions too, save in a JAX array, which may hold a relaxation to differentiate or search over."""
    _check_number(name, value, least=1)
    if not isinstance(value, jax.Array) and np.any(np.asarray(value) % 1):
        raise FactorGraphError(f"{name} is {value!r}; it must be a whole number")
