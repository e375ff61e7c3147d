"""The bundled dataset gemm-fp8."""

from factorgraph.datasets.importers import Imported
from factorgraph.datasets.recipes import gemm
from factorgraph.datasets.recipes.tables import SKUS


def build() -> Imported:
    """Every fp8 row (one scale a tensor or row, not block-scaled); A100 has no FP8."""
    return gemm.build("fp8", "FP8 GEMM latency, eight GPUs, three engines", SKUS[1:])
