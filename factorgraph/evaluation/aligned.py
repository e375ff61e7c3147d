"""Predictions that lie beside the measurements of a dataset, label by label."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.evaluation.gemm import predict_gemm
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.observations import attention_values, collective_values


def predicted(dataset: xr.Dataset, graph: FactorGraph) -> xr.DataArray:
    """What a graph predicts for every entry of a dataset's `latency`, s, with its dimensions and coordinates.

    A dataset in chunks (dask) is predicted chunk by chunk, when the result is asked for.

    Args:
        dataset: of kind "gemm", "attention" or "collective".
        graph: gives `t_gemm`, `t_attention` or `t_collective`.

    Raises:
        UnknownNameError: a dataset of another kind, or of a GPU that has no card.
        FactorGraphError: the graph does not give that time.
    """
    kind = str(dataset.attrs.get("kind", "none"))
    if kind not in _KINDS:
        raise UnknownNameError("kind of dataset to predict", kind, _KINDS)
    target, fill = _KINDS[kind]
    if target not in graph:
        raise FactorGraphError(f"this graph gives no '{target}', which a dataset of kind {kind} measures")
    if dataset["latency"].chunks:
        template = dataset["latency"].astype(np.float32)
        return xr.map_blocks(_predicted, dataset, args=[graph.subgraph(target), fill], template=template)
    return _predicted(dataset, graph.subgraph(target), fill)


_Fill = Callable[[FactorGraph, str, str, xr.Dataset], np.ndarray]


def _predicted(dataset: xr.Dataset, graph: FactorGraph, fill: _Fill) -> xr.DataArray:
    measured = dataset["latency"]
    values = np.full(measured.shape, np.nan, np.float32)
    for (sku, engine), where in _groups(dataset).items():
        values[where] = fill(graph, sku, engine, dataset)
    name, attrs = "latency", {"units": "s", "long_name": "predicted time"}
    return xr.DataArray(values, coords=measured.coords, dims=measured.dims, name=name, attrs=attrs)


def _groups(dataset: xr.Dataset) -> Mapping[tuple[str, str], tuple]:
    """Where in `latency` each GPU and engine stands: along dimensions of their own, as labels of all, or along rows."""
    dims, sku, engine = dataset["latency"].dims, dataset["sku"], dataset["engine"]
    along_rows = sku.dims and sku.dims[0] not in ("sku",)
    if along_rows:
        pairs = np.char.add(np.char.add(sku.values.astype(str), "\n"), engine.values.astype(str))
        found = {tuple(pair.split("\n")): np.flatnonzero(pairs == pair) for pair in np.unique(pairs)}
        return {(s, e): (rows,) for (s, e), rows in found.items()}
    places = {}
    for i, name in enumerate(np.atleast_1d(sku.values)):
        for j, library in enumerate(np.atleast_1d(engine.values)):
            at = {"sku": i, "engine": j}
            places[str(name), str(library)] = tuple(at.get(str(dim), slice(None)) for dim in dims)
    return places


def _gemms(graph: FactorGraph, sku: str, engine: str, dataset: xr.Dataset) -> np.ndarray:
    narrow = dataset.attrs["dtype"] != "bf16"
    return predict_gemm(graph, load_sku(sku), dataset, engine=engine if narrow else "vllm")["t_gemm"].values


def _attentions(graph: FactorGraph, sku: str, engine: str, dataset: xr.Dataset) -> np.ndarray:
    values = attention_values(dataset, np.arange(dataset["q_len"].size))
    given = {name: value for name, value in values.items() if name in graph.variables}
    return graph.predict(load_sku(sku), given, outputs=["t_attention"])["t_attention"].values


def _collectives(graph: FactorGraph, sku: str, engine: str, dataset: xr.Dataset) -> np.ndarray:
    mine = (dataset["sku"].values.astype(str) == sku) & (dataset["engine"].values.astype(str) == engine)
    values = collective_values(dataset, np.flatnonzero(mine))
    return graph.predict(load_sku(sku), values, outputs=["t_collective"])["t_collective"].values


_KINDS: dict[str, tuple[str, _Fill]] = {
    "gemm": ("t_gemm", _gemms),
    "attention": ("t_attention", _attentions),
    "collective": ("t_collective", _collectives),
}
