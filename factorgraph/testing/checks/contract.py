"""What makes an object a law at all: a readable signature, a PyTree, no state, its inputs' dtype, one compilation."""

import copy
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from factorgraph.factor import Factor
from factorgraph.graph import FactorGraph
from factorgraph.testing.bench import Bench, Values, in_single


def signature(bench: Bench, values: Values) -> str | None:
    """The graph takes the law, it gives one number, and its constants and declared directions make sense."""
    law = bench.law
    if law.output.name not in FactorGraph([law]):
        return f"a graph of it gives no '{law.output.name}'"
    shape = jax.eval_shape(_call, law, in_single(values)).shape
    if shape != ():
        return f"it gives an array of shape {shape} from the values of one point; it must give one number"
    for name, sign in law.monotone.items():
        if sign not in (-1, 1):
            return f"monotone declares {sign!r} for {name}; declare +1 (never falls) or -1 (never rises)"
    for name, info in law.parameters.items():
        value = np.asarray(getattr(law, name))
        if (value < info.lower).any() or (value > info.upper).any():
            return f"its constant {name} is {value}, outside its bounds [{info.lower:g}, {info.upper:g}] {info.unit}"
    return None


def pytree(bench: Bench, values: Values) -> str | None:
    """Taken apart into leaves and put together again it gives the same number, and JAX can compare its structure."""
    leaves, structure = jax.tree.flatten(bench.law)
    if jax.tree.structure(copy.deepcopy(bench.law)) != structure:
        return "a copy of it has another structure; give what its static fields hold an __eq__"
    again = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
    before, after = float(_call(bench.law, in_single(values))), float(_call(again, in_single(values)))
    return None if before == after else f"taken apart and put together it gives {after:.9g}, before {before:.9g}"


def stateless(bench: Bench, values: Values) -> str | None:
    """Asked again after other questions it gives the same answer, and nothing in it has changed."""
    law = bench.law
    held = copy.deepcopy(_static_parts(law))
    arrays = in_single(values)
    first = float(_call(law, arrays))
    _call(law, {name: array * np.float32(0.5) for name, array in arrays.items()})
    second = float(_call(law, arrays))
    if first != second and not (np.isnan(first) and np.isnan(second)):
        return f"asked twice it gives {first:.9g} and then {second:.9g}"
    if repr(held) != repr(_static_parts(law)):
        return f"a call changes it: {held} before, {_static_parts(law)} after"
    return None


def dtype(bench: Bench, values: Values) -> str | None:
    """float32 in, float32 out, with 64-bit numbers allowed and JAX's strict promotion on."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        try:
            result = jax.eval_shape(_call, bench.law, in_single(values))
        except Exception as error:  # the class that JAX raises for a refused promotion is private
            if type(error).__name__ != "TypePromotionError":
                raise
            return (
                "it mixes float32 inputs with numbers of another type (a NumPy array or integer); write plain numbers"
            )
    return None if result.dtype == np.float32 else f"it gives {result.dtype} from float32"


def retrace(bench: Bench, values: Values) -> str | None:
    """Other values and other constants run the code compiled for the first ones."""
    traces = 0

    @eqx.filter_jit
    def counted(law: Factor, arrays: dict[str, Any]) -> jax.Array:
        nonlocal traces
        traces += 1
        return _call(law, arrays)

    counted(bench.law, in_single(values))
    counted(_with_other_constants(bench.law), in_single(values))
    if traces == 1:
        return None
    return f"other constants compile it {traces} times, where 1 is enough; make every number a parameter(...)"


def _call(law: Factor, values: dict[str, Any]) -> jax.Array:
    return jnp.asarray(law(**{name: jnp.asarray(value) for name, value in values.items()}))


def _static_parts(law: Factor) -> dict[str, Any]:
    return {name: part for name, part in vars(law).items() if not eqx.is_array(part)}


def _with_other_constants(law: Factor) -> Factor:
    """The law with every number in it a little larger, whether it is a leaf or part of the structure."""
    other = object.__new__(type(law))
    for field in dataclasses.fields(law):
        held = getattr(law, field.name)
        number = eqx.is_inexact_array(held) or (isinstance(held, int | float) and not isinstance(held, bool))
        object.__setattr__(other, field.name, held * 1.01 if number else held)
    return other
