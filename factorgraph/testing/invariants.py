"""What a composed step graph must keep, whatever laws it is made of."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import hypothesis
import jax
import numpy as np
from hypothesis import HealthCheck
from hypothesis import strategies as st
from jax import Array

from factorgraph.attribution import FACTORS, waterfall
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.hardware import Sku
from factorgraph.testing.inputs import skus
from factorgraph.testing.strategies import given_strategy
from factorgraph.workload import ModelConfig, load_model

_MODEL = "llama-3.1-8b"
_EXAMPLES = 10
# Ladder that an input is moved along, upwards.
_LADDER = (0.25, 0.5, 0.9, 1.0, 1.001, 1.02, 1.1, 1.3, 2.0, 4.0)
# float32 through some hundred operations and a sum over kernels.
_ROUNDING = 1e-4


class GraphError(AssertionError):
    """A graph that broke an invariant. The text names the invariant, the smallest example and the numbers."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """A graph, a card and the size of a step, on which an invariant is judged."""

    graph: FactorGraph
    sku: Sku
    model: ModelConfig
    batch: int
    context: int

    def decode(self, *, batch: int | None = None, context: int | None = None, layers: int = 1) -> dict[str, Any]:
        """Values of a decode step, of a model with so many times its layers."""
        model = _deeper(self.model, layers)
        return self.values(model.decode(batch=batch or self.batch, context=context or self.context))

    def prefill(self, batch: int) -> dict[str, Any]:
        return self.values(self.model.prefill(batch=batch, prompt=2048))

    def values(self, step: Any) -> dict[str, Any]:
        supplied = self.sku.values() | step.values()
        known = self.graph.variables
        return {name: np.asarray(value, np.float32) for name, value in supplied.items() if name in known}

    def evaluate(self, values: Mapping[str, Any]) -> dict[str, Array]:
        return _evaluate(self.graph, dict(values))

    def __str__(self) -> str:
        sku = self.sku
        return (
            f"{self.model.name} batch = {self.batch}, context = {self.context} on {sku.name} with sm_count = "
            f"{sku.sm_count:g}, boost_clock = {sku.boost_clock:.6g} Hz, power_cap = {sku.power_cap:.6g} W, "
            f"dram_bandwidth = {sku.dram_bandwidth:.6g} B/s"
        )


Invariant = Callable[[Scene], str | None]


def check_graph(
    graph: FactorGraph,
    *,
    invariants: Iterable[str] | None = None,
    model: str = _MODEL,
    cards: st.SearchStrategy[Sku] | None = None,
    examples: int = _EXAMPLES,
    seed: int = 0,
) -> None:
    """Hold a step graph to what no composition of laws may break.

    Args:
        graph: one that gives `t_step` of a card and a step.
        invariants: names out of `INVARIANTS`; all by default.
        model: whose steps it is asked of.
        cards: strategy for GPUs; by default `skus()`.
        examples: cards and steps drawn for each invariant.
        seed: of the draw.

    Raises:
        GraphError: the first invariant that fails, with the smallest example found.
        UnknownNameError: an invariant of another name.
        FactorGraphError: the graph gives no t_step.

    Examples:
        >>> from factorgraph import step_graph
        >>> check_graph(step_graph("base"), invariants=["falls with bandwidth"], examples=2)
    """
    if "t_step" not in graph:
        raise FactorGraphError("check_graph needs a graph that gives 't_step'; start from step_graph()")
    drawn = st.builds(
        Scene,
        graph=st.just(graph),
        sku=given_strategy(cards, "cards", "load_sku('h100-sxm')", skus()),
        model=st.just(load_model(model)),
        batch=st.integers(1, 512),
        context=st.integers(1, 4096),
    )
    for name in INVARIANTS if invariants is None else invariants:
        if name not in INVARIANTS:
            raise UnknownNameError("invariant", name, INVARIANTS)
        _run(name, drawn, examples, seed)


def _run(name: str, scenes: st.SearchStrategy[Scene], examples: int, seed: int) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given],
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(scenes)
    def holds(scene: Scene) -> None:
        if complaint := INVARIANTS[name](scene):
            raise GraphError(f"the graph fails '{name}': {complaint}\n  smallest example: {scene}")

    try:
        holds()
    except GraphError as error:
        raise GraphError(str(error)) from None


@eqx.filter_jit
def _evaluate(graph: FactorGraph, values: dict[str, Any]) -> dict[str, Array]:
    return graph.evaluate(values)


@eqx.filter_jit
def _times(graph: FactorGraph, stacked: dict[str, Any]) -> Array:
    return jax.vmap(lambda values: graph.evaluate(values)["t_step"])(stacked)


# --- the invariants --------------------------------------------------------------------------------------------------


def _falls_with_clock(scene: Scene) -> str | None:
    return _falls_along("sm_clock", scene.decode(), scene)


def _falls_with_power_cap(scene: Scene) -> str | None:
    return _falls_along("power_cap", scene.decode(), scene)


def _falls_with_bandwidth(scene: Scene) -> str | None:
    """With power to spare: at a cap that binds, busier tensor cores may cost more clock than the memory gains."""
    spare = scene.graph.variables["power_cap"].domain.upper
    return _falls_along("dram_bandwidth", scene.decode() | {"power_cap": np.float32(spare)}, scene)


def _falls_along(name: str, base: dict[str, Any], scene: Scene) -> str | None:
    highest = scene.graph.variables[name].domain.upper
    rungs = [min(float(base[name]) * rung, highest) for rung in _LADDER]
    return _ordered([{**base, name: np.float32(rung)} for rung in rungs], rungs, name, -1, scene)


def _ordered(cases: list[dict[str, Any]], rungs: Sequence[float], name: str, sign: int, scene: Scene) -> str | None:
    """A complaint where t_step moves against the sign from one case to the next."""
    stacked = {key: np.stack([case[key] for case in cases]) for key in cases[0]}
    times = np.asarray(_times(scene.graph, stacked), np.float64)
    wrong = sign * np.diff(times) < -_ROUNDING * times[1:]
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    way = "rises" if sign < 0 else "falls"
    low, high = rungs[at : at + 2]
    return f"t_step {way} from {times[at]:.9g} s to {times[at + 1]:.9g} s as {name} goes from {low:.9g} to {high:.9g}"


def _rises_with_batch(scene: Scene) -> str | None:
    rungs = [scene.batch + more for more in (0, 1, 8, 64, 512, 4096)]
    return _ordered([scene.decode(batch=rung) for rung in rungs], rungs, "batch", +1, scene)


def _rises_with_context(scene: Scene) -> str | None:
    rungs = [scene.context + more for more in (0, 1, 8, 64, 512, 4096)]
    return _ordered([scene.decode(context=rung) for rung in rungs], rungs, "context", +1, scene)


def _rises_with_layers(scene: Scene) -> str | None:
    rungs = [1, 2, 3]
    return _ordered([scene.decode(layers=rung) for rung in rungs], rungs, "layers", +1, scene)


def _multiplies_out(scene: Scene) -> str | None:
    """The five factors of each GEMM multiply to what it achieves of the peak."""
    if not set(FACTORS) <= {output.name for output in scene.graph.outputs}:
        return None
    try:
        waterfall(scene.graph, scene.sku, scene.model.decode(batch=scene.batch, context=scene.context))
    except FactorGraphError as error:
        return str(error)
    return None


def _splitting_never_pays(scene: Scene) -> str | None:
    """Where compute bounds the step, two halves of a batch take no less GPU time than the whole."""
    whole, half = (float(scene.evaluate(scene.prefill(batch))["t_gpu"]) for batch in (8, 4))
    if 2.0 * half < whole * (1.0 - _ROUNDING):
        return f"two prefills of 4 prompts take {2.0 * half:.9g} s, and one of all 8 takes {whole:.9g} s"
    return None


def _part_is_whole(scene: Scene) -> str | None:
    """What a part of the graph gives for a variable, the whole gives too."""
    values = scene.decode()
    whole = scene.evaluate(values)
    for output in ("t_gemm", "t_attention", "t_gpu"):
        part = scene.graph.subgraph(output)
        given = {name: value for name, value in values.items() if name in part.variables}
        alone = np.asarray(_evaluate(part, given)[output])
        if not np.allclose(alone, np.asarray(whole[output]), rtol=_ROUNDING):
            return (
                f"the subgraph of {output} gives {np.max(alone):.9g} s, the whole graph {np.max(whole[output]):.9g} s"
            )
    return None


def _deeper(model: ModelConfig, times: int) -> ModelConfig:
    parts: Any = tuple(dataclasses.replace(part, layers=times * part.layers) for part in model.feedforwards)
    return dataclasses.replace(
        model, layers=times * model.layers, sliding_layers=times * model.sliding_layers, feedforwards=parts
    )


INVARIANTS: dict[str, Invariant] = {
    "falls with clock": _falls_with_clock,
    "falls with power cap": _falls_with_power_cap,
    "falls with bandwidth": _falls_with_bandwidth,
    "rises with batch": _rises_with_batch,
    "rises with context": _rises_with_context,
    "rises with layers": _rises_with_layers,
    "waterfall multiplies out": _multiplies_out,
    "splitting never pays": _splitting_never_pays,
    "part is whole": _part_is_whole,
}
