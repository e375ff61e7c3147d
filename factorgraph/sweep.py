"""Predictions over a whole grid of cards, models, steps and settings: lazy, labelled, one compiled function."""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.blocks import Parts, assemble, run_blocks
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.labelled import gather, provenance
from factorgraph.units import to_unit
from factorgraph.varying import STEP_CHOICES, STEP_NUMBERS, Case, Handle, open_case
from factorgraph.workload.model import ModelConfig


def sweep(
    graph: FactorGraph,
    skus: Any,
    models: ModelConfig | Sequence[ModelConfig],
    *,
    phase: str = "decode",
    outputs: Sequence[str] = ("t_step",),
    block_points: int = 16_384,
    **axes: Any,
) -> "Sweep":
    """Lay out a grid of predictions; nothing is computed until it is loaded, written or asked for lazily.

    Args:
        graph: the laws.
        skus: a card, or a list of cards, which adds the dimension "sku".
        models: a model, or a list of models, which adds the dimension "model".
        phase: "decode", "prefill" or "mixed".
        outputs: the variables wanted, none of them on a plate.
        block_points: most points to compute at once; the default takes tens of MB and a fraction of a second.
        **axes: what the step is made from ("batch", "context", "tp", "weights", ... as for `ModelConfig.decode` and its
            like), variables in their SI unit, and constants of laws (`**{"t_host.s0": [...]}`). A sequence is a
            dimension, a single value holds everywhere.

    Returns:
        A [`Sweep`][factorgraph.sweep.Sweep].

    Raises:
        UnknownNameError: an axis that is no quantity, a phase or an output that does not exist.
        FactorGraphError: a value outside its domain, a card that cannot run a format, an empty axis.

    Examples:
        >>> import factorgraph as fg
        >>> grid = sweep(fg.step_graph(), fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b"),
        ...              batch=[1, 8, 64], context=2048, power_cap=[400.0, 700.0])
        >>> grid.sizes
        {'batch': 3, 'power_cap': 2}
        >>> grid.load().t_step.dims
        ('batch', 'power_cap')
    """
    if phase not in STEP_NUMBERS:
        raise UnknownNameError("phase", phase, STEP_NUMBERS)
    _hold_outputs(graph, outputs)
    if block_points < 1:
        raise FactorGraphError(f"block_points={block_points}; a block has at least one point")
    known = {*STEP_NUMBERS[phase], *STEP_CHOICES, *graph.variables, *graph.parameters}
    for name in axes:
        if name not in known:
            raise UnknownNameError("quantity to sweep over", name, known)
    values = {name: _axis_values(graph, name, value) for name, value in axes.items()}
    single = {name for name, value in axes.items() if np.ndim(value) == 0}
    choices = {name: values[name] for name in STEP_CHOICES if name in values}
    numbers = {name: values[name] for name in STEP_NUMBERS[phase] if name in values}
    settings = {name: v for name, v in values.items() if name not in choices and name not in numbers}
    many_models = not isinstance(models, ModelConfig)
    every_model: list[ModelConfig] = [models] if isinstance(models, ModelConfig) else list(models)
    _hold_models(every_model)
    labels = {"model": [model.name for model in every_model], **{name: list(v) for name, v in choices.items()}}
    cases = tuple(
        _open(graph, skus, model, phase, dict(zip(choices, chosen, strict=True)), numbers, settings)
        for model, *chosen in itertools.product(every_model, *choices.values())
    )
    cards = cases[0].cards
    coords = {"sku": cards, **labels, **numbers, **settings}
    hidden = single | (set() if many_models else {"model"}) | (set() if cards else {"sku"})
    held = {name: v[0] for name, v in (labels | numbers | settings).items() if name in hidden}
    return Sweep(
        cases=cases,
        coords={name: np.asarray(v) for name, v in coords.items() if name not in hidden},
        fixed={name: v[0] for name, v in (numbers | settings).items() if name in hidden},
        outputs=tuple(outputs),
        block_points=block_points,
        attrs=provenance(graph, [skus]) | {"title": "factorgraph sweep", "held": json.dumps({"phase": phase} | held)},
    )


