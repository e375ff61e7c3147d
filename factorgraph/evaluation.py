"""The model against measurements: predictions of a dataset's kernels, and their errors beside simple baselines."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.metrics import Errors, errors
from factorgraph.workload import TENSOR_TYPES

# Upper ends of the ranges of M that errors are reported for, and how each is called.
M_REGIMES = ((16, "M <= 16"), (128, "M <= 128"), (1024, "M <= 1024"), (np.inf, "M > 1024"))
# The collectors of these tables cycle this many copies of the weight, so that it comes back after that many.
WEIGHT_COPIES = 6


@dataclasses.dataclass(frozen=True)
class Row:
    """Errors on the measurements of one GPU by one engine, in percent.

    Attributes:
        sku, engine: whose measurements.
        role: "home" where the laws' constants were fitted on this GPU, else "unseen".
        errors: of the model.
        roofline, roofline_tuned: MAPE on the same rows of max(FLOP/peak, bytes/bandwidth), and of that / 0.8 + 3 µs.
        regimes: errors by range of M, where there are measurements.
    """

    sku: str
    engine: str
    role: str
    errors: Errors
    roofline: float
    roofline_tuned: float
    regimes: dict[str, Errors]

    def as_dict(self) -> dict[str, Any]:
        """Flat, as the command prints it."""
        return {
            "sku": self.sku,
            "engine": self.engine,
            **dataclasses.asdict(self.errors),
            "roofline_mape": self.roofline,
            "roofline_tuned_mape": self.roofline_tuned,
            "role": self.role,
            "regimes": {name: dataclasses.asdict(found) for name, found in self.regimes.items()},
        }


def evaluate_gemm(
    graph: FactorGraph,
    dataset: xr.Dataset,
    *,
    dtype: str = "bf16",
    sku: str | None = None,
    home: Callable[[str], bool],
) -> Iterator[Row]:
    """Errors of a graph's t_gemm on measured GEMM tables, one row a GPU and engine, in the dataset's order.

    Args:
        graph: from which t_gemm is taken.
        dataset: of kind "gemm": latency(sku, engine, shape) in s, with m, n, k along shape.
        dtype: the type of the GEMMs.
        sku: one GPU only.
        home: whether the graph's constants were fitted on a GPU.

    Raises:
        FactorGraphError: the dataset holds no measurement of that GPU.
    """
    skus = [str(name) for name in dataset["sku"].values]
    if sku is not None and sku not in skus:
        raise FactorGraphError(f"no measurement of '{sku}' in this dataset; it has {', '.join(skus)}")
    t_gemm = graph.subgraph("t_gemm")
    for name in [sku] if sku else skus:
        card = load_sku(name)
        prediction = predict_gemm(t_gemm, card, dataset, dtype=dtype)
        roofline = np.maximum(
            prediction["gemm_flop"].values / prediction["peak_flops"].values,
            prediction["traffic"].values / card.dram_bandwidth,
        )
        for engine in dataset["engine"].values:
            measured = dataset["latency"].sel(sku=name, engine=engine).values
            there = np.isfinite(measured)
            if not there.any():
                continue
            predicted, measured, m = prediction["t_gemm"].values[there], measured[there], dataset["m"].values[there]
            yield Row(
                sku=name,
                engine=str(engine),
                role="home" if home(name) else "unseen",
                errors=errors(predicted, measured),
                roofline=errors(roofline[there], measured).mape,
                roofline_tuned=errors(roofline[there] / 0.8 + 3e-6, measured).mape,
                regimes=_by_regime(predicted, measured, m),
            )


def predict_gemm(graph: FactorGraph, card: Any, dataset: xr.Dataset, *, dtype: str) -> xr.Dataset:
    """Predict every shape of a GEMM dataset on one GPU, with the cache in the state the tables were measured in."""
    m, n, k = (dataset[name].values.astype(float) for name in ("m", "n", "k"))
    size = {"bf16": 2.0, "fp8": 1.0}[dtype]
    ones = np.ones_like(m)
    values = {
        "m": m,
        "n": n,
        "k": k,
        "gemm_groups": ones,
        "gemm_type": ones * TENSOR_TYPES.index(dtype),
        "weight_element_size": ones * size,
        "activation_element_size": ones * size,
        "output_element_size": ones * 2.0,
    }
    if "weight_bytes" in graph.input_names:
        # The graph takes reuse from a whole model's weights; these benchmarks cycle a few copies of one instead.
        values["working_set"] = WEIGHT_COPIES * n * k * size + m * k * size + m * n * 2.0
    return graph.predict(card, values, outputs=["t_gemm", "gemm_flop", "traffic", "peak_flops"])


def _by_regime(predicted: np.ndarray, measured: np.ndarray, m: np.ndarray) -> dict[str, Errors]:
    found, low = {}, 0.0
    for high, name in M_REGIMES:
        inside = (m > low) & (m <= high)
        if inside.any():
            found[name] = errors(predicted[inside], measured[inside])
        low = high
    return found
