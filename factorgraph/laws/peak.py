"""Peak rate: what the countable units of the chip could do."""

import jax.numpy as jnp

from factorgraph.factor import Factor
from factorgraph.variables import BoostClock, FlopPerClock, GemmType, PeakFlops, SmCount, TypeRates


class RateOfType(Factor):
    """The rate of an SM in the type that a GEMM computes in: flop_per_clock = type_rates[gemm_type], at least 1.

    A card states 0 for a type that its tensor cores lack, and refuses a step in it before it comes to this.
    """

    kinks = ("gemm_type",)
    literals = ("FLOP",)
    monotone = {"type_rates": +1}

    def __call__(self, type_rates: TypeRates, gemm_type: GemmType) -> FlopPerClock:
        return jnp.maximum(type_rates[jnp.asarray(gemm_type).astype(jnp.int32)], 1.0)


class CountedPeak(Factor):
    """Peak rate, multiplied out of countable units.

    peak_flops = sm_count * flop_per_clock * boost_clock

    Here flop_per_clock = tensor cores/SM * FLOP/clock/tensor core, dense, in the type of the GEMM.
    Limits: none; exact by construction (H100 SXM BF16: 132 * 4096 * 1.83 GHz = 989.4 TFLOP/s, its datasheet's peak).
    """

    monotone = {"sm_count": +1, "flop_per_clock": +1, "boost_clock": +1}

    def __call__(self, sm_count: SmCount, flop_per_clock: FlopPerClock, boost_clock: BoostClock) -> PeakFlops:
        return sm_count * flop_per_clock * boost_clock
