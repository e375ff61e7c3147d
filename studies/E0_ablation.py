"""What each law is worth: the error of kernel times when one effect is taken out and everything else is refitted."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr

import factorgraph as fg
from factorgraph.factor import Given
from factorgraph.graph import FactorGraph
from factorgraph.inference import fit
from factorgraph.observations import Observations, attention_observations, gemm_observations
from factorgraph.protocol import CAMPAIGNS
from factorgraph.studies import Findings, number
from factorgraph.variables import SplitK

ID = "E0.ablation"
QUESTION = "By how much does the error on measured kernels grow when one effect is taken out of the laws?"
DATASETS = ("gemm-bf16", "attention-decode", "attention-prefill")
HOME = tuple(str(sku) for sku in fg.load_dataset("gemm-bf16")["sku"].values)
UNSEEN = ()
FITTED_ROWS, SCORED_ROWS = 100, 400
METHOD = (
    "Public kernel tables, not measured by the report's protocol. Pooled fits to "
    f"{FITTED_ROWS} drawn rows of each of nine GPUs (all home), scored on {SCORED_ROWS} rows drawn anew."
)

# What takes an effect out: constants that switch it off, which are then no longer fitted, or inputs that do.
GEMM = {
    "splitting the depth": {"split_k": 1.0},
    "operand latency": {"operand_latency.latency": 1.0, "operand_latency.overlap": 1.0},
    "asynchronous copies": {"operand_latency.overlap": 1.0, "eta_barrier.overlap": 1.0},
    "reuse in L2": {"working_set": 1e15},
    "few SMs draw little bandwidth": {"reached_bandwidth.outstanding": 1e6},
    "epilogue": {"eta_barrier.epilogue": 0.1},
    "accumulators in tensor memory": {"tensor_memory_per_sm": 0.0},
    "power cap": {"power_cap": 3000.0, "gemm_energy.e_mac": 1e-14, "gemm_energy.e_sm": 1e-11},
    "launch class": {"launch_class": 1.0},
    "error correction in DRAM": {"ecc_factor": 1.0},
}
ATTENTION = {
    "combining slices": {"t_decode_attention.combine": 1.0, "t_decode_attention.slice": 0.1},
    "starting a block": {"t_decode_attention.block": 1.0, "t_prefill_attention.block": 1.0},
    "exponentials": {"score_clocks.exponential": 0.01},
    "reuse in L2": {"attention_reuse": 1e15},
    "writing the cache": {"writes_cache": 0.0},
    "tiles at the diagonal": {"t_prefill_attention.edge": 0.0},
    "the longest block": {"t_prefill_attention.tail": 0.0},
    "transposing queries": {"t_decode_attention.copy": 1.0},
    "faster exponentials of sm_103": {"exponentials_per_clock": 16.0},
}


def run() -> Findings:
    gemm = fg.load_dataset("gemm-bf16")
    attention = [fg.load_dataset(f"attention-{phase}") for phase in ("decode", "prefill")]

    def gemms(rows: int, seed: int) -> Observations:
        return gemm_observations(gemm, engines=["vllm"], skus=HOME, sample=rows, seed=seed)

    def attentions(rows: int, seed: int) -> Observations:
        return attention_observations(attention, skus=HOME, sample=rows, seed=seed)

    rows = [("gemm", effect, *errors) for effect, errors in _ablated("gemm", gemms, GEMM)]
    rows += [("attention", effect, *errors) for effect, errors in _ablated("attention", attentions, ATTENTION)]
    kinds, effects, mape, growth = zip(*rows, strict=True)
    names = [f"{kind}: {effect}" for kind, effect in zip(kinds, effects, strict=True)]
    percent = {"units": "%"}
    result = xr.Dataset(
        {
            "mape": ("effect", list(mape), percent | {"long_name": "mean over GPUs of the mean absolute error"}),
            "growth": ("effect", list(growth), percent | {"long_name": "that error less the whole model's, in points"}),
        },
        coords={"effect": names},
    )
    worst = result["growth"].sortby(result["growth"], ascending=False)
    return Findings(
        result=result,
        numbers=tuple(number(result, name, "growth", effect=name) for name in names if not name.endswith("nothing")),
        verdict=(
            f"The laws lean most on {worst['effect'].values[0]} (+{float(worst[0]):.1f} points) and "
            f"{worst['effect'].values[1]} (+{float(worst[1]):.1f})."
        ),
        caveats="One draw of rows and one refit each: differences of a few tenths of a point are noise.",
    )


def _ablated(kind: str, observe, effects: Mapping[str, Mapping[str, float]]):
    free = next(campaign.free for campaign in CAMPAIGNS if campaign.kind == kind)
    learned, scored = observe(FITTED_ROWS, 0), observe(SCORED_ROWS, 1)
    whole = fg.step_graph().subgraph(learned.target)
    base = None
    for effect, changes in {"nothing": {}, **effects}.items():
        constants = {path: value for path, value in changes.items() if "." in path}
        inputs = {name: value for name, value in changes.items() if "." not in name}
        graph = whole.with_parameters(constants)
        if "split_k" in inputs:
            graph = graph.replace(split_k=Given(SplitK, jnp.full(graph["split_k"].value.shape, inputs.pop("split_k"))))
        kept = [path for path in free if path not in constants]
        fitted = fit(graph, _with(learned, inputs), free=kept, residual="relative", robust=0.03, steps=25).graph
        error = _mape(fitted, _with(scored, inputs))
        base = error if base is None else base
        yield effect, (error, error - base)


def _with(observations: Observations, inputs: Mapping[str, float]) -> Observations:
    values = observations.values | {name: jnp.full_like(observations.values[name], v) for name, v in inputs.items()}
    return eqx.tree_at(lambda one: one.values, observations, values)


@eqx.filter_jit
def _predicted(graph: FactorGraph, observations: Observations):
    part = {name: value for name, value in observations.values.items() if name in graph.variables}
    return eqx.filter_vmap(lambda values: graph.evaluate(values)[observations.target])(part)


def _mape(graph: FactorGraph, observations: Observations) -> float:
    relative = np.abs(np.asarray(_predicted(graph, observations) / observations.measured) - 1.0)
    return float(100.0 * np.nanmean(relative, axis=1).mean())
