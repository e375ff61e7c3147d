"""Which datasets there are, and whether each is whole: bundled folders, the user's own, and a local store.

A bundled dataset is a folder with `about.json`, the files it names, and `datasheet.md`. The local store keeps files by
their checksum under `objects/` and one JSON of the same form a dataset under `datasets/`, which is replaced last: a
dataset is therefore either the old one or the new one, whole.
"""

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import platformdirs
import pooch
import xarray as xr

from factorgraph.datasets.files import read_csv, read_netcdf, write_netcdf
from factorgraph.datasets.integrity import IntegrityError, check_name, replacing, sha256
from factorgraph.datasets.schema import FACTS, conform
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.paths import data_root, search_path

DATA, REJECTED, DATASHEET, SOURCE = "data.nc", "rejected.csv", "datasheet.md", "source.csv"
_SAID = ("kind", "title", "licence", "source")


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """One file of a dataset.

    Attributes:
        name: as its record calls it.
        path: where it lies.
        sha256: its checksum.
        size: its length in bytes.
        url: where it can be fetched from, if it is not shipped.
    """

    name: str
    path: Path
    sha256: str
    size: int
    url: str | None = None

    def fault(self) -> str | None:
        """What is wrong with the file on disk, or None."""
        if not self.path.is_file():
            return "has not been fetched" if self.url else "is missing"
        if self.path.stat().st_size < self.size:
            return f"is cut short: {self.path.stat().st_size} of {self.size} bytes"
        return None if sha256(self.path) == self.sha256 else "is not the file its checksum was taken of"


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a dataset's record says of it.

    Attributes:
        name: how it is called.
        kind: what was measured, such as "gemm".
        title, licence, source: in words.
        rejected: rows of the source that were left out, counted by reason.
        files: by name.
        origin: "bundled", "added" (found on FACTORGRAPH_PATH) or "imported".
    """

    name: str
    kind: str
    title: str
    licence: str
    source: str
    rejected: dict[str, int]
    files: dict[str, StoredFile]
    origin: str

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files.values())

    def whole(self, name: str) -> Path:
        """The path of one of its files, after its checksum was compared.

        Raises:
            IntegrityError: the file is missing, cut short or changed.
        """
        if name not in self.files:
            raise IntegrityError(f"dataset {self.name} has no file {name}")
        if fault := self.files[name].fault():
            mend = {
                "bundled": "install factorgraph again",
                "imported": "import it again",
                "added": "put it back",
            }[self.origin]
            if self.files[name].url:
                mend = f"fetch it with `factorgraph.datasets.fetch('{self.name}')`"
            raise IntegrityError(f"dataset {self.name}: {name} {fault}; {mend}")
        return self.files[name].path


@dataclasses.dataclass(frozen=True)
class Shown:
    """All that there is to see of a dataset: its entry, its content, its datasheet, and the rows that were left out."""

    entry: Entry
    dataset: xr.Dataset
    datasheet: str
    rejected: pd.DataFrame


def store_root() -> Path:
    """Where imported and fetched datasets are kept: `FACTORGRAPH_HOME`, or the platform's folder for user data."""
    home = os.environ.get("FACTORGRAPH_HOME")
    return Path(home).expanduser() if home else platformdirs.user_data_path("factorgraph")


def list_datasets() -> tuple[Entry, ...]:
    """All datasets, by name; the user's own before bundled ones of the same name.

    Raises:
        IntegrityError: a dataset's record cannot be read.

    Examples:
        >>> "gemm-bf16" in [entry.name for entry in list_datasets()]
        True
    """
    return tuple(_entry(name, record) for name, record in sorted(_records().items()))


def find_dataset(name: str) -> Entry:
    """What is known of one dataset.

    Raises:
        UnknownNameError: no dataset has that name.
        IntegrityError: its record cannot be read.

    Examples:
        >>> find_dataset("gemm-bf16").licence
        'Apache-2.0'
    """
    records = _records()
    if name not in records:
        raise UnknownNameError("dataset", name, records)
    return _entry(name, records[name])


