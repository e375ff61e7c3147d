"""Measurements as a graph sees them: values of its inputs, and of the one variable that was measured."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.hardware import load_sku
from factorgraph.workload import LIBRARIES, TENSOR_TYPES, mean_attended

# The collectors of the GEMM tables cycle this many copies of the weight, so that it comes back after that many.
WEIGHT_COPIES = 6
_ELEMENT_SIZE = {"bf16": 2.0, "fp8": 1.0}
_OUTPUT_SIZE = 2.0
_ATTENTION_SHAPE = ("batch", "q_len", "kv_len", "window", "q_heads", "kv_heads", "head_dim")


class Observations(eqx.Module):
    """Measurements of one variable, in groups that share a GPU.

    Attributes:
        values: inputs by variable name; the first axis is the group, the rest are the variable's plates.
        measured: (group, entry); NaN where nothing was measured.
        target: the variable that was measured.
        groups: what each group is called, the GPU's name.
    """

    values: dict[str, Array]
    measured: Array
    target: str = eqx.field(static=True)
    groups: tuple[str, ...] = eqx.field(static=True)


def gemm_values(m: np.ndarray, n: np.ndarray, k: np.ndarray, dtype: str, engine: str = "vllm") -> dict[str, np.ndarray]:
    """What a benchmark of single GEMMs supplies to a graph.

    Args:
        m, n, k: shapes, one entry a GEMM.
        dtype: "bf16" or "fp8"; results are BF16.
        engine: whose kernels quantise the activation.
    """
    m, n, k = (np.asarray(axis, float) for axis in (m, n, k))
    size, ones = _ELEMENT_SIZE[dtype], np.ones(len(m))
    return {
        "m": m,
        "n": n,
        "k": k,
        "gemm_groups": ones,
        "gemm_type": ones * TENSOR_TYPES.index(dtype),
        "weight_element_size": ones * size,
        "activation_element_size": ones * size,
        "output_element_size": ones * _OUTPUT_SIZE,
        "quantises": ones * (dtype != "bf16"),
        "quantise_library": ones * LIBRARIES.index(engine),
        # Between two uses of a weight come the other copies, the shared input and the result.
        "working_set": WEIGHT_COPIES * n * k * size + m * k * size + m * n * _OUTPUT_SIZE,
    }


def attention_values(dataset: xr.Dataset, picked: np.ndarray) -> dict[str, np.ndarray]:
    """What a benchmark of one attention launch supplies to a graph.

    Args:
        dataset: of kind "attention": shapes along case. A prefill case also writes its keys and values to the cache.
        picked: which cases.
    """
    of = {name: np.asarray(dataset[name].values[picked], float) for name in _ATTENTION_SHAPE}
    q_len, kv_len, window = of["q_len"], of["kv_len"], of["window"]
    windowed = window > 0.0
    inside = np.minimum(np.where(windowed, window, np.inf), kv_len)
    # With a window, queries see its band: on average so many keys.
    band = mean_attended(*(jnp.asarray(one) for one in (q_len, kv_len - q_len, inside)))
    seen = np.where(windowed, np.asarray(band), kv_len)
    size = np.asarray([_ELEMENT_SIZE[str(name)] for name in dataset["kv_dtype"].values[picked]])
    token = 2.0 * of["kv_heads"] * of["head_dim"] * size
    ends = 4.0 * of["q_heads"] * q_len * of["head_dim"]
    return {
        "attn_batch": of["batch"],
        "q_len": q_len,
        "kv_len": seen,
        "causal": np.where(windowed, 0.0, 1.0),
        "windowed": windowed.astype(float),
        "writes_cache": np.where(q_len > 1.0, 1.0, 0.0),
        "q_heads": of["q_heads"],
        "kv_heads": of["kv_heads"],
        "head_dim": of["head_dim"],
        "v_head_dim": of["head_dim"],
        "kv_token_bytes": token,
        # The launch is repeated, so that its bytes come back after its own traffic.
        "attention_reuse": of["batch"] * (seen * token + ends),
    }


def attention_cases(dataset: xr.Dataset, kv_dtype: str = "bf16") -> np.ndarray:
    """Indices of the cases of an attention dataset with a type of cache and BF16 queries.

    Raises:
        FactorGraphError: there is none.
    """
    types = dataset["kv_dtype"].values.astype(str)
    picked = np.flatnonzero((types == kv_dtype) & (dataset["dtype"].values.astype(str) == "bf16"))
    if picked.size == 0:
        known = ", ".join(sorted(set(types)))
        raise FactorGraphError(f"no case with a {kv_dtype} cache in this dataset; it has {known}")
    return picked


def collective_rows(dataset: xr.Dataset, *, sku: str, engine: str) -> np.ndarray:
    """Indices of a GPU's all-reduces by one engine. Eager launches are left out: the host's time is not the link's."""
    mine = (dataset["sku"].values.astype(str) == sku) & (dataset["engine"].values.astype(str) == engine)
    eager = np.char.endswith(dataset["kernel_source"].values.astype(str), "eager")
    return np.flatnonzero(mine & ~eager)


