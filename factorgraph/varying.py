"""Handles on whatever a prediction can be varied by: an input, a computed variable, a law's constant, a step's number.

Sensitivities, sweeps and searches all name quantities the same way; what a name means is settled here once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, Signature
from factorgraph.graph import FactorGraph
from factorgraph.labelled import Inputs, gather
from factorgraph.workload.step import Step

Kind = Literal["input", "computed", "constant", "step"]

# What the makers of a step call its numbers, and the leaf of `Step` that holds each.
STEP_NUMBERS = {
    "decode": {"batch": "decode_batch", "context": "context"},
    "prefill": {"batch": "prefill_batch", "prompt": "prompt", "prefix": "prefix"},
    "mixed": {"decode_batch": "decode_batch", "context": "context", "chunk": "prompt", "prefix": "prefix"},
}
STEP_CHOICES = ("tp", "weights", "kv")


@dataclasses.dataclass(frozen=True)
class Handle:
    """One quantity that may be varied.

    Attributes:
        name: how it was asked for.
        kind: "input", a value given from outside; "computed", a variable that a law gives; "constant" of a law;
            "step", a number that the step's kernels are made from.
        unit: its unit.
        scaled: whether it is moved by a common factor and not by its own unit, because it is more than one number.
    """

    name: str
    kind: Kind
    unit: str
    scaled: bool


class Case(eqx.Module):
    """A graph with its step: what stays the same while handles are moved.

    Attributes:
        graph: the laws.
        step: the step whose numbers may be moved, or None where no step was given.
        from_step: the variables that the step supplies, less those that were given otherwise.
    """

    graph: FactorGraph
    step: Step | None
    from_step: tuple[str, ...] = eqx.field(static=True)

    def handle(self, name: str, inputs: Inputs) -> Handle:
        """What a name means.

        Raises:
            UnknownNameError: nothing has that name.
            FactorGraphError: it is a choice, such as `tp`, that no derivative or search can move.
        """
        variables, constants, numbers = self.graph.variables, self.graph.parameters, self.numbers
        if name in inputs.arrays or name in self.graph:
            kind: Kind = "input" if name in inputs.arrays else "computed"
            return Handle(name, kind, variables[name].unit, scaled=bool(variables[name].plates))
        if name in constants:
            return Handle(name, "constant", self.graph.parameter_info(name).unit, scaled=constants[name].ndim > 0)
        if name in numbers:
            return Handle(name, "step", "1", scaled=False)
        if name in STEP_CHOICES and self.step is not None:
            raise FactorGraphError(f"'{name}' is a choice and not a number that can be moved; use swing for it")
        raise UnknownNameError("quantity", name, [*variables, *constants, *numbers])

    @property
    def numbers(self) -> dict[str, str]:
        """The step's numbers by public name, and the leaf that holds each."""
        return {} if self.step is None else STEP_NUMBERS[self.step.phase]

    def position(self, handle: Handle, arrays: Mapping[str, Array]) -> Array:
        """Where a handle stands; 1 for one that is moved by a common factor."""
        if handle.kind == "computed" or handle.scaled:
            return jnp.ones(())
        if handle.kind == "input":
            return arrays[handle.name]
        if handle.kind == "constant":
            return self.graph.parameters[handle.name]
        return getattr(self.step, self.numbers[handle.name])

    def evaluate(self, arrays: Mapping[str, Array], positions: Mapping[Handle, Array]) -> dict[str, Array]:
        """Every variable with some handles moved. Pure.

        Args:
            arrays: values of one point, as in `Inputs`, without outer dimensions.
            positions: a scalar for each handle that is moved.
        """
        graph, arrays = self.graph, dict(arrays)
        moved = {self.numbers[h.name]: x for h, x in positions.items() if h.kind == "step"}
        if moved and self.step is not None:
            values = dataclasses.replace(self.step, **moved).values()
            arrays |= {name: values[name] for name in self.from_step}
        for handle, x in positions.items():
            name = handle.name
            if handle.kind == "constant":
                graph = graph.with_parameters({name: x * graph.parameters[name] if handle.scaled else x})
            elif handle.kind == "input":
                arrays[name] = x * arrays[name] if handle.scaled else x
        for handle, x in positions.items():
            if handle.kind == "computed":
                graph = graph.replace(inputs=(), **{handle.name: Scaled(graph[handle.name], x)})
        return graph.evaluate(arrays)


class Scaled(Factor):
    """A law whose result is multiplied by a common factor: what the law says is kept, and moved."""

    law: Factor
    factor: Array

    @property
    def signature(self) -> Signature:
        return self.law.signature

    def __call__(self, *inputs: Array) -> Array:
        return self.law(*inputs) * self.factor


def open_case(graph: FactorGraph, sources: Sequence[Any], values: Mapping[str, Any]) -> tuple[Case, Inputs]:
    """Read what `predict` is given, and keep a hold of the step in it."""
    inputs = gather(graph, *sources, **values)
    step, supplied = None, set()
    for source in sources:
        if isinstance(source, Step):
            step, supplied = source, set(source.values()) & set(graph.variables)
        else:
            members = source if isinstance(source, (list, tuple)) else [source]
            supplied -= {name for one in members for name in (one if isinstance(one, Mapping) else one.values())}
    return Case(graph, step, tuple(sorted(supplied - set(values)))), inputs


def remake(step: Step, changes: Mapping[str, Any]) -> Step:
    """A step of the same model and phase with other numbers or choices, checked as when it was first made."""
    numbers = {name: getattr(step, leaf) for name, leaf in STEP_NUMBERS[step.phase].items()}
    choices = {name: getattr(step, name) for name in STEP_CHOICES}
    return getattr(step.model, step.phase)(**(numbers | choices | dict(changes)))