class Prepared(eqx.Module):
    """Everything about one model and set of choices that does not change over the rest of the grid.

    Attributes:
        case: the graph and the step whose numbers are moved.
        arrays: values of all inputs; those that cards give have a leading axis of cards.
        of_card: which those are.
        handles: what the numeric axes mean.
        cards: names of the cards; empty if there is but one, without a list.
    """

    case: Case
    arrays: dict[str, np.ndarray]
    of_card: tuple[str, ...] = eqx.field(static=True)
    handles: tuple[Handle, ...] = eqx.field(static=True)
    cards: tuple[str, ...] = eqx.field(static=True)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A grid of predictions that is not computed yet. Made by [`sweep`][factorgraph.sweep.sweep].

    It is worked off in blocks: rectangles of the grid that go through one compiled function, in any place and order.

    Attributes:
        cases: one for each model and set of choices, in the order of the grid.
        coords: labels by dimension, outermost first.
        fixed: numeric quantities that hold everywhere.
        outputs: the variables wanted.
        block_points: most points of a block.
        attrs: provenance.
    """

    cases: tuple[Prepared, ...]
    coords: dict[str, np.ndarray]
    fixed: dict[str, float]
    outputs: tuple[str, ...]
    block_points: int
    attrs: dict[str, str]

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(labels) for name, labels in self.coords.items()}

    @property
    def points(self) -> int:
        return math.prod(self.sizes.values())

    @functools.cached_property
    def block_shape(self) -> tuple[int, ...]:
        """Points of a block along each dimension: as many of the innermost as fit, one model and choice at a time."""
        room, shape = self.block_points, []
        for name, size in reversed(self.sizes.items()):
            taken = 1 if name in self._static else min(size, room)
            room //= taken
            shape.append(taken)
        return tuple(reversed(shape))

    @functools.cached_property
    def blocks(self) -> list[tuple[slice, ...]]:
        """Where each block lies in the grid."""
        starts = [range(0, size, step) for size, step in zip(self.sizes.values(), self.block_shape, strict=True)]
        return [
            tuple(
                slice(at, min(at + step, size))
                for at, step, size in zip(corner, self.block_shape, self.sizes.values(), strict=True)
            )
            for corner in itertools.product(*starts)
        ]

    @functools.cached_property
    def fingerprint(self) -> str:
        """The same for the same grid, laws and inputs, and for no other."""
        digest = hashlib.sha256(json.dumps([self.attrs, self.outputs, self.block_shape]).encode())
        for name, labels in self.coords.items():
            digest.update(f"{name} {labels.tolist()}".encode())
        for prepared in self.cases:
            for name in sorted(prepared.arrays):
                digest.update(name.encode() + np.ascontiguousarray(prepared.arrays[name]).tobytes())
        return digest.hexdigest()

    def compute_block(self, number: int) -> dict[str, np.ndarray]:
        """The outputs of one block, each of the block's shape.

        Raises:
            FactorGraphError: a result is not finite; the message names the point.
        """
        where = self.blocks[number]
        shape = tuple(part.stop - part.start for part in where)
        count = math.prod(shape)
        within = np.indices(shape).reshape(len(shape), count)
        index = {name: part.start + at for name, part, at in zip(self.coords, where, within, strict=True)}
        prepared = self.cases[self._case_number(where)]
        moved = {h.name: self.coords[h.name][index[h.name]] for h in prepared.handles if h.name in index}
        moved |= {name: np.full(count, value) for name, value in self.fixed.items()}
        cards = index.get("sku", np.zeros(count, int))
        # The last blocks are filled up to the full size, so that all of them run the same compiled function.
        full = math.prod(self.block_shape)
        padded = {name: jnp.asarray(_filled(v, full), float) for name, v in moved.items()}
        found = _points(prepared, jnp.asarray(_filled(cards, full)), padded, self.outputs)
        results = {name: np.asarray(found[name])[:count].reshape(shape) for name in self.outputs}
        for name, values in results.items():
            if not np.isfinite(values).all():
                bad = np.flatnonzero(~np.isfinite(values))[0]
                point = ", ".join(f"{dim}={self.coords[dim][at[bad]]}" for dim, at in index.items())
                raise FactorGraphError(f"'{name}' is not finite at {point}; its law does not reach this far")
        return results

    def frame(self) -> xr.Dataset:
        """The grid's coordinates with their units, without data."""
        variables = self._graph.variables
        frame = xr.Dataset(coords={name: (name, labels) for name, labels in self.coords.items()}, attrs=self.attrs)
        for name in self.coords:
            if name in variables:
                frame[name].attrs = {"units": variables[name].unit, "long_name": variables[name].doc}
        return frame.assign_attrs(fingerprint=self.fingerprint)

    def meaning(self, output: str) -> dict[str, str]:
        variable = self._graph.variables[output]
        return {"units": variable.unit, "long_name": variable.doc}

    def load(self, *, on: Any = "threads", workers: int | None = None, progress: bool = False) -> xr.Dataset:
        """Compute everything into memory; arguments as for `write`."""
        arrays = {name: np.empty(tuple(self.sizes.values()), np.float32) for name in self.outputs}

        def keep(number: int, block: Mapping[str, np.ndarray]) -> None:
            for name, values in block.items():
                arrays[name][self.blocks[number]] = values

        run_blocks(self, range(len(self.blocks)), keep, on=on, workers=workers, progress=progress)
        return self.frame().assign({n: (tuple(self.coords), a, self.meaning(n)) for n, a in arrays.items()})

    def write(
        self, path: str | os.PathLike, *, on: Any = "threads", workers: int | None = None, progress: bool = False
    ) -> Path:
        """Compute everything into a file, block by block, in little memory.

        Finished blocks lie in a hidden folder beside the file until all are there. Killed and started again, it
        computes what is missing and nothing twice; an older file of that name stays until the new one is whole.

        Args:
            path: a name that ends in ".nc" (NetCDF-4) or ".zarr" (needs the extra "distributed").
            on: "threads", "processes", or a dask.distributed scheduler: its address ("tcp://host:8786") or a client.
            workers: threads or processes; one a core by default. A cluster has its own number.
            progress: whether to show points done, rate and time left.

        Raises:
            FactorGraphError: the ending is another, the folder holds the beginning of another sweep, the cluster does
                not answer or keeps losing workers.

        Examples:
            >>> import tempfile
            >>> import factorgraph as fg
            >>> grid = sweep(fg.step_graph(), fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b"),
            ...              batch=[1, 64], context=2048)
            >>> path = grid.write(tempfile.mkdtemp() + "/out.nc")
            >>> xr.load_dataset(path).t_step.units
            's'
        """
        path = Path(path)
        if path.suffix not in (".nc", ".zarr"):
            raise FactorGraphError(f"{path.name} is neither NetCDF nor Zarr; end its name in .nc or .zarr")
        parts = Parts.open(path, self.fingerprint)
        finished = parts.finished()
        missing = [number for number in range(len(self.blocks)) if number not in finished]
        run_blocks(self, missing, parts.keep, on=on, workers=workers, progress=progress)
        assemble(self, parts, path)
        return path

    def lazy(self) -> xr.Dataset:
        """The grid as dask arrays, one chunk a block: slice it, reduce it, and only what is needed is computed.

        Raises:
            FactorGraphError: dask is not installed.
        """
        try:
            import dask.array
            from dask.delayed import delayed
        except ImportError:
            raise FactorGraphError("a lazy sweep needs dask; install gpu-factorgraph[distributed]") from None
        compute: Any = delayed(self.compute_block, pure=False)
        counts = [math.ceil(size / step) for size, step in zip(self.sizes.values(), self.block_shape, strict=True)]
        pieces = {name: np.empty(len(self.blocks), object) for name in self.outputs}
        for number, where in enumerate(self.blocks):
            block, shape = compute(number), tuple(part.stop - part.start for part in where)
            for name in self.outputs:
                pieces[name][number] = dask.array.from_delayed(block[name], shape, np.float32)
        arrays = {name: dask.array.block(piece.reshape(counts).tolist()) for name, piece in pieces.items()}
        return self.frame().assign({n: (tuple(self.coords), a, self.meaning(n)) for n, a in arrays.items()})

    @property
    def _graph(self) -> FactorGraph:
        return self.cases[0].case.graph

    @property
    def _static(self) -> tuple[str, ...]:
        """The dimensions along which the kernels themselves change."""
        return tuple(name for name in self.coords if name == "model" or name in STEP_CHOICES)

    def _case_number(self, where: tuple[slice, ...]) -> int:
        number = 0
        for name, part in zip(self.coords, where, strict=True):
            if name in self._static:
                number = number * len(self.coords[name]) + part.start
        return number


