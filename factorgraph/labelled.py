"""The labelled edge: names, units and dimensions outside, bare arrays inside the compiled function."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.units import to_unit
from factorgraph.validity import judge
from factorgraph.variables import CHOICES, Variable


@runtime_checkable
class Source(Protocol):
    """Something that supplies values of variables, such as a GPU's card or the kernel table of a step."""

    @property
    def label(self) -> tuple[str, str]:
        """The dimension that several such sources span, and this one's name on it: ("sku", "h100-sxm")."""
        ...

    @property
    def coords(self) -> Mapping[str, Sequence[str]]:
        """Names along the plates it spans."""
        ...

    def values(self) -> Mapping[str, Any]:
        """Values by variable name, one axis per plate; may hold more than a graph reads."""
        ...

    def accepts(self, other: Any) -> None:
        """Raise a FactorGraphError if it cannot be combined with another source."""
        ...


def predict(graph: FactorGraph, *sources: Any, outputs: Iterable[str] | None = None, **values: Any) -> xr.Dataset:
    """Evaluate a graph on labelled inputs.

    Args:
        graph: the laws.
        *sources: cards, steps, or mappings of values by variable name; a list of cards adds the dimension "sku".
        outputs: the variables wanted, "validity" among them; all by default.
        **values: values of further variables in their SI unit, or in place of those that a source gives or a law
            computes. A number applies everywhere; a sequence adds a dimension of the variable's name; a DataArray
            brings its own dimensions, and its units attribute is converted.

    Returns:
        A dataset of every variable wanted, inputs included, with units, long names, the names of kernels along plates,
        and provenance in its attributes. A variable has only the dimensions it depends on. `validity` says whether the
        laws were fitted at such inputs.

    Raises:
        FactorGraphError: a value is missing, not finite, outside its variable's domain or in a wrong unit; the message
            names it.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> out = fg.step_graph().predict(fg.load_sku("h100-sxm"), step, power_cap=[400.0, 700.0])
        >>> out.t_step.dims, out.t_step.units
        (('power_cap',), 's')
    """
    variables = graph.variables
    asked = None if outputs is None else list(outputs)
    for name in asked or ():
        if name not in variables and name != VALIDITY:
            raise UnknownNameError("variable", name, variables)
    inputs = gather(graph, *sources, **values)
    known = [name for name in variables if name in inputs.arrays or name in graph]
    wanted = tuple(known) if asked is None else tuple(name for name in asked if name != VALIDITY)
    for name in wanted:
        if name not in known:
            raise FactorGraphError(
                f"'{name}' was asked for, but no law gives it; pass {name}= in {variables[name].unit}"
            )
    spans = spans_of_results(graph, inputs)
    out_spans = tuple((name, spans[name]) for name in wanted)
    results = _evaluate(graph, inputs.arrays, inputs.dims, tuple(inputs.spans.items()), out_spans)
    data = {n: (spans[n] + shown_plates(variables[n], variables), np.asarray(results[n])) for n in wanted}
    dataset = xr.Dataset({n: v for n, v in data.items() if n not in inputs.coords}, coords=inputs.coords)
    for name in map(str, dataset.variables):
        if name in variables:
            dataset[name].attrs = {"units": variables[name].unit, "long_name": variables[name].doc}
    if asked is None or VALIDITY in asked:
        dataset[VALIDITY] = judge(graph, _as_given(graph, inputs)).variable
    dataset.attrs = provenance(graph, sources)
    _check_results(dataset)
    return dataset


# The name under which a result says how sure it is.
VALIDITY = "validity"


def _as_given(graph: FactorGraph, inputs: "Inputs") -> dict[str, xr.DataArray]:
    plates = {name: variable.plates for name, variable in graph.variables.items()}
    return {
        name: xr.DataArray(array, dims=(*inputs.spans[name], *plates[name]), coords=_labels(inputs, name))
        for name, array in ((name, np.asarray(array)) for name, array in inputs.arrays.items())
    }


def _labels(inputs: "Inputs", name: str) -> dict[str, xr.DataArray]:
    return {dim: inputs.coords[dim] for dim in inputs.spans[name] if dim in inputs.coords}


