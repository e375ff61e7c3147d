"""Measuring the machine one has: timed kernels as a dataset, and its card."""

from factorgraph.measuring.card import card_facts, card_text, write_card
from factorgraph.measuring.conditioning import HeldOut, cpu_graph, fit_half, product_observations
from factorgraph.measuring.machine import Machine, cpu_model, this_machine
from factorgraph.measuring.sampler import NvmlSampler, Sampler, find_sampler
from factorgraph.measuring.session import Effort, measure, measure_cases
from factorgraph.measuring.timing import Timing, time_per_call

__all__ = [
    "Effort",
    "HeldOut",
    "Machine",
    "NvmlSampler",
    "Sampler",
    "Timing",
    "card_facts",
    "card_text",
    "cpu_graph",
    "cpu_model",
    "find_sampler",
    "fit_half",
    "measure",
    "measure_cases",
    "product_observations",
    "this_machine",
    "time_per_call",
    "write_card",
]
