"""Served loads side by side: many deployments, lengths and numbers of clients, evaluated in one compiled function."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.serving.deployment import Deployment, EngineStep

# What stands in a plate's place that another deployment has no kernel for: launched no times, and harmless.
_ABSENT = {"gemm_count": 0.0, "attention_count": 0.0, "light_count": 0.0, "collective_count": 0.0, "gemm_type": 0.0}
_HARMLESS = 8.0


@dataclasses.dataclass(frozen=True)
class Load:
    """A closed loop on one deployment. All numbers are arrays of one length, an entry a case.

    Attributes:
        deployment: the model on its GPUs.
        requests: clients.
        input_tokens, output_tokens: mean lengths.
        input_square: mean of the squared prompt length, which a prompt's attention goes with.
        context: tokens that a decoding request attends to, on the mean over all decode steps.
        equal_lengths: 1 where all requests have one length.
        held_steps: decode steps that a request is held back.
        requests_per_client: how many requests a client makes.
    """

    deployment: Deployment
    requests: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    input_square: np.ndarray
    context: np.ndarray
    equal_lengths: np.ndarray
    held_steps: np.ndarray
    requests_per_client: np.ndarray

    @property
    def chunk(self) -> np.ndarray:
        """Tokens of a prompt in a step."""
        return np.minimum(self.input_tokens, self.deployment.engine.step_tokens.value)

    @property
    def chunks(self) -> np.ndarray:
        """Steps that a prompt takes part in."""
        return self.input_tokens / self.chunk

    @property
    def prefix(self) -> np.ndarray:
        """Tokens that stand before a chunk, so that all chunks together have the pairs of input_square/2."""
        return np.maximum(0.5 * (self.input_square / self.input_tokens - self.chunk), 0.0)

    def values(self) -> dict[str, np.ndarray]:
        """Inputs of the serving graph, save the two times."""
        deployment, engine = self.deployment, self.deployment.engine
        waves = self.equal_lengths * (engine.priority.value == "prefill first")
        return {
            "requests": self.requests,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "kv_pool": np.full_like(self.requests, deployment.kv_pool),
            "kv_bytes_per_token": np.full_like(self.requests, deployment.kv_bytes_per_token),
            "reserved_tokens": engine.reserved_tokens(self.input_tokens, self.output_tokens),
            "step_tokens": np.full_like(self.requests, engine.step_tokens.value),
            "prefill_first": waves,
            "equal_lengths": self.equal_lengths,
            "requests_per_client": self.requests_per_client,
            "held_steps": self.held_steps,
        }


class Prepared(eqx.Module):
    """Loads ready to be evaluated: values of the decode step, of the step with a chunk in it, and of the loop."""

    decode: dict[str, Array]
    mixed: dict[str, Array]
    loop: dict[str, Array]
    chunks: Array


def prepare(step_graph: FactorGraph, loop_graph: FactorGraph, loads: Sequence[Load]) -> Prepared:
    """Lay out the steps of all loads along one axis, the first of every array.

    Raises:
        FactorGraphError: the step graph reads what neither card nor deployment gives.
    """
    inputs = [load.values() for load in loads]
    loop = {name: np.concatenate([one[name] for one in inputs]) for name in inputs[0]}
    room = loop_graph.subgraph("running")
    running = np.asarray(
        jax.vmap(room.evaluate)({name: jnp.asarray(loop[name], float) for name in room.input_names})["running"]
    )
    ends = np.cumsum([len(load.requests) for load in loads])
    widest = max(len(load.requests) for load in loads)
    decode, mixed = [], []
    for load, resident in zip(loads, np.split(running, ends[:-1]), strict=True):
        one, cases = load.deployment, len(load.requests)
        # As many cases everywhere, so that nothing is compiled for each length anew.
        batch, context, chunk, prefix = (
            np.pad(values, (0, widest - cases), mode="edge")
            for values in (resident, load.context, load.chunk, load.prefix)
        )
        step = one.decode(batch=batch, context=context)
        both = one.mixed(decode_batch=batch, context=context, chunk=chunk, prefix=prefix)
        decode.append(_step_values(step_graph, step, one, cases))
        mixed.append(_step_values(step_graph, both, one, cases))
    return Prepared(
        decode=_side_by_side(step_graph, decode),
        mixed=_side_by_side(step_graph, mixed),
        loop={name: jnp.asarray(values, float) for name, values in loop.items()},
        chunks=jnp.asarray(np.concatenate([load.chunks for load in loads]), float),
    )


@eqx.filter_jit
def evaluate(step_graph: FactorGraph, loop_graph: FactorGraph, ready: Prepared) -> dict[str, Array]:
    """Every variable of the loop; and of the decode step those without a plate. One number a case."""
    decode = jax.vmap(lambda values: _plain(step_graph, step_graph.evaluate(values)))(ready.decode)
    t_mixed = jax.vmap(lambda values: step_graph.evaluate(values)["t_step"])(ready.mixed)
    t_prefill = ready.chunks * (t_mixed - decode["t_step"])
    times = {"t_decode": decode["t_step"], "t_prefill": t_prefill}
    return decode | jax.vmap(loop_graph.evaluate)(ready.loop | times)


def _plain(graph: FactorGraph, values: Mapping[str, Array]) -> dict[str, Array]:
    return {variable.name: values[variable.name] for variable in graph.outputs if not variable.plates}


def _step_values(graph: FactorGraph, step: EngineStep, deployment: Deployment, cases: int) -> dict[str, np.ndarray]:
    """What the graph reads of card and step, each with the axis of cases in front."""
    deployment.sku.accepts(step)
    supplied = deployment.sku.values() | step.values()
    found = {}
    for name in graph.input_names:
        if name not in supplied:
            raise FactorGraphError(f"the step graph reads '{name}', which neither a card nor a deployment gives")
        value = np.asarray(supplied[name], float)
        plates = len(graph.variables[name].plates)
        found[name] = value[:cases] if value.ndim > plates else np.broadcast_to(value, (cases, *value.shape))
    return found


def _side_by_side(graph: FactorGraph, tables: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Array]:
    """Tables one below the other, each plate as wide as the widest."""
    joined = {}
    for name in tables[0]:
        columns = [table[name] for table in tables]
        if graph.variables[name].plates:
            wide = max(column.shape[1] for column in columns)
            filler = _ABSENT.get(name, _HARMLESS)
            columns = [
                np.pad(column, ((0, 0), (0, wide - column.shape[1])), constant_values=filler) for column in columns
            ]
        joined[name] = jnp.asarray(np.concatenate(columns), float)
    return joined
