"""Errors on tables of measured all-reduces."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from factorgraph.evaluation.rows import Cases, Row, asked_skus, rows_of
from factorgraph.graph import FactorGraph
from factorgraph.hardware import load_sku
from factorgraph.observations import collective_rows, collective_values

# Upper ends of the numbers of ranks that errors are reported for.
RANK_REGIMES = ((2.0, "2 ranks"), (4.0, "4 ranks"), (8.0, "8 ranks"), (np.inf, "more ranks"))


def evaluate_collective(
    graph_of: Callable[[str], FactorGraph],
    dataset: xr.Dataset,
    *,
    home: Callable[[str], bool],
    sku: str | None = None,
    learn: bool = False,
) -> Iterator[Row]:
    """Errors of a graph's t_collective on measured all-reduces in CUDA graphs, one row a GPU and engine.

    Args:
        graph_of: the graph that a GPU is scored on, by the GPU's name.
        dataset: of kind "collective": latency(row) in s, with sku, engine, ranks and message_bytes along row.
        home: whether that graph's constants were fitted on the GPU.
        sku: one GPU only.
        learn: whether a random forest that learned the A100's times is scored beside.

    Raises:
        FactorGraphError: the dataset holds no measurement of that GPU.
    """

    def cases(name: str, engine: str) -> Cases | None:
        picked = collective_rows(dataset, sku=name, engine=engine)
        if picked.size == 0:
            return None
        card = load_sku(name)
        values = collective_values(dataset, picked)
        out = graph_of(name).subgraph("t_collective").predict(card, values, outputs=["t_collective"])
        link = card.values()["link_bandwidth"]
        ranks = values["ranks"]
        return Cases(
            predicted=out["t_collective"].values,
            measured=dataset["latency"].values[picked],
            roofline=2.0 * (ranks - 1.0) / ranks * values["message_bytes"] / link,
            features=np.stack([values["message_bytes"], ranks], axis=-1),
            regime=ranks,
            regimes=RANK_REGIMES,
            labels={"link": "NVLink" if card.nvlink_bandwidth else "PCIe"},
        )

    engines = list(dict.fromkeys(str(engine) for engine in dataset["engine"].values))
    yield from rows_of(cases, skus=asked_skus(dataset, sku), engines=engines, home=home, learn=learn)
