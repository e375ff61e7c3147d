"""`dataset.fg`: what xarray does not know of a dataset of measurements."""

from typing import Any

import numpy as np
import xarray as xr

from factorgraph.datasets.schema import FACTS
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.graph import FactorGraph


@xr.register_dataset_accessor("fg")
class Measurements:
    """The accessor `fg` of a dataset of measurements.

    Args:
        dataset: from `load_dataset` or an importer.
    """

    def __init__(self, dataset: xr.Dataset):
        self._dataset = dataset

    def units(self) -> dict[str, str]:
        """The unit of every quantity, by name.

        Examples:
            >>> from factorgraph.datasets import load_dataset
            >>> load_dataset("gemm-bf16").fg.units()["latency"]
            's'
        """
        variables = self._dataset.variables.items()
        return {str(name): str(values.attrs["units"]) for name, values in variables if "units" in values.attrs}

    def provenance(self) -> dict[str, str | list[str]]:
        """How and by what the numbers were measured: one word, or all that occur where it varies.

        Examples:
            >>> from factorgraph.datasets import load_dataset
            >>> said = load_dataset("gemm-bf16").fg.provenance()
            >>> said["licence"], said["operand_values"]
            ('Apache-2.0', ['random', 'unset'])
        """
        said: dict[str, str | list[str]] = {}
        for fact in FACTS:
            if fact.name in self._dataset.variables:
                said[fact.name] = np.unique(self._dataset[fact.name].values.astype(str)).tolist()
            elif fact.name in self._dataset.attrs:
                said[fact.name] = str(self._dataset.attrs[fact.name])
        return said

    def select(self, **labels: Any) -> xr.Dataset:
        """The part of a dataset that has certain labels, whether they lie along a dimension of their own or along rows.

        Args:
            labels: by coordinate, a value, a list of values, or a slice with its ends included, such as
                `sku="h100-sxm", engine=["vllm", "sglang"], m=slice(1, 16)`.

        Returns:
            The dataset with the same dimensions, shorter.

        Raises:
            UnknownNameError: there is no such coordinate, or no measurement of that name.
            FactorGraphError: the coordinate lies along several dimensions, or nothing is within the slice.

        Examples:
            >>> from factorgraph.datasets import load_dataset
            >>> int(load_dataset("gemm-bf16").fg.select(sku="b200", m=slice(1, 16)).m.max())
            16
        """
        dataset = self._dataset
        for name, wanted in labels.items():
            if name not in dataset.coords:
                raise UnknownNameError("coordinate", name, map(str, dataset.coords))
            values = dataset[name]
            if values.ndim != 1:
                raise FactorGraphError(f"{name} lies along {values.dims}; select along one dimension at a time")
            dataset = dataset.isel({values.dims[0]: np.flatnonzero(_matches(name, values.to_numpy(), wanted))})
        return dataset

    def predict(self, graph: FactorGraph) -> xr.DataArray:
        """What a graph predicts for every entry of `latency`, s, with the same labels; lazily where that is in chunks.

        Args:
            graph: gives the time that the dataset measures.

        Raises:
            UnknownNameError: the dataset is no table of GEMMs, attention or collectives, or names a GPU without a card.
            FactorGraphError: the graph does not give that time.

        Examples:
            >>> import factorgraph as fg
            >>> few = fg.load_dataset("gemm-bf16").fg.select(sku="b200", engine="vllm", m=slice(1, 1))
            >>> few.fg.predict(fg.step_graph()).dims
            ('sku', 'engine', 'shape')
        """
        from factorgraph.evaluation.aligned import predicted  # a floor above

        return predicted(self._dataset, graph)

    def error(self, graph: FactorGraph) -> xr.DataArray:
        """Relative error of a graph, predicted/measured - 1; NaN where nothing was measured.

        Examples:
            >>> import factorgraph as fg
            >>> few = fg.load_dataset("gemm-bf16").fg.select(sku="b200", engine="vllm", m=slice(1, 1))
            >>> float(abs(few.fg.error(fg.step_graph())).mean()) < 0.15
            True
        """
        found, measured = xr.align(self.predict(graph), self._dataset["latency"], join="exact")
        return (found / measured - 1.0).assign_attrs(units="1", long_name="predicted over measured time, less one")


def _matches(name: str, values: np.ndarray, wanted: Any) -> np.ndarray:
    if isinstance(wanted, slice):
        low = -np.inf if wanted.start is None else wanted.start
        high = np.inf if wanted.stop is None else wanted.stop
        found = (values >= low) & (values <= high)
        if not found.any():
            raise FactorGraphError(f"no {name} lies within {low} to {high}; there is {values.min()} to {values.max()}")
        return found
    asked = np.atleast_1d(wanted)
    for one in asked:
        if not (values == one).any():
            raise UnknownNameError(name, str(one), {str(value) for value in np.unique(values)})
    return np.isin(values, asked)