def load_dataset(dataset: str | os.PathLike, *, chunks: Any = None) -> xr.Dataset:
    """A dataset by name or from a file, in SI units, after its checksum and its schema were checked.

    Args:
        dataset: a name from `list_datasets`, or the path of a NetCDF (.nc) or exported CSV (.csv, .csv.gz) file.
        chunks: sizes by dimension, to leave the data on disk as dask arrays (extra `distributed`); NetCDF only.

    Raises:
        UnknownNameError: no dataset has that name.
        IntegrityError: the file is missing, cut short, or was changed.
        SchemaError: the file does not say what a dataset of its kind must; all faults are listed.

    Examples:
        >>> load_dataset("gemm-bf16").latency.dims
        ('sku', 'engine', 'shape')
        >>> load_dataset("gemm-bf16").latency.units
        's'
    """
    text = os.fspath(dataset)
    if text.endswith((".csv", ".csv.gz")) and chunks is None:
        return conform(read_csv(Path(text)), title=text)
    if isinstance(dataset, os.PathLike) or text.endswith(".nc") or os.sep in text:
        return conform(read_netcdf(Path(text), chunks=chunks), title=text)
    return conform(read_netcdf(find_dataset(text).whole(DATA), chunks=chunks), title=f"dataset {text}")


def show_dataset(name: str) -> Shown:
    """A dataset with everything that is kept beside it.

    Raises:
        UnknownNameError: no dataset has that name.
        IntegrityError: a file of it is missing, cut short, or was changed.
        SchemaError: it does not say what a dataset of its kind must.

    Examples:
        >>> show_dataset("gemm-bf16").datasheet.splitlines()[0]
        '# BF16 GEMM latency, nine GPUs, three engines'
    """
    entry = find_dataset(name)
    rejected = pd.DataFrame()
    if REJECTED in entry.files:
        rejected = pd.read_csv(entry.whole(REJECTED), dtype=str, keep_default_na=False)
    datasheet = entry.whole(DATASHEET).read_text(encoding="utf-8")
    return Shown(entry, load_dataset(name), datasheet, rejected)


def verify() -> dict[str, str | None]:
    """Take the checksum of every file of every dataset again: what is wrong with each, or None.

    Returns:
        By "dataset/file".

    Examples:
        >>> verify()["gemm-bf16/data.nc"] is None
        True
    """
    found: dict[str, str | None] = {}
    for name, record in sorted(_records().items()):
        try:
            entry = _entry(name, record)
        except IntegrityError as error:
            found[f"{name}/{record.name}"] = str(error)
            continue
        found |= {f"{name}/{file.name}": file.fault() for file in entry.files.values()}
    return found


def add_dataset(
    name: str, dataset: xr.Dataset, *, rejected: pd.DataFrame | None = None, datasheet: str | None = None
) -> Entry:
    """Keep a dataset in the local store, in place of an older one of that name.

    Args:
        name: small letters, digits and hyphens; not that of a bundled dataset.
        dataset: valid for its kind.
        rejected: rows that were left out, with a column `reason`.
        datasheet: Markdown; by default one made of what the dataset says.

    Raises:
        FactorGraphError: the name cannot be used, or the store cannot be written to.
        SchemaError: the dataset does not say what a dataset of its kind must.
    """
    check_name(name)
    if (data_root("datasets") / name).exists():
        raise FactorGraphError(f"{name} is a bundled dataset; choose another name, such as 'my-{name}'")
    dataset = conform(dataset, title=f"dataset {name}")
    sheet = datasheet or describe(dataset)
    record = store_root() / "datasets" / f"{name}.json"
    try:
        files = {
            DATA: _keep(lambda path: write_netcdf(dataset, path)),
            DATASHEET: _keep(lambda path: path.write_text(sheet, encoding="utf-8")),
        }
        if rejected is not None and len(rejected):
            files[REJECTED] = _keep(lambda path: rejected.to_csv(path, index=False, lineterminator="\n"))
        with replacing(record) as beside:
            beside.write_text(_record(dataset, files, rejected), encoding="utf-8")
    except OSError as error:
        raise FactorGraphError(f"dataset {name} cannot be kept in {store_root()}: {error.strerror}") from error
    return _entry(name, record)


def seal(folder: Path) -> Entry:
    """Write the record of a dataset's folder, `about.json`, from the files in it, so that changes to them show.

    Args:
        folder: holds data.nc and datasheet.md; rejected.csv if rows were left out; source.csv if data.nc is made of it.

    Raises:
        IntegrityError: a file is missing or cannot be read.
        SchemaError: data.nc does not say what a dataset of its kind must.
    """
    check_name(folder.name)
    dataset = conform(read_netcdf(folder / DATA), title=f"dataset {folder.name}")
    if not (folder / DATASHEET).is_file():
        raise IntegrityError(f"{folder} has no {DATASHEET}; write one that says what was measured and how")
    files = {name: folder / name for name in (DATA, DATASHEET, REJECTED, SOURCE) if (folder / name).is_file()}
    rejected = pd.read_csv(files[REJECTED]) if REJECTED in files else None
    with replacing(folder / "about.json") as beside:
        beside.write_text(_record(dataset, files, rejected), encoding="utf-8")
    return _entry(folder.name, folder / "about.json")


