"""Inference on the graph: constants from measurements, how far to trust them, and the interval around a prediction."""

from factorgraph.inference.conditioning import Conditioned, condition
from factorgraph.inference.fitting import Fit, fit, log_density
from factorgraph.inference.intervals import coverage, interval_for, leave_one_out, predict_interval
from factorgraph.inference.posterior import Posterior
from factorgraph.inference.scales import Prior

__all__ = [
    "Conditioned",
    "Fit",
    "Posterior",
    "Prior",
    "condition",
    "coverage",
    "fit",
    "interval_for",
    "leave_one_out",
    "log_density",
    "predict_interval",
]
