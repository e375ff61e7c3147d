"""Collectives: what tensor parallelism pays to add up its partial results."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import smooth_min
from factorgraph.variables import (
    CollectiveLibrary,
    LinkBandwidth,
    LinkIsPcie,
    LinkLatency,
    MessageBytes,
    Ranks,
    TCollective,
)

_TABLES = "pooled fit to the all-reduce tables of aiconfigurator-core 0.12.0, seven GPUs with NVLink"
_PCIE = "pooled fit to the all-reduce tables of aiconfigurator-core 0.12.0, L40S and RTX PRO 6000"


class OneOrTwoShot(Factor):
    """An all-reduce in one shot (everyone reads everyone) or two (reduce-scatter, all-gather), whichever is faster.

    NVLink: t = t_sync link_latency + smooth_min4[(ranks - 1) V/(one_shot link),
                                                  t_two_shot link_latency + 2 (ranks - 1)/ranks V/(two_shot link)]
    PCIe:   t = pcie_sync + pcie_rank (ranks - 2) + 2 (ranks - 1)/ranks V (1 + contention (ranks - 2))/(pcie_share link)
    t_sync is that of the library: the custom kernels of vLLM, SGLang and TensorRT-LLM, and NCCL.
    One rank has nothing to add: t = 0.  V is what each rank contributes, link the bandwidth in one direction.

    Limits: the synchronisation for small messages, the ring bound 2 (ranks - 1)/ranks V/link for large ones. How PCIe
    ports share a root complex is a property of the host, not of the GPU: beyond two ranks PCIe results are an order
    of magnitude (held-out errors of 50 to 260 %).
    """

    t_sync: Array = parameter((4.1e-6, 2.5e-6, 2.6e-6, 12e-6), unit="s", source=_TABLES, lower=1e-7, upper=1e-4)
    one_shot: Array = parameter(0.504, source=_TABLES, lower=0.05, upper=1.0)
    t_two_shot: Array = parameter(8.86e-6, unit="s", source=_TABLES, lower=1e-7, upper=1e-3)
    two_shot: Array = parameter(0.636, source=_TABLES, lower=0.05, upper=1.0)
    pcie_sync: Array = parameter(5.63e-6, unit="s", source=_PCIE, lower=1e-7, upper=1e-3)
    pcie_rank: Array = parameter(3.25e-6, unit="s", source=_PCIE, lower=0.0, upper=1e-3)
    pcie_share: Array = parameter(0.592, source=_PCIE, lower=0.05, upper=1.0)
    contention: Array = parameter(1.02, source=_PCIE, lower=0.0, upper=10.0)

    kinks = ("ranks", "link_is_pcie", "collective_library")
    monotone = {"message_bytes": +1, "link_bandwidth": -1, "link_latency": +1}

    fitted_in = {"message_bytes": (0.0, 1.1e9), "ranks": (1, 16), "link_bandwidth": (32e9, 900e9)}

    def __call__(
        self,
        message_bytes: MessageBytes,
        ranks: Ranks,
        link_bandwidth: LinkBandwidth,
        link_latency: LinkLatency,
        link_is_pcie: LinkIsPcie,
        collective_library: CollectiveLibrary,
    ) -> TCollective:
        t_ring = 2.0 * (ranks - 1.0) / jnp.maximum(ranks, 1.0) * message_bytes / link_bandwidth
        one = (ranks - 1.0) * message_bytes / (self.one_shot * link_bandwidth)
        two = self.t_two_shot * link_latency + t_ring / self.two_shot
        library = jnp.clip(jnp.asarray(collective_library), 0.0, 3.0).astype(jnp.int32)
        nvlink = self.t_sync[library] * link_latency + smooth_min(one, two, 4.0)
        beyond_two = jnp.maximum(ranks - 2.0, 0.0)
        pcie = self.pcie_sync + self.pcie_rank * beyond_two
        pcie = pcie + t_ring * (1.0 + self.contention * beyond_two) / self.pcie_share
        return jnp.where(ranks > 1.0, jnp.where(link_is_pcie > 0.5, pcie, nvlink), 0.0)
