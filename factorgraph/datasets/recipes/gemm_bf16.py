"""The bundled dataset gemm-bf16."""

from factorgraph.datasets.importers import Imported
from factorgraph.datasets.recipes import gemm


def build() -> Imported:
    """Every bf16 row of nine GPUs and three engines."""
    return gemm.build("bf16", "BF16 GEMM latency, nine GPUs, three engines")
