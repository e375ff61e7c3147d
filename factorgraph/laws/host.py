"""What the host adds to a step: scheduling, sampling, detokenising."""

from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import Sequences, THost

_SERVING = "serving rows of aiconfigurator-core 0.12.0, vLLM and TensorRT-LLM (design section 5)"


class HostResidual(Factor):
    """Host time that the GPU waits for, linear in concurrency: S(N) = s0 + s1 N.

    The constants belong to an engine, not to a GPU. The defaults are those of current vLLM and TensorRT-LLM; the
    starting report's engine had a floor of 2.37 ms (its E1.19).
    """

    s0: Array = parameter(0.5e-3, unit="s", source=_SERVING, upper=0.1)
    s1: Array = parameter(25e-6, unit="s", source=_SERVING, upper=0.01)

    monotone = {"sequences": +1}

    def __call__(self, sequences: Sequences) -> THost:
        return self.s0 + self.s1 * sequences
