"""Hypothesis strategies for what a step graph is asked of: cards, steps, GEMM shapes, and measured data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

from factorgraph.datasets.schema import FACTS, UNKNOWN, Field, kind_of
from factorgraph.hardware import Sku, list_skus, load_sku
from factorgraph.testing.strategies import given_strategy
from factorgraph.workload import Step, load_model

# One of each kind of model: dense with grouped heads, experts.
_MODELS = ("llama-3.1-8b", "qwen3-30b-a3b")
_PHASES = ("decode", "prefill", "mixed")


def skus(*, names: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Sku]:
    """GPUs that could be built: a known one with some SMs fused off, another clock, memory or power limit.

    Numbers stay coherent: a clock lies between the card's own ends, the peak follows from SMs and clock, the cap lies
    in the range the card can be set to, and bandwidth and capacity change with the same stacks of memory.

    Args:
        names: of cards; by default all that are bundled.

    Examples:
        >>> from hypothesis import find
        >>> find(skus(names=st.just("h100-sxm")), lambda sku: True).sm_count
        132
    """
    cards = given_strategy(names, "names", "h100-sxm", st.sampled_from(list_skus()))

    @st.composite
    def card(draw: Callable[..., Any]) -> Sku:
        sku = load_sku(draw(cards))
        memory = draw(_from_one(0.5))
        boost = draw(_from_one((sku.base_clock or sku.min_clock or 0.5 * sku.boost_clock) / sku.boost_clock))
        lowest_cap = sku.power_cap_min or 0.5 * sku.power_cap
        return sku.replace(
            sm_count=max(1, round(sku.sm_count * draw(_from_one(0.5)))),
            boost_clock=sku.boost_clock * boost,
            dram_bandwidth=sku.dram_bandwidth * memory,
            dram_capacity=sku.dram_capacity * memory,
            l2_capacity=sku.l2_capacity * draw(_from_one(0.5)),
            power_cap=max(lowest_cap, sku.power_cap * draw(_from_one(lowest_cap / sku.power_cap))),
        )

    return card()


def _from_one(least: float) -> st.SearchStrategy[float]:
    """A share between `least` and 1, in hundredths, that shrinks to 1."""
    return st.integers(0, int(100 * (1.0 - least))).map(lambda hundredths: 1.0 - hundredths / 100.0)


def gemm_shapes(*, m: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[dict[str, float]]:
    """Shapes of matrix products as models have them, by variable name: m, n, k, gemm_groups.

    The tokens m may be any number, and often one beside a power of two, where tiles begin; widths are whole multiples
    of 64.

    Args:
        m: of numbers of tokens.

    Examples:
        >>> from hypothesis import find
        >>> find(gemm_shapes(), lambda shape: shape["m"] > 128)["m"]
        129.0
    """
    near_powers = st.builds(lambda power, beside: max(1, 2**power + beside), st.integers(0, 15), st.integers(-1, 1))
    widths = st.integers(1, 512).map(lambda sixty_fours: 64.0 * sixty_fours)
    return st.fixed_dictionaries(
        {
            "m": given_strategy(m, "m", 64, st.integers(1, 32_768) | near_powers).map(float),
            "n": widths,
            "k": widths,
            "gemm_groups": st.sampled_from([1.0, 2.0, 8.0, 128.0]),
        }
    )


def workloads(
    *, models: st.SearchStrategy[str] | None = None, phases: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[Step]:
    """Steps of an engine: a model, a phase, and how many sequences of what length.

    Args:
        models: of names; by default a dense model and one of experts.
        phases: of "decode", "prefill" and "mixed"; by default all.

    Examples:
        >>> from hypothesis import find
        >>> find(workloads(), lambda step: step.phase == "decode").label[1]
        'llama-3.1-8b decode batch=1 context=1 tp=1 weights=bf16 kv=bf16'
    """
    models = given_strategy(models, "models", "llama-3.1-8b", st.sampled_from(_MODELS))
    phases = given_strategy(phases, "phases", "decode", st.sampled_from(_PHASES))
    sequences, lengths = st.integers(1, 512), st.integers(1, 8192)

    @st.composite
    def step(draw: Callable[..., Any]) -> Step:
        model = load_model(draw(models))
        phase = draw(phases)
        if phase == "decode":
            return model.decode(batch=draw(sequences), context=draw(lengths))
        if phase == "prefill":
            return model.prefill(batch=draw(st.integers(1, 16)), prompt=draw(lengths), prefix=draw(lengths))
        return model.mixed(decode_batch=draw(sequences), context=draw(lengths), chunk=draw(lengths))

    return step()


def datasets(kind: str, *, rows: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[xr.Dataset]:
    """Small datasets that conform to the schema of a kind.

    Args:
        kind: "gemm", "attention" and so on, as in `factorgraph.datasets`.
        rows: of numbers of rows; by default 1 to 5.

    Raises:
        UnknownNameError: there is no such kind.

    Examples:
        >>> from hypothesis import find
        >>> find(datasets("gemm"), lambda dataset: dataset.sizes["row"] == 2).m.values
        array([1., 1.])
    """
    fields = kind_of(kind).fields
    one_of = kind_of(kind).one_of
    counts = given_strategy(rows, "rows", 3, st.integers(1, 5))

    @st.composite
    def dataset(draw: Callable[..., Any]) -> xr.Dataset:
        count = draw(counts)
        columns = {
            field.name: ("row", draw(_column(field, count)), {} if field.unit == "text" else {"units": field.unit})
            for field in fields
            if field.required or field.name in one_of
        }
        measured = {field.name for field in fields if field.measured}
        return xr.Dataset(
            {name: column for name, column in columns.items() if name in measured},
            coords={name: column for name, column in columns.items() if name not in measured},
            attrs={fact.name: UNKNOWN for fact in FACTS} | {"kind": kind, "title": "drawn by a strategy"},
        )

    return dataset()


def _column(field: Field, count: int) -> st.SearchStrategy[Any]:
    if field.unit == "text":
        return st.lists(st.sampled_from(["a", "b"]), min_size=count, max_size=count)
    if field.whole:
        one = st.integers(0 if field.zero else 1, 100_000).map(float)
    else:
        one = st.integers(-60, 60).map(lambda power: float(f"{10.0 ** (power / 10):.3g}"))
    return st.lists(one, min_size=count, max_size=count).map(np.asarray)
