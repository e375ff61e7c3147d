"""The memory factor: compute time over time with traffic, and what share of the DRAM bandwidth a transfer reaches."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import falling_step, rising_step, smooth_max
from factorgraph.variables import (
    BusySms,
    DramBandwidth,
    EccFactor,
    EtaMem,
    L2Bandwidth,
    L2Capacity,
    L2Partitions,
    OperandLatency,
    ReachedBandwidth,
    SmClock,
    SmCount,
    TCompute,
    TPrologue,
    Traffic,
    TReduce,
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


class SharedCacheRate(Factor):
    """What L2 delivers: l2_bandwidth = width * l2_partitions * sm_count * sm_clock.

    | symbol | unit | meaning |
    |---|---|---|
    | width | B | bytes an SM draws from an L2 partition a clock |
    """

    width: Array = parameter(12.94, unit="B", source=_TABLES, lower=0.5, upper=128.0)

    monotone = {"l2_partitions": +1, "sm_count": +1, "sm_clock": +1}

    def __call__(self, l2_partitions: L2Partitions, sm_count: SmCount, sm_clock: SmClock) -> L2Bandwidth:
        return self.width * l2_partitions * sm_count * sm_clock


class BytesInFlight(Factor):
    """DRAM bandwidth that the busy SMs can draw: each keeps so many bytes outstanding, and waits its latency for them.

    1/reached_bandwidth = 1/(dram_bandwidth * dram_share * ecc_factor)
                          + operand_latency / (busy_sms * outstanding * sm_clock)

    | symbol | unit | meaning |
    |---|---|---|
    | dram_share | 1 | share of the printed bandwidth that streaming reaches |
    | outstanding | B | bytes an SM keeps in flight (Little's law) |

    Limits: the streaming bandwidth for many SMs, proportional to their number for few.
    """

    dram_share: Array = parameter(0.972, source=_TABLES, lower=0.3, upper=1.0)
    outstanding: Array = parameter(23.7e3, unit="B", source=_TABLES, lower=1e2, upper=1e6)

    kinks = ("busy_sms",)
    monotone = {"dram_bandwidth": +1, "ecc_factor": +1, "operand_latency": -1, "busy_sms": +1, "sm_clock": +1}

    fitted_in = {"dram_bandwidth": (0.86e12, 8e12), "sm_clock": (1.41e9, 2.52e9)}

    def __call__(
        self,
        dram_bandwidth: DramBandwidth,
        ecc_factor: EccFactor,
        operand_latency: OperandLatency,
        busy_sms: BusySms,
        sm_clock: SmClock,
    ) -> ReachedBandwidth:
        streaming = dram_bandwidth * self.dram_share * ecc_factor
        drawn = busy_sms * self.outstanding * (sm_clock / operand_latency)
        return streaming / (1.0 + streaming / drawn)


class ReuseDistance(Factor):
    """Traffic is served by L2 as far as what is touched between two uses fits there, else by DRAM.

    hit = 1/(1 + (working_set * l2_partitions / (fit * l2_capacity))^9): each partition keeps a copy of its own;
    t_memory = traffic * ((1 - hit)/reached_bandwidth + hit/max(l2_bandwidth, reached_bandwidth));
    fixed = t_prologue + t_reduce, which memory traffic does not overlap;
    eta_mem = t_compute / (fixed + smooth_max3(t_compute - fixed, t_memory))

    | symbol | unit | meaning |
    |---|---|---|
    | fit | 1 | share of L2 that a cyclic set may fill before it evicts itself |

    A serving engine touches all weights between two uses, so there the cache is cold and hit is zero.
    """

    fit: Array = parameter(1.0, source="a cyclic set that fits stays", lower=0.3, upper=1.5)
    kinks = ("l2_bandwidth", "reached_bandwidth")
    monotone = {"working_set": -1, "l2_capacity": +1, "reached_bandwidth": +1, "t_compute": +1, "traffic": -1}

    fitted_in = {"l2_capacity": (40 * 2**20, 128 * 2**20)}

    def __call__(
        self,
        t_compute: TCompute,
        t_prologue: TPrologue,
        t_reduce: TReduce,
        traffic: Traffic,
        working_set: WorkingSet,
        reached_bandwidth: ReachedBandwidth,
        l2_bandwidth: L2Bandwidth,
        l2_capacity: L2Capacity,
        l2_partitions: L2Partitions,
    ) -> EtaMem:
        filled = working_set * l2_partitions / (self.fit * l2_capacity)
        missed, hit = rising_step(filled, 9.0), falling_step(filled, 9.0)
        faster = jnp.maximum(l2_bandwidth, reached_bandwidth)
        t_memory = traffic * (missed / reached_bandwidth + hit / faster)
        fixed = t_prologue + t_reduce
        t_gemm = fixed + smooth_max(jnp.maximum(t_compute - fixed, 0.0), t_memory, 3.0)
        return jnp.minimum(t_compute / t_gemm, 1.0)
