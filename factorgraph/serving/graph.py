"""The two graphs of serving: the step as an engine launches it, and the closed loop around it."""

import functools
import json
from pathlib import Path
from typing import Any

from factorgraph.errors import UnknownNameError
from factorgraph.graph import FactorGraph
from factorgraph.laws import attention, engine_step, gemm, peak, serving, total

# Where the protocol writes the constants it fitted.
FITTED = Path(__file__).with_name("fitted.json")


def engine_step_graph(*, constants: str | None = "home") -> FactorGraph:
    """The graph of a step inside a serving engine: from a card and a deployment's step to t_step.

    Args:
        constants: the fit that its three host constants come from: "home" (H100), "pooled" (H100, H200, B200) or
            "without h100-sxm" and its like; None for the laws' own starting values.

    Raises:
        UnknownNameError: another fit.

    Examples:
        >>> engine_step_graph()["t_launches"].law_name
        'FixedKernelTime'
    """
    graph = FactorGraph(
        [
            peak.RateOfType(),
            peak.CountedPeak(),
            gemm.GemmWork(),
            gemm.CompulsoryTraffic(),
            engine_step.SustainedGemm(),
            total.GemmTotal(),
            attention.AttentionWork(),
            attention.AttentionTraffic(),
            engine_step.StreamedAttention(),
            total.AttentionTotal(),
            engine_step.StreamedLight(),
            total.LightTotal(),
            engine_step.SyncAndLink(),
            total.CollectiveTotal(),
            engine_step.FixedKernelTime(),
            engine_step.LaunchedGpuTime(),
            engine_step.HostOfSequences(),
            total.SerialHost(),
        ]
    )
    return with_constants(graph, constants)


def serving_graph(*, constants: str | None = "home") -> FactorGraph:
    """The graph of a closed loop of clients: from the times of a decode step and a prefill to TTFT and TPOT.

    Args:
        constants: as for `engine_step_graph`.

    Examples:
        >>> sorted(serving_graph().parameters)
        ['t_lag.t_client', 'ttft.clustered']
    """
    graph = FactorGraph(
        [
            serving.RoomInCache(),
            serving.ClientLag(),
            serving.PrefillsWaited(),
            serving.SlotTime(),
            serving.QueueForSlot(),
            serving.FirstToken(),
            serving.TokenInterval(),
            serving.RequestTime(),
            serving.ClosedLoopThroughput(),
        ]
    )
    return with_constants(graph, constants)


def with_constants(graph: FactorGraph, constants: str | None) -> FactorGraph:
    """A graph with the constants of a fit that it has laws for."""
    if constants is None:
        return graph
    fits = fitted()["fits"]
    if constants not in fits:
        raise UnknownNameError("serving fit", constants, fits)
    found = fits[constants]["constants"]
    return graph.with_parameters({path: value for path, value in found.items() if path in graph.parameters})


@functools.cache
def fitted() -> dict[str, Any]:
    """What the protocol wrote."""
    return json.loads(FITTED.read_text(encoding="utf-8"))
