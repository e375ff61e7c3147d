"""A model as an engine runs it on its GPUs: the kernels it launches in a step, formats and experts' split included."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from factorgraph.errors import FactorGraphError
from factorgraph.hardware import Sku
from factorgraph.serving.engine import Engine, is_blackwell
from factorgraph.workload import ModelConfig
from factorgraph.workload.attention import LatentAttention
from factorgraph.workload.feedforward import Experts
from factorgraph.workload.hybrid import GatedHybridAttention, SparseLatentAttention
from factorgraph.workload.kernels import FORMATS, KV_SIZES, TENSOR_TYPES, Format, Gemm, Light, Projection
from factorgraph.workload.step import Step

# Kernels around the experts of a layer: choose, sort and sum apart from the products, or with them in one path.
# These counts and those below were chosen on served loads.
_EXPERT_KERNELS, _FUSED_EXPERT_KERNELS = 6, 3
# Kernels a layer that come on top: quantising blocks of activations, splitting and joining latents, the recurrence of
# a linear layer, and choosing keys.
_BLOCK_QUANTISE, _LATENT, _LINEAR, _CHOOSE_KEYS = 2, 3, 4, 12


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A model on `tp` GPUs under an engine.

    Attributes:
        sku, model, engine: the GPU, the model, the engine.
        tp: GPUs.
        weights: format of the weights; see FORMATS.
        kv: format of the cache.
        experts: format of routed experts, where it is another one.
        shared: format of shared experts, where it is another one.
        expert_parallel: GPUs that whole experts are dealt to; 1 where each expert is split over all GPUs.
        block_scales: whether activations are quantised by blocks, in kernels of their own.

    Examples:
        >>> import factorgraph as fg
        >>> from factorgraph.serving.engine import load_engine
        >>> deploy(fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b"), load_engine("vllm")).launches
        384.0
    """

    sku: Sku
    model: ModelConfig
    engine: Engine
    tp: int
    weights: str
    kv: str
    experts: Format | None = None
    shared: Format | None = None
    expert_parallel: int = 1
    block_scales: bool = False

    @property
    def expert_layers(self) -> int:
        return sum(part.layers for part in self.model.feedforwards if isinstance(part, Experts))

    @property
    def expert_format(self) -> Format:
        return self.experts or FORMATS[self.weights]

    @property
    def launches(self) -> float:
        """Kernels of a step."""
        model, engine, attention = self.model, self.engine, self.model.attention
        layer = engine.layer_kernels.value + engine.normalisation_kernels(model) + _BLOCK_QUANTISE * self.block_scales
        layer += _LATENT * isinstance(attention, LatentAttention | SparseLatentAttention)
        layer += _CHOOSE_KEYS * isinstance(attention, SparseLatentAttention)
        linear = attention.linear_layers if isinstance(attention, GatedHybridAttention) else 0
        fused = engine.fused_experts.value
        narrow = self.expert_format.weight_size < 1.0 and self.expert_format.dtype != "bf16"
        is_fused = ("fp4 on blackwell" in fused and narrow and is_blackwell(self.sku)) or model.model_type in fused
        experts = _FUSED_EXPERT_KERNELS if is_fused else _EXPERT_KERNELS
        return float(model.layers * layer + _LINEAR * linear + self.expert_layers * experts)

    @property
    def weight_bytes(self) -> float:
        """Weights on one GPU, B."""
        matrices = sum(
            part.parameters(part.copies) * self.format_of(part).weight_size for part in self.model.projections(self.tp)
        )
        return matrices + self.model.vocab_size * self.model.hidden_size / self.tp * FORMATS["bf16"].weight_size

    @property
    def kv_bytes_per_token(self) -> float:
        """Cache that one token takes on one GPU, B; a layer with a window keeps that of all tokens here."""
        attention = self.model.attention
        layers = self.model.layers
        if isinstance(attention, GatedHybridAttention):
            layers = attention.full_layers
        index = attention.index_bytes * layers if isinstance(attention, SparseLatentAttention) else 0.0
        return layers * attention.cached_elements(self.tp) * KV_SIZES[self.kv] + index

    @property
    def kv_pool(self) -> float:
        """Memory of one GPU that is left to the cache, B."""
        return self.engine.kv_pool(self.sku, self.weight_bytes)

    def decode(self, *, batch: Any, context: Any) -> "EngineStep":
        """A step in which `batch` requests decode at a mean context; both may be arrays."""
        step = self.model.decode(batch=jnp.asarray(batch, float), context=context, **self._formats)
        return EngineStep(step, self)

    def mixed(self, *, decode_batch: Any, context: Any, chunk: Any, prefix: Any) -> "EngineStep":
        """The same step with `chunk` tokens of a prompt in it, after `prefix` tokens of it; all may be arrays."""
        step = self.model.mixed(
            decode_batch=jnp.asarray(decode_batch, float),
            context=context,
            chunk=jnp.asarray(chunk, float),
            prefix=prefix,
            **self._formats,
        )
        return EngineStep(step, self)

    def format_of(self, part: Projection) -> Format:
        """The format of one of the model's matrices."""
        stated = {"experts": self.experts, "shared": self.shared}.get(part.name.partition("_")[0])
        return stated or part.format(self.weights)

    @property
    def _formats(self) -> dict[str, Any]:
        return {"tp": self.tp, "weights": self.weights, "kv": self.kv}


