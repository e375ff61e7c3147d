"""What is measured: the cases of each kind, chosen to suit the machine's memory and cache."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from factorgraph.errors import UnknownNameError
from factorgraph.measuring import programs
from factorgraph.measuring.machine import Machine
from factorgraph.measuring.rotation import BEYOND, copies_beyond

_ELEMENT = {"fp32": 4, "bf16": 2}
_JAX_TYPE = {"fp32": "float32", "bf16": "bfloat16"}
# In a round of products: on a GPU several share what the loop itself takes.
_LEAST_CALLS = {"cpu": 1, "gpu": 8}
# Of the memory, which also holds results, and on a CPU everything else.
_SHARE_OF_MEMORY = 0.25
_LIGHT = {"scale": (programs.scale, 0), "add": (programs.add, 1), "silu_mul": (programs.silu_mul, 1)}


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        row: its fields in the dataset, in SI.
        calls_per_round: calls of the measured program in a round of the run.
        memory: what its operands take, B.
        prepare: makes the operands and gives the run.
    """

    row: dict[str, Any]
    calls_per_round: int
    memory: float
    prepare: Callable[[np.random.Generator], programs.Run] = dataclasses.field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The row in a word, by which a case that was measured is known again."""
        return " ".join(f"{key}={value}" for key, value in self.row.items())


def cases_of(kind: str, machine: Machine, *, quick: bool) -> list[Case]:
    """All cases of a kind that fit into a quarter of the machine's memory.

    Args:
        kind: "gemm", "bandwidth", "light" or "step".
        machine: whose cache and memory bound them.
        quick: fewer and smaller ones.

    Raises:
        UnknownNameError: nothing of that kind is measured here.
    """
    if kind not in _CASES:
        raise UnknownNameError("kind of measurement", kind, _CASES)
    return [case for case in _CASES[kind](machine, quick) if case.memory <= _SHARE_OF_MEMORY * machine.memory]


def gemm_case(m: int, n: int, k: int, machine: Machine, copies: int) -> Case:
    """Products (m x k) (k x n), with so many copies of the right operand in turn; one copy stays in the cache."""
    dtype = machine.dtype
    size, jax_type = _ELEMENT[dtype], _JAX_TYPE[dtype]
    calls = copies * -(-_LEAST_CALLS.get(machine.backend, 1) // copies)

    def prepare(draw: np.random.Generator) -> programs.Run:
        right = programs.random_operand(draw, (k, n), jax_type)
        rights = [right, *(jnp.copy(right) for _ in range(copies - 1))]
        return programs.product_chain(programs.random_operand(draw, (m, k), jax_type), rights, calls)

    state = "warm" if copies == 1 else "rotating"
    row = {"m": m, "n": n, "k": k, "cache_copies": copies, "cache_state": state}
    return Case(row, calls, float(size * (m * k + copies * n * k + 2 * m * n)), prepare)


def _gemm(machine: Machine, quick: bool) -> Iterator[Case]:
    if machine.backend == "cpu":
        rows = (1, 16, 128) if quick else (1, 4, 16, 64, 128, 256, 512, 1024)
        sides = (512, 1024, 2048) if quick else (256, 512, 1024, 2048, 4096)
    else:
        rows = (1, 16, 128, 1024) if quick else tuple(4**i for i in range(8))
        sides = (4096, 8192) if quick else (1024, 4096, 8192, 14336)
    for m, n, k in itertools.product(rows, sides, sides):
        yield gemm_case(m, n, k, machine, 1)
        if copies := copies_beyond(machine.cache, float(_ELEMENT[machine.dtype] * n * k)):
            yield gemm_case(m, n, k, machine, copies)


def _bandwidth(machine: Machine, quick: bool) -> Iterator[Case]:
    largest = 2.0 * BEYOND * machine.cache
    sizes = np.geomspace(2.0**16, largest, 6 if quick else 24)
    for size in (int(size) // 4096 * 4096 for size in sizes):
        yield stream_case(size, machine.cache)


def stream_case(size: int, cache: float) -> Case:
    """Reading and writing so many bytes in place, which a cache of that size holds or not."""

    def prepare(draw: np.random.Generator) -> programs.Run:
        return programs.feedback_chain(
            programs.scale, programs.random_operand(draw, (size // 4096, 1024), "float32"), ()
        )

    row = {"volume": 2.0 * size, "cache_state": "warm" if size < cache else "cold"}
    return Case(row, 1, 2.0 * size, prepare)


def _light(machine: Machine, quick: bool) -> Iterator[Case]:
    size, jax_type = _ELEMENT[machine.dtype], _JAX_TYPE[machine.dtype]
    widths = (1024, 4096) if quick else (1024, 2048, 4096, 8192, 16384)
    tokens = (1, 64, 1024) if quick else (1, 4, 16, 64, 256, 1024, 4096)
    for (t, width), (name, (call, others)) in itertools.product(
        itertools.product(tokens, widths), {**_LIGHT, "rms_norm": (programs.rms_norm, None)}.items()
    ):
        shapes = [(width,)] if others is None else [(t, width)] * others
        traffic = float(size * (2 * t * width + sum(int(np.prod(shape)) for shape in shapes)))

        def prepare(draw: np.random.Generator, call=call, shapes=shapes, t=t, width=width) -> programs.Run:
            operands = [programs.random_operand(draw, shape, jax_type) for shape in shapes]
            return programs.feedback_chain(call, programs.random_operand(draw, (t, width), jax_type), operands)

        state = "warm" if traffic < machine.cache else "cold"
        row = {"kernel": name, "tokens": t, "width": width, "traffic": traffic, "cache_state": state}
        yield Case(row, 1, traffic, prepare)


def _step(machine: Machine, quick: bool) -> Iterator[Case]:
    width, inner, layers = (512, 1024, 2) if machine.backend == "cpu" else (4096, 14336, 4)
    size, jax_type = _ELEMENT[machine.dtype], _JAX_TYPE[machine.dtype]
    chains = {"in one program": programs.feedback_chain, "one launch each": programs.launch_chain}
    for batch, operation in itertools.product((1, 8, 64) if quick else tuple(2**i for i in range(10)), chains):

        def prepare(draw: np.random.Generator, batch=batch, chain=chains[operation]) -> programs.Run:
            shapes = [(width, inner), (width, inner), (inner, width)] * layers
            weights = [programs.random_operand(draw, shape, jax_type) for shape in shapes]
            gain = jnp.ones(width, jax_type)
            return chain(
                programs.decoder_step, programs.random_operand(draw, (batch, width), jax_type), [gain, *weights]
            )

        weights = 3.0 * size * width * inner * layers
        model = f"{layers} feed-forward layers of {width} x {inner}"
        state = "warm" if weights < machine.cache else "cold"
        row = {"batch": batch, "operation": operation, "model": model, "cache_state": state}
        yield Case(row, 1, weights, prepare)


_CASES = {"gemm": _gemm, "bandwidth": _bandwidth, "light": _light, "step": _step}
MEASURED = tuple(_CASES)
