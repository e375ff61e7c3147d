"""Measurements: labelled, checked, each with a datasheet that says where it is from."""

from factorgraph.datasets.accessor import Measurements
from factorgraph.datasets.files import write_csv, write_netcdf
from factorgraph.datasets.importers import Imported, SourceError, import_file, list_formats
from factorgraph.datasets.integrity import IntegrityError
from factorgraph.datasets.registry import (
    Entry,
    Shown,
    add_dataset,
    fetch,
    find_dataset,
    list_datasets,
    load_dataset,
    seal,
    show_dataset,
    store_root,
    verify,
)
from factorgraph.datasets.schema import SchemaError, conform

__all__ = [
    "Entry",
    "Imported",
    "IntegrityError",
    "Measurements",
    "SchemaError",
    "Shown",
    "SourceError",
    "add_dataset",
    "conform",
    "fetch",
    "find_dataset",
    "import_file",
    "list_datasets",
    "list_formats",
    "load_dataset",
    "seal",
    "show_dataset",
    "store_root",
    "verify",
    "write_csv",
    "write_netcdf",
]
