"""The time of a step as a table over its batch, so that a replay can look it up a million times."""

import dataclasses
import math
from bisect import bisect_right
from typing import Any, Protocol

import equinox as eqx
import jax
import numpy as np
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.replay.policy import Policy
from factorgraph.varying import open_case
from factorgraph.workload.model import ModelConfig
from factorgraph.workload.step import Step

# Points that are evaluated side by side; more take more memory and are no faster.
_BLOCK = 4096


class StepTime(Protocol):
    """Anything that says how long a step takes."""

    def __call__(
        self, decode_tokens: float, decode_context: float, prefill_tokens: float, prefill_pairs: float, /
    ) -> float:
        """Seconds of one step.

        Args:
            decode_tokens: sequences that decode one token each.
            decode_context: tokens that they attend to, the new ones included, summed over the sequences.
            prefill_tokens: tokens of prompts.
            prefill_pairs: keys that these tokens attend to, themselves included, summed over the tokens.
        """
        ...


@dataclasses.dataclass(frozen=True)
class StepTable:
    """A `StepTime` that interpolates between evaluated steps. Made by `tabulate`.

    Products of matrices take a step up where the tokens no longer fit their tiles. That depends on all tokens of a step
    together, so the time of one prompt stands for every number of them, and grids hold what else a step takes.

    Attributes:
        tokens: seconds of one prompt without a prefix, over its tokens.
        decode: seconds beyond those of as many tokens, over sequences and their mean context.
        prefill: the same over tokens and the mean number of keys that a token attends to.
        mixed: the same over all four.
    """

    tokens: "Grid"
    decode: "Grid"
    prefill: "Grid"
    mixed: "Grid"

    def __call__(
        self, decode_tokens: float, decode_context: float, prefill_tokens: float, prefill_pairs: float, /
    ) -> float:
        seconds = self.tokens(decode_tokens + prefill_tokens)
        if not prefill_tokens:
            return seconds + self.decode(decode_tokens, decode_context / decode_tokens)
        prompts = prefill_tokens, prefill_pairs / prefill_tokens
        if not decode_tokens:
            return seconds + self.prefill(*prompts)
        return seconds + self.mixed(decode_tokens, decode_context / decode_tokens, *prompts)


def tabulate(
    graph: FactorGraph,
    sku: Any,
    model: ModelConfig,
    policy: Policy | None = None,
    *,
    max_context: int | None = None,
    tp: int = 1,
    weights: str | None = None,
    kv: str = "bf16",
    **values: Any,
) -> StepTable:
    """Evaluate a graph's step time for every batch that an engine may put together.

    One prompt is evaluated at every number of tokens. What other steps take beyond that is evaluated at nodes that are
    spaced by a constant ratio, and taken as linear in each axis between them. Prompts of several lengths in one step
    stand as prompts of one length with as many tokens and pairs; where these are more than a prompt without a prefix
    has, as one prompt with a prefix.

    Args:
        graph: the laws of a step; it must give `t_step`.
        sku: a card.
        model: a model.
        policy: whose limits the table reaches to; by default `Policy()`.
        max_context: the longest context, prompt and answer together; by default all positions that the model has.
        tp, weights, kv: as for `ModelConfig.decode`.
        **values: further variables in their SI unit, one number each, as for `predict`.

    Raises:
        FactorGraphError: the card or the model cannot do this, a value is more than one number, or a law gives no
            positive and finite time at some step; the message names it.

    Examples:
        >>> import factorgraph as fg
        >>> table = tabulate(fg.step_graph("base"), fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b"),
        ...                  Policy(step_tokens=64, max_sequences=8), max_context=1024)
        >>> table(8, 8 * 512, 0, 0) < table(8, 8 * 512, 56, 56 * 28.5)
        True
    """
    policy = policy or Policy()
    max_context = model.max_position if max_context is None else max_context
    choices = {"tp": tp, "weights": weights, "kv": kv}
    decode = model.decode(batch=1, context=max_context, **choices)
    prefill = model.prefill(prompt=1, **choices)
    mixed = model.mixed(decode_batch=1, context=max_context, chunk=1, **choices)
    every = np.arange(1.0, policy.step_tokens + policy.max_sequences + 1)
    prompt = _step_times(graph, sku, prefill, values, {"prompt tokens": every, "mean keys": (every + 1) / 2})

    def beyond_prompt(step: Step, axes: dict[str, np.ndarray]) -> Grid:
        nodes = dict(zip(axes, np.meshgrid(*axes.values(), indexing="ij"), strict=True))
        tokens = nodes.get("sequences", 0) + nodes.get("prompt tokens", 0)
        return Grid(axes, _step_times(graph, sku, step, values, nodes) - prompt[np.int64(tokens) - 1])

    decodes = {"sequences": _nodes(policy.max_sequences, 2), "mean context": _nodes(max_context, 1)}
    prompts = {"prompt tokens": _nodes(policy.step_tokens, 2), "mean keys": _nodes(max_context, 1)}
    return StepTable(
        tokens=Grid({"tokens": every}, prompt),
        decode=beyond_prompt(decode, decodes),
        prefill=beyond_prompt(prefill, prompts),
        mixed=beyond_prompt(mixed, decodes | prompts),
    )


