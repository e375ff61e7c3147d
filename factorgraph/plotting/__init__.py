"""Figures. Each function takes labelled data and returns a `matplotlib.figure.Figure`; `save` writes SVG and PNG."""

from factorgraph.plotting.differences import difference
from factorgraph.plotting.efficiency import pull_down, roofline, waterfall
from factorgraph.plotting.latency import latency_contour, latency_lines
from factorgraph.plotting.sensitivities import convergence, elasticity_map, tornado
from factorgraph.plotting.serving import latency_against_concurrency
from factorgraph.plotting.style import save

__all__ = [
    "convergence",
    "difference",
    "elasticity_map",
    "latency_against_concurrency",
    "latency_contour",
    "latency_lines",
    "pull_down",
    "roofline",
    "save",
    "tornado",
    "waterfall",
]
