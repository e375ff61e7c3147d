"""From measured products to predicted ones: a small graph of a CPU, fitted to half of the shapes, held to the rest."""

import dataclasses
from typing import Annotated

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.factor import Factor, parameter
from factorgraph.graph import FactorGraph
from factorgraph.hardware import Sku
from factorgraph.inference import Fit, fit
from factorgraph.measuring.machine import card_name
from factorgraph.observations import Observations
from factorgraph.smooth import falling_step, smooth_max
from factorgraph.variables import (
    DramBandwidth,
    GemmFlop,
    L2Capacity,
    M,
    PeakFlops,
    TGemm,
    Traffic,
    Variable,
    WorkingSet,
)

_GUESS = "a guess to start a fit from"
_ELEMENT_SIZE = {"fp32": 4.0, "bf16": 2.0}

TArithmetic = Annotated[Array, Variable("t_arithmetic", "s", plates=("gemm",), doc="time of the arithmetic alone")]
TStream = Annotated[Array, Variable("t_stream", "s", plates=("gemm",), doc="time of moving the operands alone")]


class Arithmetic(Factor):
    """t_arithmetic = gemm_flop (1 + m_half / m) / (reached peak_flops): few rows leave vector units idle.

    | symbol | unit | meaning |
    |---|---|---|
    | reached | 1 | share of the peak that many rows reach; above one where the card's clock is below the real one |
    | m_half | 1 | rows at which half of that is reached |

    Limits: the peak times `reached` for m -> inf.
    """

    reached: Array = parameter(0.7, source=_GUESS, lower=0.02, upper=4.0)
    m_half: Array = parameter(4.0, source=_GUESS, lower=0.01, upper=100.0)

    monotone = {"gemm_flop": +1, "peak_flops": -1, "m": -1}

    def __call__(self, gemm_flop: GemmFlop, m: M, peak_flops: PeakFlops) -> TArithmetic:
        return gemm_flop * (1.0 + self.m_half / m) / (self.reached * peak_flops)


class Streaming(Factor):
    """t_stream = traffic / (dram_bandwidth share (1 + gain hit)), hit = 1/(1 + (working_set / l2_capacity)^4).

    | symbol | unit | meaning |
    |---|---|---|
    | share | 1 | share of the card's bandwidth that a product draws; above one where the card's is of one core |
    | gain | 1 | how much faster the last-level cache is, less one |

    Limits: DRAM for large working sets, the cache for small.
    """

    share: Array = parameter(0.9, source=_GUESS, lower=0.05, upper=4.0)
    gain: Array = parameter(1.5, source=_GUESS, lower=0.01, upper=30.0)

    monotone = {"traffic": +1, "dram_bandwidth": -1, "working_set": +1, "l2_capacity": -1}

    def __call__(
        self, traffic: Traffic, working_set: WorkingSet, dram_bandwidth: DramBandwidth, l2_capacity: L2Capacity
    ) -> TStream:
        hit = falling_step(working_set / l2_capacity, 4.0)
        return traffic / (dram_bandwidth * self.share * (1.0 + self.gain * hit))


class CalledRoofline(Factor):
    """t_gemm = t_call + smooth_max_p(t_arithmetic, t_stream): a roofline and what every call costs.

    | symbol | unit | meaning |
    |---|---|---|
    | t_call | s | time of the smallest product |
    | overlap | 1 | sharpness p of the ridge |

    Limits: t_call for nothing to do.
    """

    t_call: Array = parameter(3e-6, unit="s", source=_GUESS, lower=1e-8, upper=1e-3)
    overlap: Array = parameter(2.0, source=_GUESS, lower=1.0, upper=20.0)

    monotone = {"t_arithmetic": +1, "t_stream": +1}

    def __call__(self, t_arithmetic: TArithmetic, t_stream: TStream) -> TGemm:
        return self.t_call + smooth_max(t_arithmetic, t_stream, self.overlap)


FREE = ("t_arithmetic.reached", "t_arithmetic.m_half", "t_stream.share", "t_stream.gain", "t_gemm.t_call")


