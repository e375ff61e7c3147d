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
TILES = ((16, 64), (32, 64), (64, 64), (128, 64), (128, 128), (128, 256))
SPLITS = (1, 2, 3, 4, 6, 8, 16, 32)


# Where the protocol writes the constants it fitted; and the GPUs that the strictest protocol may fit on.
FITTED = Path(__file__).with_name("fitted.json")
HOME = ("a100-sxm4-80gb", "h100-sxm")
# The report's own laws state constants of A100, H100 and H200 (its E1.3c) and H100 (E1.5).
_REPORT_HOME = ("a100-sxm4-80gb", "h100-sxm", "h200-sxm")


def _tilings(tiles: tuple[tuple[int, int], ...], splits: tuple[int, ...]) -> list[Factor]:
    table = [(m, n, s) for m, n in tiles for s in splits]
    rows, columns, slices = zip(*table, strict=True)
    return [Given(TileM, rows), Given(TileN, columns), Given(SplitK, slices)]


def _gemm_frame() -> list[Factor]:
    """What holds for a GEMM whatever its five factors are."""
    return [
        *_tilings(TILES, SPLITS),
        peak.RateOfType(),
        peak.CountedPeak(),
        gemm.GemmWork(),
        gemm.CompulsoryTraffic(),
        wave.WaveEfficiency(),
        gemm.ComputeTime(),
        gemm.TilingTime(),
        gemm.FastestTiling(),
        gemm.FastestTime(),
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
        gemm.ClockedGemmTime(),
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
        tensor_core.OperandFeed(),
        barrier.LaunchCost(),
        barrier.SplitReduction(),
        barrier.Epilogue(),
        memory.ReuseDistance(),
        clock.EnergyRoof(),
        clock.ReachedClock(),
        gemm.MainLoop(),
        gemm.GemmTime(),
        *_attention_frame(),
        attention.ScoresAndCache(),
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
        constants: the fit that the GEMM constants of "per-kernel" come from: "pooled" over all measured GPUs, "home"
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
    return graph.with_parameters(_fit(constants)["constants"])


def fitted_on(variant: str, constants: str = "pooled") -> tuple[str, ...]:
    """The GPUs to whose measurements a variant's GEMM constants were fitted.

    Examples:
        >>> "l40s" in fitted_on("base"), "l40s" in fitted_on("per-kernel")
        (False, True)
    """
    if variant not in VARIANTS:
        raise UnknownNameError("step graph", variant, VARIANTS)
    return _REPORT_HOME if variant == "base" else tuple(_fit(constants)["home"])


def _fit(name: str) -> dict[str, Any]:
    fits = _fitted()["gemm"]["fits"]
    if name not in fits:
        raise UnknownNameError("fit", name, fits)
    return fits[name]


@functools.cache
def _fitted() -> dict[str, Any]:
    return json.loads(FITTED.read_text(encoding="utf-8"))
