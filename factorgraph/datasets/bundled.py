"""Datasets on the search path: one folder each, with NetCDF, datasheet and checksum."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

import xarray as xr

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.paths import search_path
from factorgraph.results import read


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a dataset's folder says of it.

    Attributes:
        name: its folder's name.
        kind: what was measured, such as "gemm".
        title, licence, source: in words.
        file: the NetCDF file.
        sha256: its checksum.
    """

    name: str
    kind: str
    title: str
    licence: str
    source: str
    file: Path
    sha256: str

    @property
    def size(self) -> int:
        """Bytes on disk; 0 where the file is missing."""
        return self.file.stat().st_size if self.file.is_file() else 0

    def fault(self) -> str | None:
        """What is wrong with the file on disk, or None."""
        if not self.file.is_file():
            return f"{self.file.name} is missing"
        if hashlib.sha256(self.file.read_bytes()).hexdigest() != self.sha256:
            return f"{self.file.name} is not the file its checksum was taken of"
        return None


def list_datasets() -> tuple[Entry, ...]:
    """All datasets on the search path, the user's own before the bundled ones.

    Examples:
        >>> "gemm-bf16" in [entry.name for entry in list_datasets()]
        True
    """
    found: dict[str, Entry] = {}
    for folder in search_path("datasets"):
        for about in sorted(folder.glob("*/about.json")):
            found.setdefault(about.parent.name, _entry(about))
    return tuple(found[name] for name in sorted(found))


def load_dataset(dataset: str | os.PathLike) -> xr.Dataset:
    """A dataset by name, after its checksum was compared, or from a NetCDF file.

    Raises:
        UnknownNameError: no dataset has that name.
        FactorGraphError: the file is missing, was changed, or cannot be read.

    Examples:
        >>> load_dataset("gemm-bf16").latency.dims
        ('sku', 'engine', 'shape')
    """
    text = os.fspath(dataset)
    if text.endswith(".nc"):
        return read(text)
    entries = {entry.name: entry for entry in list_datasets()}
    if text not in entries:
        raise UnknownNameError("dataset", text, entries)
    if fault := entries[text].fault():
        raise FactorGraphError(f"dataset {text}: {fault}; install it again")
    return read(entries[text].file)


def verify() -> dict[str, str | None]:
    """Hash every dataset again: what is wrong with each, or None."""
    return {entry.name: entry.fault() for entry in list_datasets()}


def _entry(about: Path) -> Entry:
    try:
        said = json.loads(about.read_text(encoding="utf-8"))
        fields = {key: said[key] for key in ("kind", "title", "licence", "source", "sha256")}
    except (ValueError, KeyError, TypeError) as error:
        raise FactorGraphError(f"{about} does not describe a dataset: {error}") from None
    return Entry(name=about.parent.name, file=about.parent / "data.nc", **fields)
