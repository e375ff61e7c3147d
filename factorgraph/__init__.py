"""Predict how long one LLM-inference step takes on a GPU that nobody has profiled, and say why."""

from importlib.metadata import version as _version

from factorgraph.attribution import waterfall
from factorgraph.datasets import list_datasets, load_dataset
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, Given, parameter
from factorgraph.graph import FactorGraph
from factorgraph.hardware import Sku, list_skus, load_sku
from factorgraph.labelled import predict
from factorgraph.sensitivity import sensitivity
from factorgraph.step import step_graph
from factorgraph.variables import Domain, Variable
from factorgraph.workload import ModelConfig, Step, list_models, load_model

__version__ = _version("gpu-factorgraph")

__all__ = [
    "Domain",
    "Factor",
    "FactorGraph",
    "FactorGraphError",
    "Given",
    "ModelConfig",
    "Sku",
    "Step",
    "UnknownNameError",
    "Variable",
    "list_datasets",
    "list_models",
    "list_skus",
    "load_dataset",
    "load_model",
    "load_sku",
    "parameter",
    "predict",
    "sensitivity",
    "step_graph",
    "waterfall",
]
