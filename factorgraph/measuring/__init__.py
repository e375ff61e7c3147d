"""Measuring the machine one has: timed kernels as a dataset, and its card."""

from factorgraph.measuring.machine import Machine, this_machine
from factorgraph.measuring.sampler import NvmlSampler, Sampler, find_sampler
from factorgraph.measuring.session import Effort, measure, measure_cases
from factorgraph.measuring.timing import Timing, time_per_call

__all__ = [
    "Effort",
    "Machine",
    "NvmlSampler",
    "Sampler",
    "Timing",
    "find_sampler",
    "measure",
    "measure_cases",
    "this_machine",
    "time_per_call",
]
