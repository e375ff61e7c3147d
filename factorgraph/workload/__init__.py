"""Workloads: a decoder's sizes from its `config.json`, and the kernel table of one engine step."""

from factorgraph.workload.feedforward import touched_experts
from factorgraph.workload.kernels import LIBRARIES, TENSOR_TYPES
from factorgraph.workload.loading import list_models, load_model
from factorgraph.workload.model import ModelConfig
from factorgraph.workload.step import Step, mean_attended

__all__ = [
    "LIBRARIES",
    "TENSOR_TYPES",
    "ModelConfig",
    "Step",
    "list_models",
    "load_model",
    "mean_attended",
    "touched_experts",
]