# --- inputs ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Checked values of variables, ready for a graph.

    Attributes:
        arrays: values by variable name; the outer dimensions that a variable spans come first, its plates last.
        dims: every outer dimension, outermost first.
        spans: those of each variable.
        coords: labels along dimensions and plates.
    """

    arrays: dict[str, Array]
    dims: tuple[str, ...]
    spans: dict[str, tuple[str, ...]]
    coords: dict[str, xr.DataArray]


def gather(graph: FactorGraph, *sources: Any, **values: Any) -> Inputs:
    """Read, check and align the values that `predict` is given; see there."""
    variables = graph.variables
    for name in values:
        if name not in variables:
            raise UnknownNameError("variable", name, variables)
    supplied = {n: v for n, v in _from_sources(sources, variables).items() if n not in values}
    # What the caller states comes last, so that the dimensions of a sweep stand in the order in which it was written.
    given = supplied | {n: _override(variables[n], value) for n, value in values.items()}
    plates = _own_plates(graph) | {str(plate): size for v in given.values() for plate, size in v.sizes.items()}
    given = {n: _on_plates(variables[n], v, plates) for n, v in given.items()}
    for name, array in given.items():
        _check(variables[name], array)
    dims = tuple(dict.fromkeys(str(d) for n, v in given.items() for d in v.dims if d not in variables[n].plates))
    given = {n: v.transpose(*(d for d in dims if d in v.dims), *variables[n].plates) for n, v in given.items()}
    return Inputs(
        arrays={name: jnp.asarray(v.values, dtype=float) for name, v in given.items()},
        dims=dims,
        spans={name: tuple(d for d in dims if d in v.dims) for name, v in given.items()},
        coords={str(name): v.coords[name] for v in given.values() for name in v.coords if name in v.dims},
    )


def _own_plates(graph: FactorGraph) -> dict[str, int]:
    """Sizes of the plates that the graph itself fills, such as its table of tilings."""
    tables = [factor for factor in graph.factors if not factor.inputs]
    return {plate: size for f in tables for plate, size in zip(f.output.plates, f().shape, strict=True)}


def _from_sources(sources: Sequence[Any], variables: Mapping[str, Variable]) -> dict[str, xr.DataArray]:
    groups = [list(source) if isinstance(source, (list, tuple)) else [source] for source in sources]
    members = [member for group in groups for member in group]
    for member in members:
        if not isinstance(member, (Source, Mapping)):
            raise FactorGraphError(f"{member!r} supplies no values; pass a Sku, a Step, or a mapping of values by name")
        for other in members:
            if isinstance(member, Source) and other is not member:
                member.accepts(other)
    merged: dict[str, xr.DataArray] = {}
    for source, group in zip(sources, groups, strict=True):
        if not group:
            raise FactorGraphError("an empty list supplies no values; pass at least one card or step")
        labelled = [_labelled(member, variables) for member in group]
        if isinstance(source, (list, tuple)):
            labelled = [_stack(group, labelled)]
        merged |= labelled[0]
    return merged


def _labelled(source: Any, variables: Mapping[str, Variable]) -> dict[str, xr.DataArray]:
    values = source if isinstance(source, Mapping) else source.values()
    coords = {} if isinstance(source, Mapping) else source.coords
    found = {}
    for name, value in values.items():
        if isinstance(value, xr.DataArray):
            found[name] = _override(variables[name], value)
        elif name in variables:
            plates = variables[name].plates
            array = np.asarray(value, dtype=float)
            if array.ndim != len(plates):
                raise FactorGraphError(f"'{name}' needs {len(plates)} axes ({', '.join(plates)}) and has {array.ndim}")
            found[name] = xr.DataArray(array, dims=plates, coords={p: list(coords[p]) for p in plates if p in coords})
    return found


def _stack(group: Sequence[Any], labelled: Sequence[dict[str, xr.DataArray]]) -> dict[str, xr.DataArray]:
    """Several sources of one kind side by side; what all of them agree on along a plate must be named alike."""
    labels = [member.label if isinstance(member, Source) else ("case", str(i)) for i, member in enumerate(group)]
    if len({dim for dim, _ in labels}) > 1:
        raise FactorGraphError("a list of sources mixes kinds; pass cards in one list and steps in another")
    names = [name for _, name in labels]
    if len(set(names)) < len(names):
        raise FactorGraphError(f"a list of sources names one twice ({', '.join(names)}); names must differ")
    index = xr.IndexVariable(labels[0][0], names)
    try:
        return {n: xr.concat([one[n] for one in labelled], dim=index, join="exact") for n in labelled[0]}
    except (ValueError, KeyError) as error:
        raise FactorGraphError(f"{', '.join(names)} do not list the same kernels; predict them one by one") from error


def _override(variable: Variable, value: Any) -> xr.DataArray:
    if isinstance(value, xr.DataArray):
        unit = value.attrs.get("units", variable.unit)
        return value.copy(data=to_unit(np.asarray(value.values, float), unit, variable.unit, what=variable.name))
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise FactorGraphError(f"{variable.name}={value!r} is no number; give it in {variable.unit}") from None
    if array.ndim == 0:
        return xr.DataArray(array)
    if array.ndim > 1:
        raise FactorGraphError(f"{variable.name} has {array.ndim} axes; name them by passing an xarray.DataArray")
    if array.size == 0:
        raise FactorGraphError(f"{variable.name} is an empty list; give at least one value in {variable.unit}")
    return xr.DataArray(array, dims=[variable.name], coords={variable.name: array})


def _on_plates(variable: Variable, array: xr.DataArray, sizes: Mapping[str, int]) -> xr.DataArray:
    """Repeat a value along the plates of its variable that it lacks."""
    missing = {plate: sizes.get(plate, 1) for plate in variable.plates if plate not in array.dims}
    return array.expand_dims(missing) if missing else array


def _check(variable: Variable, array: xr.DataArray) -> None:
    values = array.values
    low, high = variable.domain.lower, variable.domain.upper
    wrong = ~np.isfinite(values) | (values < low) | (values > high)
    if wrong.any():
        bad = values[wrong].flat[0]
        raise FactorGraphError(
            f"{variable.name} = {bad:g} {'' if variable.unit == '1' else variable.unit} is outside its domain "
            f"{variable.domain}; {variable.name} is the {variable.doc or 'value'} in {variable.unit}"
        )


# --- evaluation ------------------------------------------------------------------------------------------------------


def spans_of_results(graph: FactorGraph, inputs: Inputs) -> dict[str, tuple[str, ...]]:
    """The outer dimensions each variable depends on: those of a given value, else those of what its law reads."""
    spans = {name: set(span) for name, span in inputs.spans.items()}
    for factor in graph.factors:
        name = factor.output.name
        if name not in inputs.spans:
            spans[name] = set().union(*(spans.get(v.name, set()) for v in factor.inputs))
    for name, variable in graph.variables.items():
        for plate in variable.plates:
            spans.setdefault(name, set()).update(spans.get(CHOICES.get(plate, ""), set()))
    return {name: tuple(d for d in inputs.dims if d in span) for name, span in spans.items()}


@eqx.filter_jit
def _evaluate(
    graph: FactorGraph,
    arrays: dict[str, Array],
    dims: tuple[str, ...],
    spans: tuple[tuple[str, tuple[str, ...]], ...],
    wanted: tuple[tuple[str, tuple[str, ...]], ...],
) -> dict[str, Array]:
    def point(arrays: dict[str, Array]) -> dict[str, Array]:
        known = graph.evaluate(arrays)
        return {name: chosen(graph.variables, known, name) for name, _ in wanted}

    return mapped(point, dims, dict(spans), dict(wanted))(arrays)


def mapped(
    point: Callable[[dict[str, Array]], dict[str, Array]],
    dims: Sequence[str],
    spans: Mapping[str, tuple[str, ...]],
    out_spans: Mapping[str, tuple[str, ...]],
) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """A function of one point as one of arrays, mapped over each dimension that its arguments span."""
    for dim in reversed(dims):
        axes = {name: 0 if dim in span else None for name, span in spans.items()}
        out_axes = {name: 0 if dim in span else None for name, span in out_spans.items()}
        point = jax.vmap(point, in_axes=(axes,), out_axes=out_axes)
    return point


def chosen(variables: Mapping[str, Variable], known: Mapping[str, Array], name: str) -> Array:
    """The value at the alternative that was taken, for a variable on a plate of alternatives."""
    value, plates = known[name], variables[name].plates
    for plate, choice in CHOICES.items():
        if plate in plates and choice in known:
            taken = known[choice].astype(jnp.int32)
            if plates == (plate,):
                return value[taken]
            return jnp.take_along_axis(value, taken[..., None], axis=plates.index(plate)).squeeze(plates.index(plate))
    return value


def shown_plates(variable: Variable, variables: Mapping[str, Variable]) -> tuple[str, ...]:
    for plate, choice in CHOICES.items():
        if plate in variable.plates and choice in variables:
            return variables[choice].plates
    return variable.plates


# --- results ---------------------------------------------------------------------------------------------------------


def provenance(graph: FactorGraph, sources: Sequence[Any]) -> dict[str, str]:
    from factorgraph import __version__

    members = [m for s in sources for m in (s if isinstance(s, (list, tuple)) else [s]) if isinstance(m, Source)]
    return {
        "title": "factorgraph prediction",
        "factorgraph_version": __version__,
        "sources": json.dumps([list(member.label) for member in members]),
        "laws": json.dumps({factor.output.name: factor.law_name for factor in graph.factors}),
        "parameters": json.dumps({path: np.asarray(v).tolist() for path, v in graph.parameters.items()}),
    }


def _check_results(dataset: xr.Dataset) -> None:
    """No silent NaN: the first variable that is not finite is named."""
    for name, array in dataset.data_vars.items():
        if array.dtype.kind == "f" and not np.isfinite(array.values).all():
            raise FactorGraphError(f"'{name}' is not finite at these inputs; its law does not reach this far")
