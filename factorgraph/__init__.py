"""Predict how long one LLM-inference step takes on a GPU that nobody has profiled, and say why."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version

from factorgraph.attribution import waterfall
from factorgraph.datasets import list_datasets, load_dataset
from factorgraph.difference import explain_difference
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, Given, parameter
from factorgraph.global_sensitivity import global_sensitivity
from factorgraph.graph import FactorGraph
from factorgraph.hardware import Sku, list_skus, load_sku
from factorgraph.inference import Fit, Posterior, Prior, condition, fit, predict_interval
from factorgraph.inverse import Solution, solve_for
from factorgraph.labelled import predict
from factorgraph.replay import Policy, load_trace, make_requests, replay, replay_on_card, tabulate
from factorgraph.sensitivity import sensitivity, swing
from factorgraph.serving import Engine, engine_step_graph, list_engines, load_engine, serve, serving_graph
from factorgraph.step import step_graph
from factorgraph.sweep import sweep
from factorgraph.variables import Domain, Variable
from factorgraph.workload import ModelConfig, Step, list_models, load_model

__version__ = _version("gpu-factorgraph")

__all__ = [
    "Domain",
    "Engine",
    "Factor",
    "FactorGraph",
    "FactorGraphError",
    "Fit",
    "Given",
    "ModelConfig",
    "Policy",
    "Posterior",
    "Prior",
    "Sku",
    "Solution",
    "Step",
    "UnknownNameError",
    "Variable",
    "condition",
    "engine_step_graph",
    "explain_difference",
    "fit",
    "global_sensitivity",
    "list_datasets",
    "list_engines",
    "list_models",
    "list_skus",
    "load_dataset",
    "load_engine",
    "load_model",
    "load_sku",
    "load_trace",
    "make_requests",
    "parameter",
    "predict",
    "predict_interval",
    "replay",
    "replay_on_card",
    "sensitivity",
    "serve",
    "serving_graph",
    "solve_for",
    "step_graph",
    "sweep",
    "swing",
    "tabulate",
    "waterfall",
]

# Rooms that bring a heavy or optional dependency are opened when they are first asked for.
_ROOMS = ("plotting", "results", "testing")


def __getattr__(name: str):
    if name in _ROOMS:
        return _import_module(f"factorgraph.{name}")
    raise AttributeError(f"module 'factorgraph' has no attribute '{name}'")