def fetch(name: str) -> Entry:
    """Fetch the files of a declared dataset that are not here; what does not match its checksum is refused.

    Raises:
        UnknownNameError: no dataset has that name.
        IntegrityError: a file cannot be fetched, or is not the one that was declared.
    """
    entry = find_dataset(name)
    for file in entry.files.values():
        if file.url is None or file.fault() is None:
            continue
        try:
            pooch.retrieve(file.url, f"sha256:{file.sha256}", fname=file.sha256, path=store_root() / "objects")
        except Exception as error:  # pooch passes on whatever the protocol's library raises
            reason = " ".join(str(error).split())[:200]
            raise IntegrityError(f"dataset {name}: {file.name} cannot be fetched from {file.url} ({reason})") from error
    return find_dataset(name)


def describe(dataset: xr.Dataset) -> str:
    """A datasheet of what a dataset says of itself, in Markdown.

    Examples:
        >>> print(describe(load_dataset("gemm-bf16")).splitlines()[0])
        # BF16 GEMM latency, nine GPUs, three engines
    """
    lines = [f"# {dataset.attrs['title']}", "", "| fact | said |", "|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in dataset.attrs.items() if key != "title"]
    for fact in FACTS:
        if fact.name in dataset.coords:
            lines.append(f"| {fact.name} | {', '.join(map(str, sorted(set(dataset[fact.name].values.ravel()))))} |")
    lines += ["", "| variable | unit | dimensions |", "|---|---|---|"]
    for name, values in dataset.variables.items():
        lines.append(f"| {name} | {values.attrs.get('units', 'text')} | {', '.join(map(str, values.dims))} |")
    return "\n".join(lines) + "\n"


def _keep(write: Callable[[Path], Any]) -> Path:
    """Write a file into the store under its own checksum."""
    objects = store_root() / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=objects) as folder:
        written = Path(folder) / "file"
        write(written)
        return written.replace(objects / sha256(written))


def _record(dataset: xr.Dataset, files: dict[str, Path], rejected: pd.DataFrame | None) -> str:
    said = {key: str(dataset.attrs.get(key, f"see the coordinate {key}")) for key in _SAID}
    counts = {} if rejected is None else rejected["reason"].value_counts(sort=False).to_dict()
    listed = {name: {"sha256": sha256(path), "size": path.stat().st_size} for name, path in files.items()}
    return json.dumps({**said, "rejected": counts, "files": listed}, indent=2, ensure_ascii=False) + "\n"


def _records() -> dict[str, Path]:
    """The record of each dataset, the user's own before the bundled ones."""
    found: dict[str, Path] = {}
    *added, bundled = search_path("datasets")
    for folder in added:
        for record in folder.glob("*/about.json"):
            found.setdefault(record.parent.name, record)
    for record in (store_root() / "datasets").glob("*.json"):
        found.setdefault(record.stem, record)
    for record in bundled.glob("*/about.json"):
        found.setdefault(record.parent.name, record)
    return found


def _entry(name: str, record: Path) -> Entry:
    try:
        said = json.loads(record.read_text(encoding="utf-8"))
        files = {str(file): _stored_file(str(file), about, record) for file, about in said["files"].items()}
        words = {key: str(said[key]) for key in _SAID}
        rejected = {str(reason): int(count) for reason, count in said.get("rejected", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(f"{record} does not describe a dataset: {type(error).__name__} {error}") from None
    if record.name != "about.json":
        origin = "imported"
    else:
        origin = "bundled" if record.parent.parent == data_root("datasets") else "added"
    return Entry(name=name, rejected=rejected, files=files, origin=origin, **words)


def _stored_file(name: str, about: Mapping[str, Any], record: Path) -> StoredFile:
    digest = str(about["sha256"])
    # Both become parts of a path, which a record must not lead out of the store.
    if name not in (DATA, REJECTED, DATASHEET, SOURCE) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(f"file {name!r} or its sha256 is not one that a dataset has")
    beside, kept = record.parent / name, store_root() / "objects" / digest
    path = beside if record.name == "about.json" and (beside.is_file() or "url" not in about) else kept
    url = str(about["url"]) if "url" in about else None
    return StoredFile(name, path, digest, int(about["size"]), url)
