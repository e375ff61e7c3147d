"""The composed graphs of one engine step."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from factorgraph.errors import UnknownNameError
from factorgraph.factor import Factor, Given
from factorgraph.graph import FactorGraph
from factorgraph.laws import (
    attention,
    barrier,
    clock,
    collective,
    gemm,
    host,
    light,
    memory,
    peak,
    tensor_core,
    total,
    wave,
)
from factorgraph.variables import SplitK, TileM, TileN

# (tile_m, tile_n) that current GEMM libraries choose among, and the numbers of slices they cut the depth into.
SMALL_TILES, SPLITS = ((16, 64), (64, 64), (64, 128), (128, 128)), (1, 3, 8, 24)
LARGE_TILE = (128, 256)


# Where the protocol writes the constants it fitted; and the GPUs that the strictest protocol may fit on.
FITTED = Path(__file__).with_name("fitted.json")
HOME = ("a100-sxm4-80gb", "h100-sxm")
# The report's own laws state constants of A100, H100 and H200 (its E1.3c) and H100 (E1.5).
_REPORT_HOME = ("a100-sxm4-80gb", "h100-sxm", "h200-sxm")


def _tilings() -> list[Factor]:
    table = [(m, n, s) for m, n in SMALL_TILES for s in SPLITS] + [(*LARGE_TILE, 1)]
    rows, columns, slices = zip(*table, strict=True)
    return [Given(TileM, rows), Given(TileN, columns), Given(SplitK, slices)]


def _gemm_frame() -> list[Factor]:
    """What holds for a GEMM whatever its five factors are."""
    return [
        *_tilings(),
        peak.RateOfType(),
        peak.CountedPeak(),
        gemm.GemmWork(),
        gemm.CompulsoryTraffic(),
        gemm.SplitDepth(),
        wave.WaveEfficiency(),
        gemm.ComputeTime(),
        gemm.TilingTime(),
        gemm.FastestTiling(),
        gemm.GemmTime(),
        total.GemmTotal(),
    ]


def _attention_frame() -> list[Factor]:
    return [attention.AttentionWork(), attention.AttentionTraffic(), total.AttentionTotal()]


def _base() -> list[Factor]:
    """The report's deployable predictor: GEMMs with its faithful laws, attention as bytes, a host floor."""
    return [
        *_gemm_frame(),
        gemm.OwnFootprint(),
        wave.WholeWaves(),
        tensor_core.IssueRate(),
        barrier.BarrierDuty(),
        memory.L2Reuse(),
        clock.PowerBalance(),
        clock.ClockRatio(),
        gemm.ClockedMainLoop(),
        gemm.ClockedTiling(),
        *_attention_frame(),
        attention.StreamedCache(),
        total.BaseGpuTime(),
        host.HostResidual(s0=jnp.asarray(2.37e-3), s1=jnp.asarray(4e-6)),
        total.SerialHost(),
    ]


def _per_kernel() -> list[Factor]:
    """Every kernel of the step with the laws that transfer best."""
    return [
        *_gemm_frame(),
        gemm.WholeModelReuse(),
        wave.ScheduledWaves(),
        wave.OccupiedSms(),
        tensor_core.PipelinedLatency(),
        tensor_core.OperandFeed(),
        barrier.LaunchCost(),
        barrier.Prologue(),
        barrier.SplitReduction(),
        barrier.Epilogue(),
        memory.SharedCacheRate(),
        memory.BytesInFlight(),
        memory.ReuseDistance(),
        gemm.MainLoop(),
        clock.SwitchedEnergy(),
        clock.EnergyRoof(),
        clock.ClockLoss(),
        clock.ReachedClock(),
        *_attention_frame(),
        attention.ServingCacheReuse(),
        attention.CacheBandwidth(),
        attention.ScoreRate(),
        attention.DecodeAttention(),
        attention.PrefillAttention(),
        attention.AttentionTime(),
        light.LaunchAndStream(),
        total.LightTotal(),
        collective.OneOrTwoShot(),
        total.CollectiveTotal(),
        total.GpuTime(),
        host.HostResidual(),
        total.SerialHost(),
    ]


VARIANTS: dict[str, Callable[[], list[Factor]]] = {"per-kernel": _per_kernel, "base": _base}


def step_graph(variant: str = "per-kernel", *, constants: str | None = "pooled") -> FactorGraph:
    """The graph of one engine step: from a card and a kernel table to t_step.

    Args:
        variant: "per-kernel", every kernel with the laws that transfer best; or "base", the report's simpler predictor
            of GEMMs, attention bytes and a host floor.
        constants: the fit that the constants of "per-kernel" come from: "pooled" over all measured GPUs, "home"
            (A100 and H100 alone), or "without l40s" and its like; None for the laws' own starting values.

    Raises:
        UnknownNameError: another variant or fit.

    Examples:
        >>> step_graph("base")["eta_mem"].law_name
        'L2Reuse'
    """
    if variant not in VARIANTS:
        raise UnknownNameError("step graph", variant, VARIANTS)
    graph = FactorGraph(VARIANTS[variant]())
    if variant == "base" or constants is None:
        return graph
    fitted = {path: value for kind in _fitted() for path, value in _fit(constants, kind)["constants"].items()}
    return graph.with_parameters(fitted)


def fitted_on(variant: str, constants: str = "pooled", kind: str = "gemm") -> tuple[str, ...]:
    """The GPUs to whose measurements the constants of a variant's kernels were fitted.

    Args:
        variant: of the step graph.
        constants: the fit, as in `step_graph`.
        kind: "gemm", "gemm-fp8", "attention" or "collective".

    Examples:
        >>> "l40s" in fitted_on("base"), "l40s" in fitted_on("per-kernel")
        (False, True)
    """
    if variant not in VARIANTS:
        raise UnknownNameError("step graph", variant, VARIANTS)
    return _REPORT_HOME if variant == "base" else tuple(_fit(constants, kind)["home"])


def _fit(name: str, kind: str) -> dict[str, Any]:
    fits = _fitted()[kind]["fits"]
    known = {each for one in _fitted().values() for each in one["fits"]}
    if name not in known:
        raise UnknownNameError("fit", name, sorted(known))
    # A GPU that a kind was never measured on is left out of its pooled fit already.
    return fits.get(name, fits["pooled"])


@functools.cache
def _fitted() -> dict[str, Any]:
    return json.loads(FITTED.read_text(encoding="utf-8"))