class EngineStep(eqx.Module):
    """A step as a deployment runs it: a source of values, as a `Step` is."""

    step: Step
    deployment: Deployment = eqx.field(static=True)

    @property
    def label(self) -> tuple[str, str]:
        return self.step.label

    @property
    def coords(self) -> dict[str, tuple[str, ...]]:
        return {plate: tuple(kernels) for plate, kernels in self.kernels().items()}

    @property
    def tp(self) -> int:
        return self.step.tp

    @property
    def gemm_dtypes(self) -> tuple[str, ...]:
        return tuple(TENSOR_TYPES[int(gemm.gemm_type)] for gemm in self.kernels()["gemm"].values())

    def accepts(self, other: Any) -> None:
        """Any card may run a step; it is for the card to refuse."""

    def kernels(self) -> dict[str, dict[str, Any]]:
        """The step's kernel table, with this deployment's formats, experts' split and further kernels."""
        table: dict[str, dict[str, Any]] = {plate: dict(kernels) for plate, kernels in self.step.kernels().items()}
        table["gemm"] = {name: self._gemm(name, gemm) for name, gemm in table["gemm"].items()}
        table["light"] = {name: self._light(name, light) for name, light in table["light"].items()}
        attention = self.deployment.model.attention
        if isinstance(attention, GatedHybridAttention):
            scale = attention.full_layers / self.deployment.model.layers
            table["attention"] = {
                name: one._replace(attention_count=one.attention_count * scale)
                for name, one in table["attention"].items()
            }
            table["attention"]["recurrence"] = attention.recurrence(self.step.decode_batch, self.step.tp)
        if isinstance(attention, SparseLatentAttention):
            table["gemm"] |= self._index_scores(attention)
        return table

    def values(self) -> dict[str, Any]:
        """Every variable that the step supplies to a graph, by name; a batch of cases stands in front of a plate."""
        found: dict[str, Any] = {}
        for kernels in self.kernels().values():
            rows = list(kernels.values())
            for name, column in zip(rows[0]._fields, zip(*rows, strict=True), strict=True):
                found[name] = np.stack(np.broadcast_arrays(*(np.asarray(one, float) for one in column)), axis=-1)
        return found | {
            "tokens": self.step.tokens,
            "sequences": self.step.batch,
            "launches": self.deployment.launches,
            "prompt_chunks": self.step.prefill_batch,
            "weight_bytes": self.deployment.weight_bytes,
            "kv_bytes_per_token": self.deployment.kv_bytes_per_token,
        }

    def _gemm(self, name: str, gemm: Gemm) -> Gemm:
        stated = {"experts_": self.deployment.experts, "shared_": self.deployment.shared}
        for prefix, chosen in stated.items():
            if chosen is not None and name.startswith(prefix):
                gemm = gemm._replace(
                    gemm_type=TENSOR_TYPES.index(chosen.dtype),
                    weight_element_size=chosen.weight_size,
                    activation_element_size=chosen.activation_size,
                )
        ranks = self.deployment.expert_parallel
        if ranks > 1 and name.startswith("experts_"):
            width = {"n": gemm.n * ranks} if name == "experts_gate_up_proj" else {"k": gemm.k * ranks}
            gemm = gemm._replace(gemm_groups=gemm.gemm_groups / ranks, **width)
        return gemm

    def _light(self, name: str, light: Light) -> Light:
        """A GPU that holds whole experts moves only the rows of its own."""
        dealt = self.deployment.expert_parallel if name in ("permute", "combine") else 1
        return light._replace(light_bytes=light.light_bytes / dealt)

    def _index_scores(self, attention: SparseLatentAttention) -> dict[str, Gemm]:
        """Scoring all keys to choose those that are attended to, for decodes and for a prompt."""
        found: dict[str, tuple[Any, Any, Any]] = {
            "index_scores_decode": (self.step.decode_batch, 1.0, self.step.context)
        }
        if self.step.phase == "mixed":
            seen = self.step.prefix + (self.step.prompt + 1.0) / 2.0
            found["index_scores_prefill"] = (self.step.prefill_batch, self.step.prompt, seen)
        return {name: attention.index_scores(*sizes, layers=self.step.model.layers) for name, sizes in found.items()}


def deploy(
    sku: Sku, model: ModelConfig, engine: Engine, *, tp: int = 1, weights: str | None = None, kv: str | None = None
) -> Deployment:
    """A model under an engine, with the formats that the checkpoint and the engine choose where none are stated.

    Raises:
        FactorGraphError: the model does not fit the GPUs, or a format is unknown.

    Examples:
        >>> import factorgraph as fg
        >>> from factorgraph.serving.engine import load_engine
        >>> deploy(fg.load_sku("b200"), fg.load_model("llama-3.1-70b"), load_engine("vllm"), weights="fp8", tp=2).kv
        'fp8'
    """
    weights = weights or model.decode(batch=1, context=1, tp=tp).weights
    kv = kv or engine.kv_format(sku, quantised=FORMATS[weights].dtype != "bf16" if weights in FORMATS else False)
    model.decode(batch=1, context=1, tp=tp, weights=weights, kv=kv)
    # FP4 comes with a scale for every 16 elements, written by a kernel of its own.
    found = Deployment(sku, model, engine, tp, weights, kv, block_scales=weights == "fp4")
    if found.kv_pool < found.kv_bytes_per_token:
        raise FactorGraphError(
            f"{model.name} in {weights} takes {found.weight_bytes / 1e9:.0f} GB on each of {tp} GPUs, which leaves "
            f"no room for a cache in the {sku.dram_capacity / 1e9:.0f} GB of {sku.name}; raise tp or narrow the weights"
        )
    return found
