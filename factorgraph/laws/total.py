"""Sums over the kernels of a step, and the step itself."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import smooth_max
from factorgraph.variables import (
    AttentionCount,
    CollectiveCount,
    GemmCount,
    LightCount,
    TAttention,
    TAttentionTotal,
    TCollective,
    TCollectiveTotal,
    TGemm,
    TGemmTotal,
    TGpu,
    THost,
    TLight,
    TLightTotal,
    TStep,
)


def _sum(times: Array, counts: Array) -> Array:
    return jnp.sum(times * counts)


class GemmTotal(Factor):
    """t_gemm_total = sum over GEMMs of gemm_count * t_gemm."""

    monotone = {"t_gemm": +1, "gemm_count": +1}

    def __call__(self, t_gemm: TGemm, gemm_count: GemmCount) -> TGemmTotal:
        return _sum(t_gemm, gemm_count)


class AttentionTotal(Factor):
    """t_attention_total = sum over attention kernels of attention_count * t_attention."""

    monotone = {"t_attention": +1, "attention_count": +1}

    def __call__(self, t_attention: TAttention, attention_count: AttentionCount) -> TAttentionTotal:
        return _sum(t_attention, attention_count)


class LightTotal(Factor):
    """t_light_total = sum over light kernels of light_count * t_light."""

    monotone = {"t_light": +1, "light_count": +1}

    def __call__(self, t_light: TLight, light_count: LightCount) -> TLightTotal:
        return _sum(t_light, light_count)


class CollectiveTotal(Factor):
    """t_collective_total = sum over collectives of collective_count * t_collective."""

    monotone = {"t_collective": +1, "collective_count": +1}

    def __call__(self, t_collective: TCollective, collective_count: CollectiveCount) -> TCollectiveTotal:
        return _sum(t_collective, collective_count)


class BaseGpuTime(Factor):
    """The report's base predictor: t_gpu = t_gemm_total + t_attention_total."""

    monotone = {"t_gemm_total": +1, "t_attention_total": +1}

    def __call__(self, t_gemm_total: TGemmTotal, t_attention_total: TAttentionTotal) -> TGpu:
        return t_gemm_total + t_attention_total


class GpuTime(Factor):
    """Kernels run one after another: t_gpu is the sum of the GEMM, attention, light and collective times."""

    monotone = {"t_gemm_total": +1, "t_attention_total": +1, "t_light_total": +1, "t_collective_total": +1}

    def __call__(
        self,
        t_gemm_total: TGemmTotal,
        t_attention_total: TAttentionTotal,
        t_light_total: TLightTotal,
        t_collective_total: TCollectiveTotal,
    ) -> TGpu:
        return t_gemm_total + t_attention_total + t_light_total + t_collective_total


class SerialHost(Factor):
    """The host works while the GPU waits: t_step = t_gpu + t_host."""

    monotone = {"t_gpu": +1, "t_host": +1}

    def __call__(self, t_gpu: TGpu, t_host: THost) -> TStep:
        return t_gpu + t_host


class OverlappedHost(Factor):
    """The host prepares the next step while the GPU runs this one: t_step = smooth_max8(t_gpu, t_host)."""

    monotone = {"t_gpu": +1, "t_host": +1}

    def __call__(self, t_gpu: TGpu, t_host: THost) -> TStep:
        return smooth_max(t_gpu, t_host, 8.0)


class EagerHost(Factor):
    """Without CUDA graphs the host issues every kernel, and the GPU waits where it is done before the next is issued.

    t_step = t_host + smooth_max8(t_gpu, t_issue * launches)

    | symbol | unit | meaning |
    |---|---|---|
    | t_issue | s | time the host takes to issue a kernel; its own property, 20 to 75 us in the tables |

    Limits: the GPU's time for long kernels, a constant for each launch for short ones.
    """

    t_issue: Array = parameter(
        20e-6,
        unit="s",
        source="eager all-reduces of 8 KiB and less, vLLM on H100, H200, B200, B300: aiconfigurator-core 0.12.0",
        lower=1e-7,
        upper=1e-3,
    )

    monotone = {
        "t_gpu": +1,
        "t_host": +1,
        "gemm_count": +1,
        "attention_count": +1,
        "light_count": +1,
        "collective_count": +1,
    }

    def __call__(
        self,
        t_gpu: TGpu,
        t_host: THost,
        gemm_count: GemmCount,
        attention_count: AttentionCount,
        light_count: LightCount,
        collective_count: CollectiveCount,
    ) -> TStep:
        counts = (gemm_count, attention_count, light_count, collective_count)
        launches = sum(jnp.sum(count) for count in counts)
        return t_host + smooth_max(t_gpu, self.t_issue * launches, 8.0)