class Grid:
    """Values on a rectangular grid, linear in each axis between its nodes.

    SciPy's interpolator does the same and takes some 100 µs a point, ten times as long as this one: it is made for
    many points at once, and a replay asks for one after the other.
    """

    def __init__(self, axes: dict[str, np.ndarray], values: np.ndarray):
        self.names = tuple(axes)
        self.nodes = [nodes.tolist() for nodes in axes.values()]
        self.strides = [math.prod(values.shape[place + 1 :]) for place in range(values.ndim)]
        self.values = values.ravel().tolist()

    def __call__(self, *point: float) -> float:
        """The value at a point.

        Raises:
            FactorGraphError: it lies outside the grid.
        """
        corners = [(0, 1.0)]
        for name, nodes, stride, x in zip(self.names, self.nodes, self.strides, point, strict=True):
            if not nodes[0] <= x <= nodes[-1]:
                raise FactorGraphError(
                    f"a step has {name} {x:g}, and its table reaches from {nodes[0]:g} to {nodes[-1]:g}; "
                    "make the table for this policy, and for a max_context that holds the longest request"
                )
            low = min(bisect_right(nodes, x), len(nodes) - 1) - 1
            share = (x - nodes[low]) / (nodes[low + 1] - nodes[low])
            start = low * stride
            corners = [
                corner
                for at, weight in corners
                for corner in ((at + start, weight * (1.0 - share)), (at + start + stride, weight * share))
            ]
        return sum(weight * self.values[at] for at, weight in corners)


def equivalent_prompts(tokens: Any, keys: Any) -> tuple[Any, Any, Any]:
    """Prompts of one length with so many tokens, each of which attends to so many keys in the mean.

    Returns:
        Prompts (not always a whole number), the new tokens of each, and its prefix.

    Examples:
        Four prompts of 256, and a chunk of 1024 after a prefix of 512:

        >>> equivalent_prompts(1024, np.array([128.5, 1024.5]))
        (array([4., 1.]), array([ 256., 1024.]), array([  0., 512.]))
    """
    prompt = np.minimum(2.0 * keys - 1.0, tokens)
    return tokens / prompt, prompt, np.maximum(keys - (tokens + 1) / 2.0, 0.0)


def _step_times(
    graph: FactorGraph, sku: Any, step: Step, values: dict[str, Any], nodes: dict[str, np.ndarray]
) -> np.ndarray:
    """t_step of a step with other numbers in it, at every one of some nodes, in their shape."""
    case, inputs = open_case(graph, [sku, step], values)
    if inputs.dims:
        raise FactorGraphError(f"a table of step times is for one card and setting; '{inputs.dims[0]}' has several")
    leaves = {}
    if step.phase != "prefill":
        leaves |= {"decode_batch": nodes["sequences"], "context": nodes["mean context"]}
    if step.phase != "decode":
        equivalent = equivalent_prompts(nodes["prompt tokens"], nodes["mean keys"])
        leaves |= dict(zip(("prefill_batch", "prompt", "prefix"), equivalent, strict=True))
    flat = {name: np.ravel(numbers) for name, numbers in leaves.items()}
    seconds = np.asarray(_evaluate(case.graph, step, inputs.arrays, case.from_step, flat), float)
    if not (usable := np.isfinite(seconds) & (seconds > 0.0)).all():
        bad = int(np.flatnonzero(~usable)[0])
        where = ", ".join(f"{name} {np.ravel(numbers)[bad]:g}" for name, numbers in nodes.items())
        raise FactorGraphError(f"'t_step' is {seconds[bad]:g} s at {where}; its law does not reach this far")
    return seconds.reshape(next(iter(nodes.values())).shape)


@eqx.filter_jit
def _evaluate(
    graph: FactorGraph,
    step: Step,
    arrays: dict[str, Array],
    from_step: tuple[str, ...],
    leaves: dict[str, np.ndarray],
) -> Array:
    def seconds(leaves: dict[str, Array]) -> Array:
        values = dataclasses.replace(step, **leaves).values()
        return graph.evaluate(arrays | {name: values[name] for name in from_step})["t_step"]

    return jax.lax.map(seconds, leaves, batch_size=_BLOCK)


def _nodes(largest: int, per_octave: int) -> np.ndarray:
    """Whole numbers from 1 to `largest` (at least 2), spaced by a constant ratio where that leaves them apart."""
    largest = max(int(largest), 2)
    count = math.ceil(math.log2(largest) * per_octave) + 1
    return np.unique(np.round(np.geomspace(1, largest, count))).astype(float)