@eqx.filter_jit
def _points(prepared: Prepared, cards: Array, moved: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
    def point(card: Array, moved: dict[str, Array]) -> dict[str, Array]:
        arrays: dict[str, Any] = {n: v[card] if n in prepared.of_card else v for n, v in prepared.arrays.items()}
        positions = {}
        for handle in prepared.handles:
            value = moved[handle.name]
            if handle.kind == "input":
                arrays[handle.name] = jnp.broadcast_to(value, arrays[handle.name].shape)
            else:
                positions[handle] = value
        known = prepared.case.evaluate(arrays, positions)
        return {name: known[name] for name in outputs}

    return jax.vmap(point)(cards, moved)


def _open(graph, skus, model, phase, choices, numbers, settings) -> Prepared:
    """Check every value of every axis, and keep what a block needs."""
    make = getattr(model, phase)
    largest = {name: v.max() for name, v in numbers.items()}
    for name, every in numbers.items():
        make(**{**largest, name: every}, **choices)
    step = make(**{name: v[0] for name, v in numbers.items()}, **choices)
    constants = {name: v for name, v in settings.items() if name not in graph.variables}
    variables = {name: v for name, v in settings.items() if name in graph.variables}
    for name, every in variables.items():
        gather(graph, skus, step, **{**{other: v[0] for other, v in variables.items()}, name: every})
    for name, every in constants.items():
        graph.with_parameters({name: every[0]})
    case, inputs = open_case(graph, [skus, step], {name: v[0] for name, v in variables.items()})
    handles = tuple(case.handle(name, inputs) for name in (*numbers, *settings))
    return Prepared(
        case=case,
        arrays={name: np.asarray(value) for name, value in inputs.arrays.items()},
        of_card=tuple(name for name, span in inputs.spans.items() if span),
        handles=handles,
        cards=tuple(map(str, inputs.coords[inputs.dims[0]].values)) if inputs.dims else (),
    )


def _hold_models(models: list[ModelConfig]) -> None:
    for model in models:
        if not isinstance(model, ModelConfig):
            raise FactorGraphError(f"{model!r:.60} is no model; pass one from load_model, or a list of them")
    names = [model.name for model in models]
    if not names or len(set(names)) < len(names):
        raise FactorGraphError(
            f"models to sweep over must be at least one, each once; got {', '.join(names) or 'none'}"
        )


def _axis_values(graph: FactorGraph, name: str, value: Any) -> np.ndarray:
    if isinstance(value, xr.DataArray) and name in graph.variables:
        unit = graph.variables[name].unit
        value = to_unit(value.values, value.attrs.get("units", unit), unit, what=name)
    values = np.atleast_1d(np.asarray(value))
    if values.ndim > 1 or values.size == 0:
        raise FactorGraphError(f"axis '{name}' must be a value or a list of at least one; it has shape {values.shape}")
    if len(np.unique(values)) < len(values):
        raise FactorGraphError(f"axis '{name}' has a value twice; every label of a dimension must differ")
    if name in STEP_CHOICES:
        return np.asarray([v.item() if isinstance(v, np.generic) else v for v in values], dtype=object)
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        raise FactorGraphError(f"axis '{name}' has a value that is no number: {value!r}") from None


def _hold_outputs(graph: FactorGraph, outputs: Sequence[str]) -> None:
    for name in outputs:
        if name not in graph:
            raise UnknownNameError("output", name, [variable.name for variable in graph.outputs])
        if graph.variables[name].plates:
            raise FactorGraphError(f"'{name}' is one number a kernel; a sweep keeps numbers of the whole step")


def _filled(values: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([values, np.repeat(values[-1:], size - len(values))])
