"""The bundled dataset attention-decode."""

from factorgraph.datasets.importers import Imported
from factorgraph.datasets.recipes import attention


def build() -> Imported:
    """Attention of one new token a sequence."""
    return attention.build("generation_attention", "Decode attention latency, nine GPUs, vLLM")
