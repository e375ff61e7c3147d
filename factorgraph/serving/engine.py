"""Serving engines: how each schedules, what memory it takes and how many kernels it launches, with sources."""

import os
import tomllib
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.hardware import Sku
from factorgraph.paths import search_path
from factorgraph.replay.policy import Policy, Priority, Reserve
from factorgraph.workload import ModelConfig
from factorgraph.workload.attention import GroupedAttention

T = TypeVar("T")


class Stated(BaseModel, Generic[T]):
    """A fact, where it stands, and whether it was read there: False where it is assumed, chosen or from memory."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    value: T
    source: str = Field(min_length=1)
    verified: bool = True


class Engine(BaseModel):
    """What is known of a serving engine. `load_engine` reads it from a TOML file, a line a fact.

    Attributes:
        name: by which it is loaded.
        title: name and versions.
        priority, reserve, step_tokens, max_sequences: how it puts steps together; see `Policy`.
        mixed_steps: whether prompts and decodes share a step.
        memory_share: share of a GPU's memory for weights and cache; `memory_share_large` for models whose weights
            take more than 0.8 of it.
        share_of_free: whether the share is of what weights and workspace leave, and not of the whole memory.
        workspace_bytes: memory beside weights and cache, B.
        kv_fp8, kv_fp8_blackwell: whether a quantised checkpoint has its cache in FP8; on Blackwell.
        layer_kernels: kernels of a dense layer.
        qk_norm_kernels: further ones where queries and keys are normalised.
        fused_experts: when routing and experts are one path of three kernels instead of six: "fp4 on blackwell" and
            model types.

    Examples:
        >>> load_engine("vllm").step_tokens.value
        8192
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    title: str
    priority: Stated[Priority]
    mixed_steps: Stated[bool]
    step_tokens: Stated[int]
    max_sequences: Stated[int]
    reserve: Stated[Reserve]
    memory_share: Stated[float]
    memory_share_large: Stated[float]
    share_of_free: Stated[bool]
    workspace_bytes: Stated[float]
    kv_fp8: Stated[bool]
    kv_fp8_blackwell: Stated[bool]
    layer_kernels: Stated[int]
    qk_norm_kernels: Stated[int]
    fused_experts: Stated[list[str]]

    def kv_pool(self, sku: Sku, weight_bytes: float) -> float:
        """Memory of one GPU that is left to the cache, B; 0 where the weights leave none.

        Examples:
            >>> from factorgraph import load_sku
            >>> pool = load_engine("vllm").kv_pool(load_sku("h100-sxm"), 16e9)
            >>> round(pool / 1e9, 1)
            58.3
        """
        large = weight_bytes > 0.8 * sku.dram_capacity
        share = (self.memory_share_large if large else self.memory_share).value
        taken = weight_bytes + self.workspace_bytes.value
        pool = share * (sku.dram_capacity - taken) if self.share_of_free.value else share * sku.dram_capacity - taken
        return max(pool, 0.0)

    def reserved_tokens(self, input_tokens: Any, output_tokens: Any) -> Any:
        """Tokens of cache that a running request holds: all it will need, or on the mean half of its answer.

        Examples:
            >>> load_engine("vllm").reserved_tokens(1000, 200), load_engine("trtllm").reserved_tokens(1000, 200)
            (1100.0, 1200.0)
        """
        return input_tokens + (1.0 if self.reserve.value == "whole" else 0.5) * output_tokens

    def policy(self, kv_capacity: int | None = None) -> Policy:
        """Its scheduling policy, for a replay.

        Args:
            kv_capacity: tokens that the cache holds.

        Examples:
            >>> load_engine("sglang").policy().priority
            'prefill first'
        """
        return Policy(
            step_tokens=self.step_tokens.value,
            max_sequences=self.max_sequences.value,
            priority=self.priority.value,
            kv_capacity=kv_capacity,
            reserve=self.reserve.value,
        )

    def kv_format(self, sku: Sku, *, quantised: bool) -> Literal["bf16", "fp8"]:
        """Format of the cache that it chooses by itself.

        Examples:
            >>> from factorgraph import load_sku
            >>> load_engine("vllm").kv_format(load_sku("b200"), quantised=True)
            'fp8'
        """
        narrow = self.kv_fp8_blackwell if is_blackwell(sku) else self.kv_fp8
        return "fp8" if quantised and narrow.value else "bf16"

    def normalisation_kernels(self, model: ModelConfig) -> int:
        """Kernels a layer that normalise queries and keys."""
        attention = model.attention
        return self.qk_norm_kernels.value if isinstance(attention, GroupedAttention) and attention.qk_norm else 0


def is_blackwell(sku: Sku) -> bool:
    """Whether a GPU is of a Blackwell generation, for which engines have kernels of their own."""
    return sku.generation.startswith("blackwell")


def list_engines() -> tuple[str, ...]:
    """Names that `load_engine` knows: the user's own (FACTORGRAPH_PATH) and the bundled ones.

    Examples:
        >>> list_engines()
        ('sglang', 'trtllm', 'vllm')
    """
    return tuple(sorted({file.stem for folder in search_path("engines") for file in folder.glob("*.toml")}))


def load_engine(engine: str | os.PathLike[str] | Engine) -> Engine:
    """Read an engine's facts.

    Args:
        engine: a name from `list_engines()`, the path of a TOML file, or an `Engine`, which comes back as it is.

    Raises:
        UnknownNameError: no engine has that name.
        FactorGraphError: the file cannot be read, or a fact is missing, unknown, or of the wrong kind; it is named.

    Examples:
        >>> load_engine("trtllm").reserve.value
        'whole'
    """
    if isinstance(engine, Engine):
        return engine
    file = _find(engine)
    try:
        facts = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FactorGraphError(f"engine file {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FactorGraphError(f"engine file {file} is no TOML: {error}") from None
    try:
        return Engine.model_validate(facts | {"name": file.stem})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        fact = ".".join(map(str, first["loc"]))
        message = first["msg"][0].lower() + first["msg"][1:]
        raise FactorGraphError(f"engine file {file}: {fact}: {message}") from None


def _find(engine: Any) -> Path:
    if isinstance(engine, os.PathLike) or (isinstance(engine, str) and engine.endswith(".toml")):
        return Path(engine).expanduser()
    files = {file.stem: file for folder in reversed(list(search_path("engines"))) for file in folder.glob("*.toml")}
    if engine not in files:
        raise UnknownNameError("engine", str(engine), files)
    return files[engine]
