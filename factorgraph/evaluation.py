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
from factorgraph.observations import gemm_values

# Upper ends of the ranges of M that errors are reported for, and how each is called.
M_REGIMES = ((16, "M <= 16"), (128, "M <= 128"), (1024, "M <= 1024"), (np.inf, "M > 1024"))


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
    graph_of: Callable[[str], FactorGraph],
    dataset: xr.Dataset,
    *,
    home: Callable[[str], bool],
    sku: str | None = None,
) -> Iterator[Row]:
    """Errors of a graph's t_gemm on measured GEMM tables, one row a GPU and engine, in the dataset's order.

    Args:
        graph_of: the graph that a GPU is scored on, by the GPU's name.
        dataset: of kind "gemm": latency(sku, engine, shape) in s, with m, n, k along shape.
        home: whether that graph's constants were fitted on the GPU.
        sku: one GPU only.

    Raises:
        FactorGraphError: the dataset holds no measurement of that GPU.
    """
    skus = [str(name) for name in dataset["sku"].values]
    if sku is not None and sku not in skus:
        raise FactorGraphError(f"no measurement of '{sku}' in this dataset; it has {', '.join(skus)}")
    for name in [sku] if sku else skus:
        card = load_sku(name)
        prediction = predict_gemm(graph_of(name).subgraph("t_gemm"), card, dataset)
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


def predict_gemm(graph: FactorGraph, card: Any, dataset: xr.Dataset) -> xr.Dataset:
    """Predict every shape of a GEMM dataset on one GPU, with the cache in the state the tables were measured in."""
    values = gemm_values(*(dataset[axis].values for axis in ("m", "n", "k")), dtype=dataset.attrs["dtype"])
    if "weight_bytes" not in graph.input_names:
        del values["working_set"]  # the report's law takes what a kernel streams for its working set
    return graph.predict(card, values, outputs=["t_gemm", "gemm_flop", "traffic", "peak_flops"])


def _by_regime(predicted: np.ndarray, measured: np.ndarray, m: np.ndarray) -> dict[str, Errors]:
    found, low = {}, 0.0
    for high, name in M_REGIMES:
        inside = (m > low) & (m <= high)
        if inside.any():
            found[name] = errors(predicted[inside], measured[inside])
        low = high
    return found
