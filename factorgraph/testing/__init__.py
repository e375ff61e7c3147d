"""Hold a law, or a graph of laws, to its physics; and draw whatever they read.

Needs Hypothesis (the extra `testing`); nothing else of the package does. Names are loaded when first used, so that
the pytest plugin costs nothing where no law is asked for.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from factorgraph.errors import FactorGraphError

if TYPE_CHECKING:
    from factorgraph.testing.checks import CHECKS
    from factorgraph.testing.compositions import built_in_laws, graphs
    from factorgraph.testing.differential import check_against
    from factorgraph.testing.inputs import datasets, gemm_shapes, skus, workloads
    from factorgraph.testing.invariants import INVARIANTS, GraphError, check_graph
    from factorgraph.testing.judging import LawError, Verdict, check_law, judge
    from factorgraph.testing.loading import load_law
    from factorgraph.testing.strategies import values_for, variables

_HOMES = {
    "checks": ("CHECKS",),
    "compositions": ("built_in_laws", "graphs"),
    "differential": ("check_against",),
    "inputs": ("datasets", "gemm_shapes", "skus", "workloads"),
    "invariants": ("INVARIANTS", "GraphError", "check_graph"),
    "judging": ("LawError", "Verdict", "check_law", "judge"),
    "loading": ("load_law",),
    "strategies": ("values_for", "variables"),
}

__all__ = [
    "CHECKS",
    "INVARIANTS",
    "GraphError",
    "LawError",
    "Verdict",
    "built_in_laws",
    "check_against",
    "check_graph",
    "check_law",
    "datasets",
    "gemm_shapes",
    "graphs",
    "judge",
    "load_law",
    "skus",
    "values_for",
    "variables",
    "workloads",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(_loaded(home), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")


def _loaded(home: str) -> ModuleType:
    try:
        return importlib.import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise FactorGraphError(f"{__name__} needs Hypothesis; install gpu-factorgraph[testing]") from None
