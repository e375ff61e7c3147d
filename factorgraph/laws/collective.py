"""Collectives: what tensor parallelism pays to add up its partial results."""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.smooth import smooth_min
from factorgraph.variables import LinkBandwidth, LinkIsPcie, MessageBytes, Ranks, TCollective

_DESIGN = "all-reduce tables of aiconfigurator-core 0.12.0 (design section 5)"


class OneOrTwoShot(Factor):
    """An all-reduce in one shot (everyone reads everyone) or two (reduce-scatter, all-gather), whichever is faster.

    NVLink: t = t_sync + t_rank log2(ranks) + smooth_min[(ranks - 1) V / (one_shot link),
                                                         t_two_shot + 2 (ranks - 1)/ranks V / (two_shot link)]
    PCIe:   t_sync = pcie_sync + pcie_rank (ranks - 1).  One rank has nothing to add: t = 0.

    Limits: t_sync for small messages, the ring bound 2 (ranks - 1)/ranks V / link for large ones. PCIe bandwidth under
    contention is not predictable from a datasheet (36-136 % error): treat PCIe results as an order of magnitude.
    """

    t_sync: Array = parameter(5e-6, unit="s", source=_DESIGN, lower=1e-7, upper=1e-3)
    t_rank: Array = parameter(0.3e-6, unit="s", source=_DESIGN, lower=0.0, upper=1e-4)
    one_shot: Array = parameter(0.4, source=_DESIGN, lower=0.05, upper=1.0)
    t_two_shot: Array = parameter(8e-6, unit="s", source=_DESIGN, lower=0.0, upper=1e-3)
    two_shot: Array = parameter(0.65, source=_DESIGN, lower=0.05, upper=1.0)
    pcie_sync: Array = parameter(2.5e-6, unit="s", source=_DESIGN, lower=1e-7, upper=1e-3)
    pcie_rank: Array = parameter(3.2e-6, unit="s", source=_DESIGN, lower=0.0, upper=1e-3)

    kinks = ("ranks",)
    monotone = {"message_bytes": +1, "link_bandwidth": -1}

    def __call__(
        self, message_bytes: MessageBytes, ranks: Ranks, link_bandwidth: LinkBandwidth, link_is_pcie: LinkIsPcie
    ) -> TCollective:
        nvlink = self.t_sync + self.t_rank * jnp.log2(ranks)
        pcie = self.pcie_sync + self.pcie_rank * (ranks - 1.0)
        latency = (1.0 - link_is_pcie) * nvlink + link_is_pcie * pcie
        one = (ranks - 1.0) * message_bytes / (self.one_shot * link_bandwidth)
        two = self.t_two_shot + 2.0 * (ranks - 1.0) / ranks * message_bytes / (self.two_shot * link_bandwidth)
        return jnp.where(ranks > 1.0, latency + smooth_min(one, two, 4.0), 0.0)
