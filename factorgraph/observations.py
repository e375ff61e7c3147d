"""Measurements as a graph sees them: values of its inputs, and of the one variable that was measured."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.hardware import load_sku
from factorgraph.workload import TENSOR_TYPES

# The collectors of the GEMM tables cycle this many copies of the weight, so that it comes back after that many.
WEIGHT_COPIES = 6
_ELEMENT_SIZE = {"bf16": 2.0, "fp8": 1.0}
_OUTPUT_SIZE = 2.0


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


def gemm_values(m: np.ndarray, n: np.ndarray, k: np.ndarray, dtype: str) -> dict[str, np.ndarray]:
    """What a benchmark of single GEMMs supplies to a graph.

    Args:
        m, n, k: shapes, one entry a GEMM.
        dtype: "bf16" or "fp8"; results are BF16.
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
        # Between two uses of a weight come the other copies, the shared input and the result.
        "working_set": WEIGHT_COPIES * n * k * size + m * k * size + m * n * _OUTPUT_SIZE,
    }


def gemm_observations(
    dataset: xr.Dataset, *, engine: str, skus: Sequence[str] | None = None, sample: int | None = None, seed: int = 0
) -> Observations:
    """Measured GEMM times of one engine as observations of `t_gemm`.

    Args:
        dataset: of kind "gemm": latency (sku, engine, shape) in s.
        engine: whose tables.
        skus: which GPUs; all by default.
        sample: shapes drawn from each GPU's measured ones, with replacement where there are fewer; all by default.
        seed: of that draw.

    Raises:
        FactorGraphError: the dataset has no such GPU or engine, or nothing measured of one.

    Examples:
        >>> from factorgraph import load_dataset
        >>> seen = gemm_observations(load_dataset("gemm-bf16"), engine="vllm", skus=["l40s"], sample=8)
        >>> seen.measured.shape, seen.target
        ((1, 8), 't_gemm')
    """
    names = [str(name) for name in dataset["sku"].values] if skus is None else list(skus)
    known = {"sku": [str(s) for s in dataset["sku"].values], "engine": [str(e) for e in dataset["engine"].values]}
    for what, asked in (("sku", names), ("engine", [engine])):
        for name in asked:
            if name not in known[what]:
                raise FactorGraphError(f"no measurement of '{name}' in this dataset; it has {', '.join(known[what])}")
    draw = np.random.default_rng(seed)
    rows = []
    for name in names:
        latency = dataset["latency"].sel(sku=name, engine=engine).values
        there = np.flatnonzero(np.isfinite(latency))
        if there.size == 0:
            raise FactorGraphError(f"{engine} measured nothing on {name} in this dataset; leave it out")
        picked = np.arange(latency.size)
        if sample is not None:
            picked = draw.choice(there, sample, replace=there.size < sample)
        shapes = (dataset[axis].values[picked] for axis in ("m", "n", "k"))
        rows.append(
            {**load_sku(name).values(), **gemm_values(*shapes, dtype=dataset.attrs["dtype"]), "t": latency[picked]}
        )
    stacked = {name: jnp.asarray(np.stack([np.asarray(row[name], float) for row in rows]), float) for name in rows[0]}
    return Observations(measured=stacked.pop("t"), values=stacked, target="t_gemm", groups=tuple(names))
