"""Datasets as files: NetCDF-4 that is written the same byte for byte, and CSV that reads back exactly."""

import gzip
import hashlib
import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.datasets.integrity import IntegrityError, replacing, sha256
from factorgraph.errors import FactorGraphError

# The end of a NetCDF file of ours, after what HDF5 reads: the checksum of all before it. It is compared before HDF5
# opens the file, because on some damaged files HDF5 never comes back.
_SEAL = b"\nfactorgraph sha256 "
_SEAL_LENGTH = len(_SEAL) + 64
_CSV_START = "# factorgraph dataset "


def write_netcdf(dataset: xr.Dataset, path: Path) -> Path:
    """Write a dataset; the same dataset gives the same bytes with the same version of the NetCDF library.

    Args:
        dataset: of any kind.
        path: the file; an old one stays until the new one is whole.

    Examples:
        >>> import tempfile
        >>> file = write_netcdf(xr.Dataset({"latency": ("row", [1e-3])}), Path(tempfile.mkdtemp()) / "a.nc")
        >>> read_netcdf(file).latency.values
        array([0.001])
    """
    dataset = _plain(dataset)
    for values in dataset.variables.values():
        packed = {"zlib": True, "complevel": 9, "shuffle": True} if values.ndim else {}
        if values.dtype.kind == "U":
            packed |= {"dtype": "S1"}
        elif values.dtype.kind == "f":
            packed |= {"_FillValue": np.array(np.nan, values.dtype)}
        values.encoding = packed
    with replacing(Path(path)) as beside:
        dataset.to_netcdf(beside, engine="netcdf4", format="NETCDF4")
        seal = _SEAL + sha256(beside).encode()
        with open(beside, "ab") as opened:
            opened.write(seal)
    return Path(path)


def read_netcdf(path: Path, *, chunks: Any = None) -> xr.Dataset:
    """Read a dataset. Files of other programs may be read too, without the check of their content.

    Args:
        path: a NetCDF-4 file.
        chunks: sizes by dimension (or "auto") to leave the data on disk as dask arrays; by default all is read.

    Raises:
        IntegrityError: the file is missing, cut short, no NetCDF, or was changed after `write_netcdf` wrote it.
    """
    path = Path(path)
    if path.is_dir():
        raise IntegrityError(f"{path} is a folder; name the NetCDF file in it")
    if not path.is_file():
        raise IntegrityError(f"there is no file {path}")
    if _seal_is_broken(path):
        raise IntegrityError(f"{path} was changed after it was written; take it from its source again")
    try:
        if chunks is not None:
            with warnings.catch_warnings():
                # HDF5 reads whole pieces of its own, a few MB each, whatever was asked for.
                warnings.filterwarnings("ignore", "The specified chunks separate the stored chunks", UserWarning)
                return xr.open_dataset(path, engine="netcdf4", chunks=chunks)
        with xr.open_dataset(path, engine="netcdf4") as opened:
            return _plain(opened.load())
    except Exception as error:  # HDF5 and xarray raise many types on a damaged file
        raise IntegrityError(
            f"{path} cannot be read as NetCDF-4, it may be damaged or cut short ({_line(error)})"
        ) from error


def _seal_is_broken(path: Path) -> bool:
    with open(path, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(size - _SEAL_LENGTH, 0))
        seal = opened.read()
        if not seal.startswith(_SEAL):
            return False
        opened.seek(0)
        taken, left = hashlib.sha256(), size - _SEAL_LENGTH
        while left:
            piece = opened.read(min(left, 1 << 20))
            taken.update(piece)
            left -= len(piece)
        return taken.hexdigest().encode() != seal[len(_SEAL) :]


def write_csv(dataset: xr.Dataset, path: Path) -> Path:
    """Write a dataset as CSV: a line of JSON with attributes, types and dimensions, then a row for every cell.

    Args:
        dataset: whose variables all lie along the same dimensions, or some of them.
        path: the file; gzip where its name ends in .gz.

    Examples:
        >>> import tempfile
        >>> file = write_csv(xr.Dataset({"latency": ("row", [1e-3])}), Path(tempfile.mkdtemp()) / "a.csv")
        >>> read_csv(file).latency.values
        array([0.001])
    """
    dataset = _plain(dataset)
    variables = {
        str(name): {
            "dims": list(values.dims),
            "type": values.dtype.kind + ("" if values.dtype.kind == "U" else str(values.dtype.itemsize)),
            "coordinate": name in dataset.coords,
            "attrs": {key: _json(value) for key, value in values.attrs.items()},
        }
        for name, values in dataset.variables.items()
    }
    about = {"sizes": dict(dataset.sizes), "attrs": {k: _json(v) for k, v in dataset.attrs.items()}}
    cells = xr.broadcast(xr.Dataset({f"column {name}": values for name, values in dataset.variables.items()}))[0]
    dims = tuple(dataset.sizes)
    columns = {name: cells[f"column {name}"].transpose(*dims).to_numpy().ravel() for name in variables}
    # A single is written as the double it is: its own shortest text need not read back through a double.
    widened = {name: column.astype(float) if column.dtype.kind == "f" else column for name, column in columns.items()}
    body = pd.DataFrame(widened).to_csv(index=False, lineterminator="\n", float_format="%.17g")
    about |= {"variables": variables, "sha256": digest(dataset)}
    text = _CSV_START + json.dumps(about, ensure_ascii=False) + "\n" + body
    data = text.encode()
    with replacing(Path(path)) as beside:
        beside.write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)
    return Path(path)


