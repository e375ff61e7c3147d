"""Measurements: labelled, checked, each with a datasheet that says where it is from."""

from factorgraph.datasets.bundled import Entry, list_datasets, load_dataset, verify

__all__ = ["Entry", "list_datasets", "load_dataset", "verify"]
