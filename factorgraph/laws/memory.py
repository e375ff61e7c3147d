"""The memory factor: compute time over time with traffic, and what share of the DRAM bandwidth a transfer reaches."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import falling_step, smooth_max
from factorgraph.variables import (
    DramBandwidth,
    EccFactor,
    EtaMem,
    L2Capacity,
    L2Partitions,
    SmClock,
    SmCount,
    TCompute,
    TLaunch,
    Traffic,
    TReduce,
    Waves,
    WorkingSet,
)

_REPORT = "report E1.3c: one pair for A100, H100, H200"
_TABLES = "pooled fit to the vLLM bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs"


def memory_factor(t_compute: ArrayLike, t_memory: ArrayLike, overlap: ArrayLike) -> Array:
    """eta_mem = t_compute / smooth_max(t_compute, t_memory): a roofline whose ridge is rounded.

    Examples:
        >>> round(float(memory_factor(1e-6, 3e-6, 8.0)), 3)
        0.333
    """
    return jnp.asarray(t_compute) / smooth_max(t_compute, t_memory, overlap)


class L2Reuse(Factor):
    """The report's law: the reached share of DRAM bandwidth depends on the working set over the L2 capacity alone.

    share = eta_max * x / (x + x_half),  x = working_set / l2_capacity;
    eta_mem = t_compute / smooth_max8(t_compute, traffic / (share * dram_bandwidth))

    | symbol | unit | meaning |
    |---|---|---|
    | eta_max | 1 | share reached by a large working set |
    | x_half | 1 | working set over L2 at which half of that is reached |

    Limits: share -> eta_max for x -> inf, proportional to x for x -> 0. It is the latency-bandwidth product in disguise
    (t = t0 + bytes/BW has x_half = t0 BW / L2), so it fails where that product differs: on Ada small sets run faster.
    """

    eta_max: Array = parameter(0.90, source=_REPORT, lower=0.1, upper=1.0)
    x_half: Array = parameter(0.477, source=_REPORT, lower=1e-3, upper=10.0)

    monotone = {"working_set": +1, "l2_capacity": -1, "dram_bandwidth": +1, "t_compute": +1, "traffic": -1}

    def __call__(
        self,
        t_compute: TCompute,
        traffic: Traffic,
        working_set: WorkingSet,
        l2_capacity: L2Capacity,
        dram_bandwidth: DramBandwidth,
    ) -> EtaMem:
        x = working_set / l2_capacity
        share = self.eta_max * x / (x + self.x_half)
        return memory_factor(t_compute, traffic / (share * dram_bandwidth), 8.0)


class LatencyBandwidth(Factor):
    """The fixed latency of a transfer is paid once (Little's law).

    eta_mem = t_compute / smooth_max8(t_compute, t_latency + traffic / dram_bandwidth)

    Limits: the DRAM roofline for large traffic, a constant time for little.
    """

    t_latency: Array = parameter(1.3e-6, unit="s", source="gpu-small-kernels, graph launches", lower=1e-8, upper=1e-4)

    monotone = {"traffic": -1, "dram_bandwidth": +1, "t_compute": +1}

    def __call__(self, t_compute: TCompute, traffic: Traffic, dram_bandwidth: DramBandwidth) -> EtaMem:
        return memory_factor(t_compute, self.t_latency + traffic / dram_bandwidth, 8.0)


class ReuseDistance(Factor):
    """Traffic is served by L2 as far as what is touched between two uses fits there, else by DRAM.

    b_dram = 1/(dram_bandwidth * dram_share * ecc_factor) + 1/(min(waves, 1) * sm_count * in_flight)
    b_l2   = 1/(l2_width * l2_partitions * sm_count * sm_clock), no slower than DRAM
    hit    = 1/(1 + (working_set * l2_partitions / (fit * l2_capacity))^12)
    fixed = t_launch + t_reduce, which memory traffic does not overlap;
    eta_mem = t_compute / (fixed + smooth_max_p(t_compute - fixed, traffic * ((1 - hit) b_dram + hit b_l2)))

    | symbol | unit | meaning |
    |---|---|---|
    | dram_share | 1 | share of the printed DRAM bandwidth that streaming reaches |
    | in_flight | B/s | bytes an SM keeps outstanding, over the time a byte is on its way (Little's law) |
    | l2_width | B | bytes an SM draws from an L2 partition a clock |
    | fit | 1 | share of L2 that a cyclic set may fill before it evicts itself |
    | overlap | 1 | sharpness p of the roofline's ridge |

    A serving engine touches all weights between two uses, so there the cache is cold and hit is zero.
    """

    dram_share: Array = parameter(0.943, source=_TABLES, lower=0.3, upper=1.0)
    in_flight: Array = parameter(4.11e11, unit="B/s", source=_TABLES, lower=1e10, upper=1e13)
    l2_width: Array = parameter(8.08, unit="B", source=_TABLES, lower=0.5, upper=128.0)
    fit: Array = parameter(0.942, source=_TABLES, lower=0.3, upper=1.5)
    overlap: Array = parameter(2.70, source=_TABLES, lower=1.0, upper=20.0)

    monotone = {"working_set": -1, "l2_capacity": +1, "dram_bandwidth": +1, "t_compute": +1, "traffic": -1}

    def __call__(
        self,
        t_compute: TCompute,
        t_launch: TLaunch,
        t_reduce: TReduce,
        traffic: Traffic,
        working_set: WorkingSet,
        waves: Waves,
        sm_count: SmCount,
        sm_clock: SmClock,
        dram_bandwidth: DramBandwidth,
        ecc_factor: EccFactor,
        l2_capacity: L2Capacity,
        l2_partitions: L2Partitions,
    ) -> EtaMem:
        busy_sms = jnp.minimum(waves, 1.0) * sm_count
        per_byte_dram = 1.0 / (dram_bandwidth * self.dram_share * ecc_factor) + 1.0 / (busy_sms * self.in_flight)
        per_byte_l2 = jnp.minimum(1.0 / (self.l2_width * l2_partitions * sm_count * sm_clock), per_byte_dram)
        hit = falling_step(working_set * l2_partitions / (self.fit * l2_capacity), 12.0)
        t_memory = traffic * ((1.0 - hit) * per_byte_dram + hit * per_byte_l2)
        fixed = t_launch + t_reduce
        t_gemm = fixed + smooth_max(jnp.maximum(t_compute - fixed, 0.0), t_memory, self.overlap)
        return jnp.minimum(t_compute / t_gemm, 1.0)
