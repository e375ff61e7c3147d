"""The measured programs, each a chain of calls in one launch in which every call needs the result of the one before.

All calls of a run are inside one compiled loop, not launched one by one: on a CPU launches that do not depend on each
other run at the same time, and on a GPU the host needs longer to launch a small kernel than the GPU to run it.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Run = Callable[[int], None]
Call = Callable[..., Array]


def _compiled(program: Callable) -> Callable:
    """Compile for any number of rounds; on a GPU for each, so that it need not ask the host whether to go on."""
    return jax.jit(program, static_argnums=() if jax.default_backend() == "cpu" else 2)


def random_operand(draw: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Normal numbers, small enough that a chain of products stays finite."""
    return jnp.asarray(draw.standard_normal(shape, np.float32) / np.sqrt(shape[-1]), dtype)


def product_chain(left: Array, rights: Sequence[Array], calls: int) -> Run:
    """Rounds of `calls` products of `left` with each of `rights` in turn."""

    @_compiled
    def program(left: Array, rights: Sequence[Array], rounds: int) -> Array:
        def one_round(_, state: tuple[Array, Array]) -> tuple[Array, Array]:
            left, result = state
            for i in range(calls):
                # One element of the result goes into the next operand: no product can be left out, merged or moved out
                # of the loop. The barrier keeps the compiler from computing that element alone.
                result = lax.optimization_barrier(left @ rights[i % len(rights)])
                left = left.at[0, 0].set(jnp.tanh(result[0, 0]))
            return left, result

        result = jnp.zeros((left.shape[0], rights[0].shape[1]), left.dtype)
        return lax.fori_loop(0, rounds, one_round, (left, result))[1]

    return lambda rounds: program(left, tuple(rights), rounds).block_until_ready()


def feedback_chain(call: Call, state: Array, others: Sequence[Array]) -> Run:
    """Rounds of one call whose result, of the shape of its operand, is the operand of the next."""

    @_compiled
    def program(state: Array, others: Sequence[Array], rounds: int) -> Array:
        # The barrier keeps the compiler from merging the passes of two rounds into one.
        return lax.fori_loop(0, rounds, lambda _, x: lax.optimization_barrier(call(x, *others)), state)

    return lambda rounds: program(state, tuple(others), rounds).block_until_ready()


def launch_chain(call: Call, state: Array, others: Sequence[Array]) -> Run:
    """As `feedback_chain`, with every call launched by the host; waited for once, at the end."""
    program = jax.jit(call)

    def run(rounds: int) -> None:
        result = state
        for _ in range(rounds):
            result = program(result, *others)
        result.block_until_ready()

    return run


def scale(x: Array) -> Array:
    """Half of each element plus a half: read once, written once, and tending to one."""
    return x * 0.5 + 0.5


def add(x: Array, other: Array) -> Array:
    """The mean of two arrays: two read, one written."""
    return (x + other) * 0.5


def rms_norm(x: Array, gain: Array) -> Array:
    """Root-mean-square normalisation of each row, summed in single precision."""
    mean_square = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
    return (x * lax.rsqrt(mean_square + 1e-6).astype(x.dtype)) * gain


def silu_mul(x: Array, gate: Array) -> Array:
    """The gated activation of a feed-forward layer: two read, one written."""
    return x * jax.nn.silu(gate)


def decoder_step(x: Array, gain: Array, *weights: Array) -> Array:
    """Layers of a decoder without attention: norm, gated feed-forward of weights (up, gate, down), residual."""
    for i in range(0, len(weights), 3):
        up, gate, down = weights[i : i + 3]
        inner = rms_norm(x, gain)
        x = rms_norm(x + silu_mul(inner @ up, inner @ gate) @ down, gain)
    return x
