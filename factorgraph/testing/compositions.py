"""The laws that come with the package, and the graphs that can be made of them."""

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import factorgraph.laws
from factorgraph.errors import FactorGraphError
from factorgraph.factor import Factor
from factorgraph.graph import FactorGraph
from factorgraph.step import VARIANTS, step_graph
from factorgraph.testing.strategies import given_strategy


@functools.cache
def built_in_laws() -> tuple[Factor, ...]:
    """An instance of every law of `factorgraph.laws`.

    Examples:
        >>> "HostResidual" in [law.law_name for law in built_in_laws()]
        True
    """
    found = pkgutil.iter_modules(factorgraph.laws.__path__)
    modules = [importlib.import_module(f"factorgraph.laws.{module.name}") for module in found]
    return tuple(
        item()
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Factor) and item.__module__ == module.__name__
    )


def graphs(*, bases: st.SearchStrategy[FactorGraph] | None = None) -> st.SearchStrategy[FactorGraph]:
    """Valid graphs: a step graph with some of its laws swapped for others of the package, or a part of one.

    Args:
        bases: of the graphs to begin with; by default those of `step_graph`.

    Examples:
        >>> from hypothesis import find
        >>> find(graphs(), lambda graph: "eta_mem" in graph and graph["eta_mem"].law_name == "L2Reuse").outputs[-1].name
        't_step'
    """
    bases = given_strategy(bases, "bases", "step_graph()", st.sampled_from(list(VARIANTS)).map(step_graph))

    @st.composite
    def graph(draw: Callable[..., Any]) -> FactorGraph:
        base = draw(bases)
        for name in [output.name for output in base.outputs]:
            fitting = [base, *_swaps(base, name)]
            if len(fitting) > 1:
                base = draw(st.sampled_from(fitting))
        if draw(st.booleans()):
            base = base.subgraph(draw(st.sampled_from([output.name for output in base.outputs])))
        return base

    return graph()


def _swaps(graph: FactorGraph, name: str) -> list[FactorGraph]:
    """The graph with each other law of the package that gives the variable and fits."""
    fitting = []
    for law in built_in_laws():
        if law.output.name != name or type(law) is type(graph[name]):
            continue
        swapped: dict[str, Any] = {name: law}
        try:
            fitting.append(graph.replace(**swapped))
        except FactorGraphError:  # it reads something that this graph does not have, or would close a circle
            continue
    return fitting
