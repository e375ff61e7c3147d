"""Light kernels: norms, activations, residuals, KV writes, sampling. They launch, and they stream."""

from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import DramBandwidth, LightBytes, TLight

_SERVING = "serving rows of aiconfigurator-core 0.12.0 (design section 5)"


class LaunchAndStream(Factor):
    """A launch, then bytes at a share of the DRAM bandwidth.

    t_light = t_launch + light_bytes / (efficiency * dram_bandwidth)

    Limits: t_launch for few bytes; the streaming rate for many.
    """

    t_launch: Array = parameter(3.5e-6, unit="s", source=_SERVING, lower=1e-7, upper=1e-3)
    efficiency: Array = parameter(0.6, source=_SERVING, lower=0.05, upper=1.0)

    monotone = {"light_bytes": +1, "dram_bandwidth": -1}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return self.t_launch + light_bytes / (self.efficiency * dram_bandwidth)