def read_csv(path: Path) -> xr.Dataset:
    """Read back what `write_csv` wrote, exactly.

    Raises:
        IntegrityError: the file is not one that `write_csv` wrote, or was changed since.
    """
    try:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
        first, _, body = text.replace("\r\n", "\n").partition("\n")
        if not first.startswith(_CSV_START):
            raise IntegrityError(f"{path} does not start with '{_CSV_START.strip()}'; import it with the format 'csv'")
        about = json.loads(first.removeprefix(_CSV_START))
        rows = pd.read_csv(io.StringIO(body), dtype=str, keep_default_na=False, na_filter=False)
        dataset = _from_rows(rows, about)
        if about["sha256"] != digest(dataset):
            raise IntegrityError(f"{path} was changed after it was written; write it again")
        return dataset
    except IntegrityError:
        raise
    except Exception as error:  # a damaged file can break any of the steps above
        raise IntegrityError(f"{path} cannot be read as an exported dataset ({_line(error)})") from error


def _from_rows(rows: pd.DataFrame, about: dict[str, Any]) -> xr.Dataset:
    sizes, coords, data = about["sizes"], {}, {}
    for name, said in about["variables"].items():
        full = rows[name].to_numpy(dtype=str).reshape(tuple(sizes.values()))
        # A variable that lacks a dimension was repeated along it: its first entry stands for all.
        cells = full[tuple(slice(None) if dim in said["dims"] else 0 for dim in sizes)]
        order = [dim for dim in sizes if dim in said["dims"]]
        cells = xr.Variable(order, cells).transpose(*said["dims"]).to_numpy()
        if said["type"] == "U":
            values = np.array(cells.tolist(), dtype=str)
        elif said["type"][0] == "f":
            values = np.where(cells == "", "nan", cells).astype(float).astype(said["type"])
        else:
            values = cells.astype(said["type"])
        (coords if said["coordinate"] else data)[name] = (said["dims"], values, said["attrs"])
    return xr.Dataset(data, coords, about["attrs"])


def digest(dataset: xr.Dataset) -> str:
    """A checksum of content alone: names, dimensions, types, numbers, text, attributes.

    Examples:
        >>> digest(xr.Dataset({"a": 1.0}))[:8] == digest(xr.Dataset({"a": 1.0}))[:8]
        True
    """
    taken = hashlib.sha256()

    def take(*words: Any) -> None:
        taken.update(json.dumps(words, sort_keys=True, ensure_ascii=False).encode())

    take({key: _json(value) for key, value in dataset.attrs.items()})
    for name in sorted(dataset.variables, key=str):
        values = dataset[name].variable
        take(str(name), name in dataset.coords, list(values.dims), values.shape, values.dtype.kind)
        take({key: _json(value) for key, value in values.attrs.items()})
        if values.dtype.kind == "U":
            take(values.to_numpy().tolist())
        else:
            taken.update(np.ascontiguousarray(values.to_numpy()).astype(values.dtype.newbyteorder("<")).tobytes())
    return taken.hexdigest()


def _plain(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with text as fixed-width arrays no wider than needed, and no trace of the file it came from."""
    dataset = dataset.drop_encoding().copy()
    for name, values in dataset.variables.items():
        if values.dtype.kind in "OUT":
            attrs, text = values.attrs, np.array(values.to_numpy().astype(str).tolist(), dtype=str)
            is_coordinate = name in dataset.coords
            dataset[name] = (values.dims, text, attrs)
            dataset = dataset.set_coords(name) if is_coordinate else dataset
        elif values.dtype.kind not in "fiu":
            raise FactorGraphError(f"variable {name} holds {values.dtype}; a dataset holds numbers and text only")
    return dataset


def _json(value: Any) -> Any:
    """An attribute's value as NetCDF keeps it: text, a number, or a list of them, where a list of one is the one."""
    plain = np.asarray(value).tolist()
    return plain[0] if isinstance(plain, list) and len(plain) == 1 else plain


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
