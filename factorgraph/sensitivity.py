"""How a prediction moves with anything it depends on: exact derivatives, elasticities, and finite swings."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.labelled import chosen, mapped, predict, provenance, shown_plates
from factorgraph.varying import STEP_CHOICES, Case, Handle, open_case, remake
from factorgraph.workload.step import Step


def sensitivity(
    graph: FactorGraph,
    *sources: Any,
    wrt: Sequence[str],
    outputs: Sequence[str] = ("t_step",),
    order: int = 1,
    **values: Any,
) -> xr.Dataset:
    """Exact derivatives and elasticities (dln y / dln x), by automatic differentiation of the whole graph.

    A name in `wrt` may be

    - an input variable, such as "sm_clock", "power_cap" or "dram_bandwidth";
    - a variable that a law computes, such as "working_set" or "eta_mem": what the law says is scaled, and everything
      after it follows, as if one had intervened there;
    - a constant of a law, such as "eta_mem.x_half";
    - a number that the step is made from: "batch", "context", "prompt", "prefix", "chunk", "decode_batch". It acts
      through every kernel.

    A variable on a plate, or a constant of several numbers, is moved by one common factor s, and the derivative is
    that by s at s = 1, in the unit of the output.

    At a kink the derivative is that of the branch taken. A clock locked above the boost clock counts as the boost
    clock, so at the boost clock itself the derivative is that from below, and zero above. A rounding up (waves, tiles)
    has derivative zero, and so the derivative by "sm_count" or "batch" is that between two steps; where two tilings tie
    it is that of the first. Smooth maxima stand at the ridge of the roofline and where a power cap begins to bind.
    For what happens across a step, or for a choice such as `tp`, ask [`swing`][factorgraph.sensitivity.swing].

    Args:
        graph: the laws.
        *sources: as for [`predict`][factorgraph.labelled.predict]; a list of cards adds "sku", a list of steps "step".
        wrt: what to differentiate by.
        outputs: what to differentiate; if they lie on a plate, all on the same.
        order: 1, or 2 for second derivatives and cross terms as well.
        **values: as for `predict`; a sequence adds a dimension.

    Returns:
        Over (sku, parameter, output, and the dimensions of a sweep): `derivative` in the unit that the coordinate
        `derivative_unit` (parameter, output) states, and `elasticity`; `value` of each parameter (1 for one moved by a
        factor) and `output_value`. With order 2 also `second_derivative` over (parameter, parameter_2) in
        `second_derivative_unit`, and `second_elasticity` = x1 x2 / y d2y/dx1dx2.

    Raises:
        UnknownNameError: a name that is no variable, constant or number of the step.
        FactorGraphError: as for `predict`; a choice that has no derivative; outputs on different plates.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> wrt = ["dram_bandwidth", "context", "t_host.s0"]
        >>> out = sensitivity(fg.step_graph(), fg.load_sku("h100-sxm"), step, wrt=wrt)
        >>> [str(unit) for unit in out.derivative_unit.sel(output="t_step").values]
        ['s/(B/s)', 's', 's/s']
        >>> float(out.derivative.sel(parameter="t_host.s0", output="t_step"))
        1.0
    """
    if order not in (1, 2):
        raise FactorGraphError(f"order={order!r}; derivatives of order 1 or 2 are given")
    together = _list_of_steps(sources)
    if together is not None:
        place, steps = together
        each = [
            sensitivity(graph, *_put(sources, place, step), wrt=wrt, outputs=outputs, order=order, **values)
            for step in steps
        ]
        return xr.concat(
            each, dim=xr.IndexVariable("step", [step.label[1] for step in steps]), combine_attrs="override"
        )
    case, inputs = open_case(graph, sources, values)
    handles = tuple(case.handle(name, inputs) for name in _distinct(wrt))
    outputs = _distinct(outputs)
    plates = _shared_plates(graph, outputs)
    found = _differentiate(case, inputs.arrays, inputs.dims, tuple(inputs.spans.items()), handles, outputs, order)
    return _labelled(graph, found, handles, outputs, plates, inputs, provenance(graph, sources))


@eqx.filter_jit
def _differentiate(
    case: Case,
    arrays: dict[str, Array],
    dims: tuple[str, ...],
    spans: tuple[tuple[str, tuple[str, ...]], ...],
    handles: tuple[Handle, ...],
    outputs: tuple[str, ...],
    order: int,
) -> dict[str, Array]:
    """Derivatives by relative moves of all handles at once, at every point."""

    def point(arrays: dict[str, Array]) -> dict[str, Array]:
        start = jnp.stack([case.position(handle, arrays) for handle in handles])
        # What is zero has no relative move and is moved by its unit.
        reach = jnp.where(start == 0.0, 1.0, start)

        def moved(by: Array) -> Array:
            positions = dict(zip(handles, start + reach * by, strict=True))
            known = case.evaluate(arrays, positions)
            return jnp.stack([chosen(case.graph.variables, known, name) for name in outputs])

        nowhere = jnp.zeros_like(start)
        at = moved(nowhere)
        # One pass per input or one per output: whichever is fewer.
        first = jax.jacfwd(moved) if len(handles) <= at.size else jax.jacrev(moved)
        known = case.evaluate(arrays, {})
        found = {
            "value": jnp.stack([_value(handle, known, case.position(handle, arrays)) for handle in handles]),
            "reach": reach,
            "start": start,
            "output_value": at,
            "first": first(nowhere),
        }
        if order == 2:
            found["second"] = jax.hessian(moved)(nowhere)
        return found

    names = ("value", "reach", "start", "output_value", "first", *(["second"] if order == 2 else []))
    return mapped(point, dims, dict(spans), dict.fromkeys(names, dims))(arrays)


def _value(handle: Handle, known: Mapping[str, Array], position: Array) -> Array:
    return known[handle.name] if handle.kind == "computed" and not handle.scaled else position


def _labelled(graph, found, handles, outputs, plates, inputs, attrs) -> xr.Dataset:
    """Derivatives by relative moves as derivatives by units, in double precision, with names."""
    names, variables = [handle.name for handle in handles], graph.variables
    dims = inputs.dims

    def array(name: str, *own: str) -> xr.DataArray:
        return xr.DataArray(np.asarray(found[name], dtype=float), dims=(*dims, *own))

    coords = {name: c for name, c in inputs.coords.items() if name in dims or name in plates}
    coords |= {"parameter": names, "output": list(outputs)}
    output_units = [variables[name].unit for name in outputs]
    units = [[_per(unit, "1" if h.scaled else h.unit) for unit in output_units] for h in handles]
    coords["derivative_unit"] = (("parameter", "output"), units)
    coords["kind"] = ("parameter", [handle.kind for handle in handles])
    value, at = array("value", "parameter"), array("output_value", "output", *plates)
    start, first = array("start", "parameter"), array("first", "output", *plates, "parameter")
    # A computed variable was moved by a factor, so its reach in its own unit is its value.
    computed = xr.DataArray([h.kind == "computed" and not h.scaled for h in handles], dims="parameter")
    reach = xr.where(computed, value, array("reach", "parameter"))
    data = {
        "derivative": first / reach,
        "elasticity": _relative(first.where(start != 0.0, 0.0), at),
        "value": value,
        "output_value": at,
    }
    meanings = {
        "derivative": ("see derivative_unit", "derivative of the output by the parameter"),
        "elasticity": ("1", "relative change of the output per relative change of the parameter"),
        "value": ("see parameter", "value of the parameter"),
        "output_value": ("see output", "value of the output"),
    }
    if "second" in found:
        other = {"parameter": "parameter_2"}
        second = array("second", "output", *plates, "parameter", "parameter_2")
        coords["parameter_2"] = names
        coords["second_derivative_unit"] = (
            ("parameter", "parameter_2", "output"),
            [[[_per(unit, "1" if h.scaled else h.unit) for unit in row] for h in handles] for row in units],
        )
        data["second_derivative"] = second / (reach * reach.rename(other))
        moving = (start != 0.0) & (start.rename(other) != 0.0)
        data["second_elasticity"] = _relative(second.where(moving, 0.0), at)
        meanings["second_derivative"] = ("see second_derivative_unit", "second derivative of the output")
        meanings["second_elasticity"] = ("1", "second derivative times both parameters over the output")
    dataset = xr.Dataset(data, coords=coords, attrs=attrs | {"title": "factorgraph sensitivity"})
    for name, (unit, meaning) in meanings.items():
        dataset[name].attrs = {"units": unit, "long_name": meaning}
    front = [d for d in ("sku", "step") if d in dims]
    for name in data:
        _hold_finite(dataset[name])
    return dataset.transpose(*front, "parameter", "parameter_2", "output", ..., missing_dims="ignore")


def _per(unit: str, by: str) -> str:
    """The unit of a derivative: "s/Hz", "s/(B/s)", "s" by a bare number."""
    if by == "1":
        return unit
    return f"{unit}/({by})" if any(sign in by for sign in "/* ") else f"{unit}/{by}"


def _relative(change: xr.DataArray, value: xr.DataArray) -> xr.DataArray:
    """Change over value; nothing is nothing, though the value itself be zero."""
    return (change / value).where(change != 0.0, 0.0)


def _hold_finite(found: xr.DataArray) -> None:
    bad = np.argwhere(~np.isfinite(found.values))
    if bad.size:
        at = found.isel(dict(zip(found.dims, bad[0], strict=True)))
        names = " by ".join(f"'{at[dim].values}'" for dim in ("output", "parameter", "parameter_2") if dim in at.coords)
        raise FactorGraphError(
            f"the {str(found.name).replace('_', ' ')} of {names} is not finite here; "
            f"a law on the way has an edge at these inputs, or the output is zero"
        )


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or len(set(names)) < len(names):
        raise FactorGraphError(f"names {list(names)} must be at least one, each once")
    return names


def _shared_plates(graph: FactorGraph, outputs: Sequence[str]) -> tuple[str, ...]:
    variables = graph.variables
    for name in outputs:
        if name not in graph:
            raise UnknownNameError("output", name, [variable.name for variable in graph.outputs])
    plates = {shown_plates(variables[name], variables) for name in outputs}
    if len(plates) > 1:
        raise FactorGraphError(f"{', '.join(outputs)} lie on different plates; ask for them one by one")
    return plates.pop()


def _list_of_steps(sources: Sequence[Any]) -> tuple[int, list[Step]] | None:
    for place, source in enumerate(sources):
        if isinstance(source, (list, tuple)) and source and all(isinstance(one, Step) for one in source):
            return place, list(source)
    return None


def _put(sources: Sequence[Any], place: int, step: Step) -> tuple[Any, ...]:
    return (*sources[:place], step, *sources[place + 1 :])


def swing(
    graph: FactorGraph,
    *sources: Any,
    over: Mapping[str, tuple[Any, Any]],
    outputs: Sequence[str] = ("t_step",),
    **values: Any,
) -> xr.Dataset:
    """How far an output moves when one quantity at a time goes from one value to another, the rest as given.

    The honest answer where a derivative says little: counts such as "sm_count", step functions, and choices of the
    step ("tp", "weights", "kv").

    Args:
        graph: the laws.
        *sources: as for [`predict`][factorgraph.labelled.predict].
        over: for each name (a variable, a constant, or a number or choice of the step) its two values. A variable on a
            plate takes the value everywhere.
        outputs: the variables looked at, none of them on a plate.
        **values: as for `predict`.

    Returns:
        Over (parameter, output) and any outer dimension: `low` and `high`, the output at the two values; `baseline`,
        the output as given; `change` = high - low, and `relative_change` = change / baseline. Coordinates `start` and
        `stop` show the values.

    Raises:
        UnknownNameError: a name that nothing has.
        FactorGraphError: as for `predict`, or an output on a plate.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> out = swing(fg.step_graph(), fg.load_sku("h100-sxm"), step, over={"tp": (1, 2), "sm_count": (120, 132)})
        >>> bool((out.change < 0).all())
        True
    """
    for name, ends in over.items():
        if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
            raise FactorGraphError(f"swing needs two values of '{name}', such as (1, 2); got {ends!r}")
    if not over:
        raise FactorGraphError("swing over nothing; name at least one quantity and its two values")
    outputs = _distinct(outputs)
    if _shared_plates(graph, outputs):
        raise FactorGraphError(f"swing looks at whole steps; {', '.join(outputs)} lie on a plate")

    def look(name: str | None = None, value: Any = None) -> xr.DataArray:
        changed = (graph, sources, values) if name is None else _changed(graph, sources, values, name, value)
        out = predict(changed[0], *changed[1], outputs=outputs, **changed[2]).astype(float)
        return xr.concat([out[o] for o in outputs], dim=xr.IndexVariable("output", list(outputs)))

    baseline = look()
    index = xr.IndexVariable("parameter", list(over))
    low = xr.concat([look(name, ends[0]) for name, ends in over.items()], dim=index)
    high = xr.concat([look(name, ends[1]) for name, ends in over.items()], dim=index)
    swings = xr.Dataset(
        {
            "low": low,
            "high": high,
            "baseline": baseline,
            "change": high - low,
            "relative_change": (high - low) / baseline,
        },
        coords={
            "start": ("parameter", [str(ends[0]) for ends in over.values()]),
            "stop": ("parameter", [str(ends[1]) for ends in over.values()]),
            "output_unit": ("output", [graph.variables[name].unit for name in outputs]),
        },
        attrs=provenance(graph, sources) | {"title": "factorgraph swing"},
    )
    swings["relative_change"].attrs = {"units": "1", "long_name": "change over baseline"}
    return swings.transpose("parameter", "output", ...)


def _changed(graph, sources, values, name, value) -> tuple[FactorGraph, Sequence[Any], Mapping[str, Any]]:
    """Graph, sources and values with one quantity set."""
    if name in graph.variables:
        return graph, sources, {**values, name: value}
    if name in graph.parameters:
        return graph.with_parameters({name: value}), sources, values
    case, inputs = open_case(graph, sources, values)
    if name not in STEP_CHOICES or case.step is None:
        case.handle(name, inputs)
    changed = [remake(one, {name: value}) if isinstance(one, Step) else one for one in sources]
    return graph, changed, values