def cpu_graph() -> FactorGraph:
    """Products on a CPU: peak, roofline and overhead.

    Examples:
        >>> cpu_graph().input_names
        ('dram_bandwidth', 'gemm_flop', 'l2_capacity', 'm', 'peak_flops', 'traffic', 'working_set')
    """
    return FactorGraph([Arithmetic(), Streaming(), CalledRoofline()])


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """A graph fitted to half of the shapes, and how wrong it is on the other half.

    Attributes:
        fit: the fitted graph and its constants.
        fitted, held_out: rows in either half.
        fitted_error: mean absolute error of the time on the half fitted to, relative.
        error: the same on the half that was held out.
        error_of_mean: that of saying the mean of ln(time) of the fitted half for every row held out.
    """

    fit: Fit
    fitted: int
    held_out: int
    fitted_error: float
    error: float
    error_of_mean: float


def product_observations(dataset: xr.Dataset, card: Sku) -> Observations:
    """Measured products of one machine as observations of `t_gemm`.

    Args:
        dataset: of kind "gemm", with `cache_copies`; from `measure`.
        card: of the machine that it was measured on.

    Raises:
        FactorGraphError: the dataset is of another kind or machine, or of a type that the card has no rate of.
    """
    said = dataset.attrs
    if said["kind"] != "gemm" or "cache_copies" not in dataset.variables:
        raise FactorGraphError(f"a dataset of kind {said['kind']} gives no products; give one of `measure gemm`")
    if said["sku"] not in (card.name, card_name(card.title)):
        raise FactorGraphError(
            f"the dataset is of '{said['sku']}', the card of '{card.name}'; give those of one machine"
        )
    if said["dtype"] not in _ELEMENT_SIZE:
        raise FactorGraphError(f"products in {said['dtype']} cannot be used; those in fp32 and bf16 can")
    m, n, k, copies = (np.asarray(dataset[name].values, float) for name in ("m", "n", "k", "cache_copies"))
    size = _ELEMENT_SIZE[said["dtype"]]
    values = {
        "m": m,
        "gemm_flop": 2.0 * m * n * k,
        "traffic": size * (m * k + k * n + m * n),
        "working_set": size * (m * k + copies * k * n + m * n),
        "peak_flops": np.full(m.shape, card.peak_flops(said["dtype"])),
        "dram_bandwidth": np.array(card.dram_bandwidth),
        "l2_capacity": np.array(card.l2_capacity),
    }
    return Observations(
        values={name: jnp.asarray(value[None], float) for name, value in values.items()},
        measured=jnp.asarray(dataset["latency"].values[None], float),
        target="t_gemm",
        groups=(card.name,),
    )


def fit_half(dataset: xr.Dataset, card: Sku, *, seed: int = 0) -> HeldOut:
    """Fit the constants of `cpu_graph` to a random half of the shapes, and predict the others.

    Args:
        dataset: of kind "gemm", from `measure`.
        card: of the machine that it was measured on.
        seed: of the draw. A shape's cold and warm rows are on the same side.

    Raises:
        FactorGraphError: the dataset does not fit the card, or has fewer than four shapes.
    """
    shapes = np.stack([dataset[name].values for name in ("m", "n", "k")], axis=1)
    distinct, which = np.unique(shapes, axis=0, return_inverse=True)
    if len(distinct) < 4:
        raise FactorGraphError(f"{len(distinct)} shapes are too few to fit half and predict half; measure four or more")
    drawn = np.random.default_rng(seed).permutation(len(distinct))[: len(distinct) // 2]
    seen = np.isin(which.ravel(), drawn)
    known, asked = (product_observations(dataset.isel(row=np.flatnonzero(rows)), card) for rows in (seen, ~seen))
    result = fit(cpu_graph(), known, free=FREE)
    mean = jnp.exp(jnp.log(known.measured).mean())
    return HeldOut(
        fit=result,
        fitted=int(seen.sum()),
        held_out=int((~seen).sum()),
        fitted_error=_error(_predicted(result.graph, known), known.measured),
        error=_error(_predicted(result.graph, asked), asked.measured),
        error_of_mean=_error(jnp.full_like(asked.measured, mean), asked.measured),
    )


def _predicted(graph: FactorGraph, observations: Observations) -> Array:
    only = {name: value[0] for name, value in observations.values.items()}
    return graph.evaluate(only)[observations.target][None]


def _error(predicted: Array, measured: Array) -> float:
    return float(jnp.mean(jnp.abs(predicted / measured - 1.0)))