def gemm_observations(
    dataset: xr.Dataset,
    *,
    engines: Sequence[str],
    skus: Sequence[str] | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Observations:
    """Measured GEMM times as observations of `t_gemm`: a group for each GPU and engine that has any.

    Args:
        dataset: of kind "gemm": latency (sku, engine, shape) in s.
        engines: whose tables.
        skus: which GPUs; all by default.
        sample: shapes drawn from each group's measured ones, with replacement where there are fewer; all by default.
        seed: of that draw.

    Raises:
        FactorGraphError: the dataset has no such GPU or engine, or nothing measured of a GPU by any of the engines.

    Examples:
        >>> from factorgraph import load_dataset
        >>> seen = gemm_observations(load_dataset("gemm-bf16"), engines=["vllm"], skus=["l40s"], sample=8)
        >>> seen.measured.shape, seen.target
        ((1, 8), 't_gemm')
    """
    names = [str(name) for name in dataset["sku"].values] if skus is None else list(skus)
    known = {"sku": [str(s) for s in dataset["sku"].values], "engine": [str(e) for e in dataset["engine"].values]}
    for what, asked in (("sku", names), ("engine", engines)):
        for name in asked:
            if name not in known[what]:
                raise FactorGraphError(f"no measurement of '{name}' in this dataset; it has {', '.join(known[what])}")
    draw = np.random.default_rng(seed)
    rows = []
    for name in names:
        measured = {engine: dataset["latency"].sel(sku=name, engine=engine).values for engine in engines}
        known_times = {engine: latency for engine, latency in measured.items() if np.isfinite(latency).any()}
        if not known_times:
            raise FactorGraphError(f"{', '.join(engines)} measured nothing on {name} in this dataset; leave it out")
        for engine, latency in known_times.items():
            picked = np.arange(latency.size)
            if sample is not None:
                there = np.flatnonzero(np.isfinite(latency))
                picked = draw.choice(there, sample, replace=there.size < sample)
            shapes = (dataset[axis].values[picked] for axis in ("m", "n", "k"))
            values = gemm_values(*shapes, dtype=dataset.attrs["dtype"], engine=engine)
            rows.append((name, {**load_sku(name).values(), **values}, latency[picked]))
    return _stacked(rows, "t_gemm")


def attention_observations(
    datasets: Sequence[xr.Dataset], *, skus: Sequence[str], sample: int, seed: int = 0
) -> Observations:
    """Measured attention times, BF16 cache, as observations of `t_attention`: a group for each GPU and dataset.

    Args:
        datasets: of kind "attention": latency (sku, engine, case) in s; the first engine's are taken.
        skus: which GPUs.
        sample: cases drawn from each GPU's measured ones.
        seed: of that draw.
    """
    draw = np.random.default_rng(seed)
    rows = []
    for dataset in datasets:
        for name in skus:
            latency = dataset["latency"].sel(sku=name).isel(engine=0).values
            there = np.intersect1d(np.flatnonzero(np.isfinite(latency)), attention_cases(dataset))
            picked = draw.choice(there, sample, replace=there.size < sample)
            rows.append((name, {**load_sku(name).values(), **attention_values(dataset, picked)}, latency[picked]))
    return _stacked(rows, "t_attention")


def collective_values(dataset: xr.Dataset, picked: np.ndarray) -> dict[str, np.ndarray]:
    """What a benchmark of one all-reduce supplies to a graph, for some rows of a dataset of kind "collective"."""
    engines = dataset["engine"].values[picked].astype(str)
    return {
        "message_bytes": dataset["message_bytes"].values[picked].astype(float),
        "ranks": dataset["ranks"].values[picked].astype(float),
        "collective_library": np.asarray([LIBRARIES.index(name) for name in engines], float),
    }


def collective_observations(dataset: xr.Dataset, *, skus: Sequence[str]) -> Observations:
    """Measured all-reduces as observations of `t_collective`: a group for each GPU, padded to the longest.

    Args:
        dataset: of kind "collective": latency (row) in s.
        skus: whose rows.
    """
    picked = {
        name: np.concatenate([collective_rows(dataset, sku=name, engine=engine) for engine in LIBRARIES])
        for name in skus
    }
    longest = max(rows.size for rows in picked.values())
    rows = []
    for name, mine in picked.items():
        index = np.resize(mine, longest)
        latency = np.where(np.arange(longest) < mine.size, dataset["latency"].values[index], np.nan)
        rows.append((name, {**load_sku(name).values(), **collective_values(dataset, index)}, latency))
    return _stacked(rows, "t_collective")


def _stacked(rows: Sequence[tuple[str, dict[str, Any], np.ndarray]], target: str) -> Observations:
    """Groups of one length, put on top of one another."""
    names, values, measured = zip(*rows, strict=True)
    stacked = {key: np.stack([np.asarray(one[key], float) for one in values]) for key in values[0]}
    return Observations(
        values={key: jnp.asarray(value, float) for key, value in stacked.items()},
        measured=jnp.asarray(np.stack(measured), float),
        target=target,
        groups=tuple(names),
    )
