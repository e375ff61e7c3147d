"""Results on disk: NetCDF-4, written beside and renamed, so that a file is either whole or the old one."""

import os
from pathlib import Path

import xarray as xr

from factorgraph.errors import FactorGraphError


def write(dataset: xr.Dataset, path: str | os.PathLike) -> Path:
    """Write a result as NetCDF-4.

    Args:
        dataset: from `predict` and its like.
        path: the file; its folder is made if need be. An old file stays until the new one is whole.

    Raises:
        FactorGraphError: the path is a folder.

    Examples:
        >>> import tempfile, xarray
        >>> folder = tempfile.mkdtemp()
        >>> write(xarray.Dataset({"t_step": ((), 0.01, {"units": "s"})}), f"{folder}/out.nc").name
        'out.nc'
    """
    path = Path(path)
    if path.is_dir():
        raise FactorGraphError(f"{path} is a folder; name a file such as {path / 'result.nc'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        dataset.to_netcdf(beside, engine="netcdf4", format="NETCDF4")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def read(path: str | os.PathLike) -> xr.Dataset:
    """Read a result back, whole, into memory.

    Raises:
        FactorGraphError: there is no such file, or it is no NetCDF.
    """
    path = Path(path)
    if not path.is_file():
        raise FactorGraphError(f"there is no result file {path}")
    try:
        with xr.open_dataset(path, engine="netcdf4") as opened:
            return opened.load()
    except (OSError, ValueError) as error:
        raise FactorGraphError(f"{path} cannot be read as NetCDF-4; it may be cut short ({error})") from error
