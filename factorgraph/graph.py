"""The factor graph: laws composed over named variables, checked when built, evaluated as one pure function."""

import graphlib
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, ParameterInfo
from factorgraph.variables import Variable, variable_of


class FactorGraph(eqx.Module):
    """Laws wired by the variables they share. Immutable; a PyTree whose array leaves are the laws' constants.

    A law is called by the variable it gives: `graph["eta_mem"]`, `graph.replace(eta_mem=...)`, parameter
    "eta_mem.x_half".

    Args:
        factors: the laws, in any order.
        inputs: variables that are supplied from outside. Left out, every variable without a producer is one; stated,
            a variable that no law gives and that is not listed is an error, which catches a misspelt name.

    Raises:
        FactorGraphError: two laws give one variable, a variable has no producer, the laws form a cycle, or laws
            disagree on a variable's unit, domain or plates. The message names the law, the variable and the mend.

    Examples:
        >>> from factorgraph.laws.peak import CountedPeak
        >>> graph = FactorGraph([CountedPeak()])
        >>> values = {"sm_count": 132.0, "flop_per_clock": jnp.array([4096.0]), "boost_clock": 1.83e9}
        >>> round(float(graph.evaluate(values)["peak_flops"][0]) / 1e12, 1)
        989.4
    """

    factors: tuple[Factor, ...]
    input_names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, factors: Iterable[Factor], *, inputs: Iterable[Any] | None = None):
        producers: dict[str, Factor] = {}
        for factor in factors:
            if not isinstance(factor, Factor):
                raise FactorGraphError(f"{factor!r} is no law; subclass factorgraph.Factor and pass an instance")
            name = factor.output.name
            if name in producers:
                raise FactorGraphError(
                    f"laws {producers[name].law_name} and {factor.law_name} both give '{name}'; "
                    f"keep one, or use graph.replace({name}=...) to swap it"
                )
            producers[name] = factor
        variables = _agreed_variables(producers.values())
        self.factors = _in_order(producers)
        needed = {name for name in variables if name not in producers}
        if inputs is not None:
            allowed = {item if isinstance(item, str) else _variable(item).name for item in inputs}
            for name in sorted(needed - allowed):
                reader = next(f for f in self.factors if any(v.name == name for v in f.inputs))
                raise FactorGraphError(
                    f"law {reader.law_name} reads '{name}', which no law gives and no input supplies; "
                    f"add a law that returns it, or declare it with inputs=[...]"
                )
        self.input_names = tuple(sorted(needed))

    # --- what is in it ---------------------------------------------------------------------------------------------

    @property
    def variables(self) -> dict[str, Variable]:
        """Every variable by name, inputs first, then in the order in which they are computed."""
        read = {variable.name: variable for factor in self.factors for variable in factor.inputs}
        given = {factor.output.name: factor.output for factor in self.factors}
        return {name: read[name] for name in self.input_names} | given

    @property
    def inputs(self) -> tuple[Variable, ...]:
        variables = self.variables
        return tuple(variables[name] for name in self.input_names)

    @property
    def outputs(self) -> tuple[Variable, ...]:
        return tuple(factor.output for factor in self.factors)

    def __getitem__(self, name: str) -> Factor:
        for factor in self.factors:
            if factor.output.name == name:
                return factor
        raise UnknownNameError("law", name, [factor.output.name for factor in self.factors])

    def __contains__(self, name: str) -> bool:
        return any(factor.output.name == name for factor in self.factors)

    @property
    def parameters(self) -> dict[str, Array]:
        """The laws' constants by "variable.field"."""
        return {path: getattr(self[owner], field) for path, (owner, field) in self._parameter_paths().items()}

    def parameter_info(self, path: str) -> ParameterInfo:
        """Unit, source and bounds of one constant."""
        owner, field = self._parameter(path)
        return self[owner].parameters[field]

    # --- composing -------------------------------------------------------------------------------------------------

    def replace(self, *, inputs: Iterable[Any] = (), **laws: Factor) -> "FactorGraph":
        """A graph with other laws for some of its variables.

        Args:
            inputs: variables that the new laws read and that will be supplied from outside.
            **laws: the variable to swap the law of, and the law that is to give it.

        Raises:
            FactorGraphError: no law gives that variable here, the new law gives another one, or it does not fit.

        Examples:
            >>> from factorgraph import step_graph
            >>> from factorgraph.laws.host import HostResidual
            >>> graph = step_graph("base").replace(t_host=HostResidual(s0=1e-3))
            >>> float(graph["t_host"].s0)
            0.0010000000474974513
        """
        for name, law in laws.items():
            replaced = self[name]
            if not isinstance(law, Factor):
                raise FactorGraphError(f"replace({name}=...) needs a law; {law!r} is none")
            if law.output.name != name:
                raise FactorGraphError(
                    f"replace({name}=...): law {law.law_name} gives '{law.output.name}', not '{replaced.output.name}'; "
                    f"annotate its return value with the variable it replaces"
                )
        factors = [laws.get(factor.output.name, factor) for factor in self.factors]
        return FactorGraph(factors, inputs=[*self._available_inputs(), *inputs])

    def add(self, *factors: Factor, inputs: Iterable[Any] = ()) -> "FactorGraph":
        """A graph with further laws; a variable that was supplied from outside may now have a producer."""
        return FactorGraph([*self.factors, *factors], inputs=[*self._available_inputs(), *inputs])

    def subgraph(self, *outputs: str) -> "FactorGraph":
        """The part of the graph that the named variables depend on.

        Raises:
            UnknownNameError: a name that the graph does not give.
        """
        wanted, kept = list(outputs), {}
        while wanted:
            name = wanted.pop()
            if name in kept or (name in self.input_names and name not in outputs):
                continue
            kept[name] = self[name]
            wanted += [variable.name for variable in kept[name].inputs]
        return FactorGraph([factor for factor in self.factors if factor.output.name in kept])

    def with_parameters(self, values: Mapping[str, Any]) -> "FactorGraph":
        """A graph with other constants: `graph.with_parameters({"eta_mem.x_half": 0.3})`. Never causes a retrace."""
        graph = self
        for path, value in values.items():
            owner, field = self._parameter(path)
            position = next(i for i, factor in enumerate(self.factors) if factor.output.name == owner)
            old = getattr(self.factors[position], field)
            new = jnp.broadcast_to(jnp.asarray(value, dtype=old.dtype), old.shape)
            graph = eqx.tree_at(lambda g, i=position, f=field: getattr(g.factors[i], f), graph, new)
        return graph

    # --- evaluating ------------------------------------------------------------------------------------------------

    def evaluate(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """Every variable's value. Pure: may be jitted, mapped and differentiated.

        Args:
            values: a number for each input, of one axis per plate of the variable. A value given for a variable that
                a law would compute takes its place, and the law is not run (an intervention).

        Returns:
            The given values and all computed ones, by name.

        Raises:
            FactorGraphError: an input is missing or a value has another number of axes than its variable has plates.
        """
        variables = self.variables
        for name in values:
            if name not in variables:
                raise UnknownNameError("variable", name, variables)
        known = {name: _checked(variables[name], value) for name, value in values.items()}
        known |= {f.output.name: f() for f in self.factors if not f.inputs and f.output.name not in known}
        sizes = _plate_sizes(variables, known)
        for factor in self.factors:
            name = factor.output.name
            if name in known:
                continue
            for variable in factor.inputs:
                if variable.name not in known:
                    raise FactorGraphError(
                        f"'{variable.name}' has no value and law {factor.law_name} needs it; "
                        f"pass {variable.name}= in {variable.unit} ({variable.doc or 'no description'})"
                    )
            known[name] = _apply(factor, [known[variable.name] for variable in factor.inputs], sizes)
        return known

    def predict(self, *sources: Any, outputs: Iterable[str] | None = None, **values: Any):
        """Evaluate on labelled inputs; see [`factorgraph.labelled.predict`][]."""
        from factorgraph.labelled import predict

        return predict(self, *sources, outputs=outputs, **values)

    # --- showing ---------------------------------------------------------------------------------------------------

    def draw(self, format: str = "mermaid", *, values: Mapping[str, Any] | None = None) -> str:
        """The graph as "mermaid", "dot" or "text", with values where given; see [`factorgraph.drawing.draw`][]."""
        from factorgraph.drawing import draw

        return draw(self, format, values=values)

    def _repr_html_(self) -> str:
        from factorgraph.drawing import to_html

        return to_html(self)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _available_inputs(self) -> list[str]:
        """What a later law may read: the inputs, which stay supplied from outside, and all variables given here."""
        return [*self.input_names, *(factor.output.name for factor in self.factors)]

    def _parameter_paths(self) -> dict[str, tuple[str, str]]:
        return {
            f"{factor.output.name}.{field}": (factor.output.name, field)
            for factor in self.factors
            for field in factor.parameters
        }

    def _parameter(self, path: str) -> tuple[str, str]:
        paths = self._parameter_paths()
        if path not in paths:
            raise UnknownNameError("parameter", path, paths)
        return paths[path]


def _apply(factor: Factor, inputs: Iterable[Array], sizes: Mapping[str, int]) -> Array:
    """Call a law, mapped over the plates of its output.

    A plate that an input shares with the output is mapped over; one that only the input has reaches the law as an axis.
    """
    plates = factor.output.plates
    call: Any = factor.__call__
    for depth in reversed(range(len(plates))):
        plate, outer = plates[depth], plates[:depth]
        axes = []
        for variable in factor.inputs:
            left = [other for other in variable.plates if other not in outer]
            axes.append(left.index(plate) if plate in left else None)
        if any(axis is not None for axis in axes):
            call = jax.vmap(call, in_axes=tuple(axes))
        else:
            call = _repeated(call, sizes.get(plate, 1))
    return call(*inputs)


def _repeated(call: Any, size: int) -> Any:
    """The same result along an output plate that no input has."""

    def repeat(*inputs: Array) -> Array:
        result = call(*inputs)
        return jnp.broadcast_to(result, (size, *result.shape))

    return repeat


def _plate_sizes(variables: Mapping[str, Variable], known: Mapping[str, Array]) -> dict[str, int]:
    sizes: dict[str, tuple[int, str]] = {}
    for name, value in known.items():
        for plate, size in zip(variables[name].plates, value.shape, strict=True):
            first, owner = sizes.setdefault(plate, (size, name))
            if size != first:
                raise FactorGraphError(
                    f"'{name}' has {size} entries on plate '{plate}' and '{owner}' has {first}; "
                    f"give both the same number"
                )
    return {plate: size for plate, (size, _) in sizes.items()}


def _checked(variable: Variable, value: Any) -> Array:
    array = jnp.asarray(value, dtype=float) if not isinstance(value, jax.Array) else value
    if array.ndim != len(variable.plates):
        wanted = " x ".join(variable.plates) if variable.plates else "a single number"
        raise FactorGraphError(
            f"'{variable.name}' needs {wanted}, and the value given has {array.ndim} axes; "
            f"sweeps over further axes go through graph.predict"
        )
    return array


def _variable(item: Any) -> Variable:
    found = variable_of(item)
    if found is None:
        raise FactorGraphError(f"{item!r} is no variable; pass a name, a Variable or an annotation that carries one")
    return found


def _agreed_variables(factors: Iterable[Factor]) -> dict[str, Variable]:
    """All variables by name, after checking that every law means the same thing by a name."""
    seen: dict[str, tuple[Variable, Factor]] = {}
    for factor in factors:
        for variable in (*factor.inputs, factor.output):
            first, owner = seen.setdefault(variable.name, (variable, factor))
            for aspect in ("unit", "plates", "domain"):
                ours, theirs = getattr(variable, aspect), getattr(first, aspect)
                if ours != theirs:
                    raise FactorGraphError(
                        f"laws {owner.law_name} and {factor.law_name} disagree on the {aspect} of '{variable.name}': "
                        f"{theirs or 'none'} against {ours or 'none'}; use one Variable for both"
                    )
    return {name: variable for name, (variable, _) in seen.items()}


def _in_order(producers: Mapping[str, Factor]) -> tuple[Factor, ...]:
    edges = {name: [v.name for v in factor.inputs if v.name in producers] for name, factor in producers.items()}
    try:
        return tuple(producers[name] for name in graphlib.TopologicalSorter(edges).static_order())
    except graphlib.CycleError as error:
        loop = " -> ".join(reversed(error.args[1]))
        raise FactorGraphError(
            f"the laws feed each other in a circle ({loop}); break it by letting one of them read an earlier variable"
        ) from None
