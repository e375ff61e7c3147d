"""The options by which every predicting command says which GPU, model and step it means."""

import dataclasses
from typing import Annotated, Any, Literal

import typer

from factorgraph.errors import FactorGraphError

SkuOption = Annotated[str, typer.Option("--sku", help="GPU: a name from `factorgraph sku list`, or a card's path.")]
ModelOption = Annotated[str, typer.Option("--model", help="Model: a bundled name, or the path of a config.json.")]
PhaseOption = Annotated[Literal["decode", "prefill", "mixed"], typer.Option("--phase", help="Kind of step.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Concurrent sequences (in a mixed step: those decoding).")]
ContextOption = Annotated[
    int, typer.Option("--context", help="Tokens a decoding sequence attends to, or a prompt's tokens in prefill.")
]
ChunkOption = Annotated[int, typer.Option("--chunk", help="Prompt tokens that a mixed step prefills.")]
TpOption = Annotated[int, typer.Option("--tp", help="GPUs that tensor parallelism splits the model over.")]
WeightsOption = Annotated[
    Literal["bf16", "fp8", "fp4", "mxfp4"] | None,
    typer.Option("--weights", help="Format of weights and GEMMs; the checkpoint's own."),
]
KvOption = Annotated[Literal["bf16", "fp8"], typer.Option("--kv", help="Type of the KV cache.")]
PowerCapOption = Annotated[float | None, typer.Option("--power-cap", help="Board power limit in W; the card's own.")]
ClockOption = Annotated[float | None, typer.Option("--clock", help="Locked SM clock in MHz; the boost clock.")]
VariantOption = Annotated[str, typer.Option("--variant", help="Step graph: per-kernel or base.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

MHZ = 1e6


@dataclasses.dataclass(frozen=True)
class Case:
    """What a predicting command was asked about."""

    graph: Any
    sku: Any
    step: Any
    settings: dict[str, Any]
    inputs: dict[str, Any]


def select(
    *,
    sku: str,
    model: str,
    phase: str,
    batch: int,
    context: int,
    chunk: int,
    tp: int,
    weights: str | None,
    kv: str,
    power_cap: float | None,
    clock: float | None,
    variant: str,
) -> Case:
    """Load what the options name and build the step."""
    import factorgraph as fg

    card = fg.load_sku(sku)
    settings: dict[str, Any] = {}
    if power_cap is not None:
        _within("--power-cap", power_cap, card.power_cap_min, card.power_cap_max, "W", card.name)
        settings["power_cap"] = power_cap
    if clock is not None:
        _within("--clock", clock, None, card.max_clock / MHZ, "MHz", card.name)
        settings["sm_clock"] = clock * MHZ
    dtypes = {"tp": tp, "weights": weights, "kv": kv}
    config = fg.load_model(model)
    if phase == "decode":
        step = config.decode(batch=batch, context=context, **dtypes)
    elif phase == "prefill":
        step = config.prefill(batch=batch, prompt=context, **dtypes)
    else:
        step = config.mixed(decode_batch=batch, context=context, chunk=chunk, **dtypes)
    inputs = {
        "sku": card.name,
        "model": config.name,
        "phase": phase,
        "batch": batch,
        "context": context,
        **({"chunk": chunk} if phase == "mixed" else {}),
        **dtypes,
        "weights": step.weights,
        "power_cap_w": power_cap if power_cap is not None else card.tdp,
        "sm_clock_mhz": clock if clock is not None else card.boost_clock / MHZ,
        "variant": variant,
    }
    return Case(fg.step_graph(variant), card, step, settings, inputs)


def _within(option: str, value: float, low: float | None, high: float | None, unit: str, sku: str) -> None:
    low = 0.0 if low is None else low
    if not low <= value <= (high if high is not None else float("inf")) or value <= 0:
        raise FactorGraphError(f"{option} {value:g} is not possible on {sku}; give {low:g} to {high or 0:g} {unit}")
