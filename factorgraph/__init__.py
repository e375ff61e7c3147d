"""Predict how long one LLM-inference step takes on a GPU that nobody has profiled, and say why."""

from importlib.metadata import version as _version

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, Given, parameter
from factorgraph.graph import FactorGraph
from factorgraph.labelled import predict
from factorgraph.step import step_graph
from factorgraph.variables import Domain, Variable

__version__ = _version("gpu-factorgraph")

__all__ = [
    "Domain",
    "Factor",
    "FactorGraph",
    "FactorGraphError",
    "Given",
    "UnknownNameError",
    "Variable",
    "parameter",
    "predict",
    "step_graph",
]
