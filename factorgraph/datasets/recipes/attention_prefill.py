"""The bundled dataset attention-prefill."""

from factorgraph.datasets.importers import Imported
from factorgraph.datasets.recipes import attention


def build() -> Imported:
    """Attention of whole prompts."""
    return attention.build("context_attention", "Prefill attention latency, nine GPUs, vLLM")
