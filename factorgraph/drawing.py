"""Pictures of a graph, as text that other tools render: Mermaid, DOT, a plain list, and HTML for notebooks."""

import html
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from factorgraph.errors import UnknownNameError
from factorgraph.variables import Variable

if TYPE_CHECKING:
    from factorgraph.graph import FactorGraph

Values = Mapping[str, Any] | None


def draw(graph: "FactorGraph", format: str = "mermaid", *, values: Values = None) -> str:
    """Text of the graph: variables as rounded boxes, laws as square ones, an arrow for each edge.

    Args:
        graph: what to draw.
        format: "mermaid", "dot" or "text".
        values: values by variable name (as from `graph.evaluate`); a repeated variable shows its range.

    Raises:
        UnknownNameError: another format.

    Examples:
        >>> from factorgraph.graph import FactorGraph
        >>> from factorgraph.laws.peak import CountedPeak
        >>> print(draw(FactorGraph([CountedPeak()]), "text"))
        peak_flops[gemm] = CountedPeak(sm_count, flop_per_clock, boost_clock)
    """
    if format not in _FORMATS:
        raise UnknownNameError("graph format", format, _FORMATS)
    return _FORMATS[format](graph, values)


def _label(variable: Variable, values: Values) -> str:
    """The variable's name, then its value and unit if it has one; a repeated variable shows its range."""
    if values is None or variable.name not in values:
        return str(variable)
    value = jnp.asarray(values[variable.name])
    if value.size == 0:
        return str(variable)
    low, high = float(value.min()), float(value.max())
    text = f"{low:.4g}" if low == high else f"{low:.4g} .. {high:.4g}"
    return f"{variable} = {text}" + ("" if variable.unit == "1" else f" {variable.unit}")


def _mermaid(graph: "FactorGraph", values: Values) -> str:
    lines = ["flowchart LR"]
    lines += [f'    {name}(["{_label(variable, values)}"])' for name, variable in graph.variables.items()]
    for factor in graph.factors:
        law = f"law_{factor.output.name}"
        lines.append(f'    {law}["{factor.law_name}"]')
        lines += [f"    {variable.name} --> {law}" for variable in factor.inputs]
        lines.append(f"    {law} --> {factor.output.name}")
    return "\n".join(lines)


def _dot(graph: "FactorGraph", values: Values) -> str:
    lines = ["digraph factorgraph {", "    rankdir=LR;"]
    lines += [f'    {name} [label="{_label(variable, values)}"];' for name, variable in graph.variables.items()]
    for factor in graph.factors:
        law = f"law_{factor.output.name}"
        lines.append(f'    {law} [shape=box, label="{factor.law_name}"];')
        lines += [f"    {variable.name} -> {law};" for variable in factor.inputs]
        lines.append(f"    {law} -> {factor.output.name};")
    return "\n".join([*lines, "}"])


def _text(graph: "FactorGraph", values: Values) -> str:
    return "\n".join(
        f"{_label(factor.output, values)} = {factor.law_name}({', '.join(v.name for v in factor.inputs)})"
        for factor in graph.factors
    )


_FORMATS: dict[str, Callable[["FactorGraph", Values], str]] = {"mermaid": _mermaid, "dot": _dot, "text": _text}


def to_html(graph: "FactorGraph", *, values: Values = None) -> str:
    """A table of the graph for a notebook: one row a law, with its equation line and its constants."""
    rows = []
    for factor in graph.factors:
        constants = ", ".join(
            f"{field} = {jnp.asarray(getattr(factor, field)).tolist()} {info.unit if info.unit != '1' else ''}".strip()
            for field, info in factor.parameters.items()
        )
        summary = (type(factor).__doc__ or "").strip().split("\n")[0]
        cells = [_label(factor.output, values), factor.law_name, ", ".join(v.name for v in factor.inputs), constants]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in [*cells, summary]) + "</tr>")
    head = "".join(f"<th>{title}</th>" for title in ("variable", "law", "reads", "constants", "meaning"))
    inputs = html.escape(", ".join(_label(variable, values) for variable in graph.inputs))
    title = f"<b>FactorGraph</b>: {len(graph.factors)} laws, {len(graph.input_names)} inputs"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<details open><summary>{title}</summary><p>inputs: {inputs}</p>{table}</details>"
