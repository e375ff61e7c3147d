"""Steady-state serving: engines, the step they launch, and a closed loop of clients in closed form."""

from factorgraph.serving.closed_loop import most_clients_within, serve
from factorgraph.serving.engine import Engine, list_engines, load_engine
from factorgraph.serving.graph import engine_step_graph, serving_graph

__all__ = [
    "Engine",
    "engine_step_graph",
    "list_engines",
    "load_engine",
    "most_clients_within",
    "serve",
    "serving_graph",
]
