"""The model against measurements: predictions of a dataset's kernels, and their errors beside simple baselines."""

from factorgraph.evaluation.aligned import predicted
from factorgraph.evaluation.attention import evaluate_attention
from factorgraph.evaluation.collective import evaluate_collective
from factorgraph.evaluation.gemm import evaluate_gemm, predict_gemm
from factorgraph.evaluation.rows import Row

__all__ = ["Row", "evaluate_attention", "evaluate_collective", "evaluate_gemm", "predict_gemm", "predicted"]
