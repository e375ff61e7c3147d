"""Hardware: a GPU's numbers from its card, each with unit and source."""

from factorgraph.hardware.facts import Alternative, Fact
from factorgraph.hardware.generation import Generation, list_generations, load_generation
from factorgraph.hardware.loading import list_skus, load_sku
from factorgraph.hardware.sku import DTYPES, Finding, Sku

__all__ = [
    "DTYPES",
    "Alternative",
    "Fact",
    "Finding",
    "Generation",
    "Sku",
    "list_generations",
    "list_skus",
    "load_generation",
    "load_sku",
]
