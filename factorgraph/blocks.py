"""Working off numbered blocks anywhere, keeping each as soon as it is done, and putting them together at the end."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from factorgraph.errors import FactorGraphError

if TYPE_CHECKING:
    from factorgraph.sweep import Sweep

# How long to wait for a scheduler to answer.
_PATIENCE_S = 10

Keep = Callable[[int, Mapping[str, np.ndarray]], None]


def run_blocks(
    sweep: "Sweep", numbers: Iterable[int], keep: Keep, *, on: Any, workers: int | None, progress: bool
) -> None:
    """Compute blocks on threads, processes or a cluster, and hand each to `keep` here, in the order they finish.

    Only a few blocks are under way at once, so that memory does not grow with the grid.
    """
    todo = list(numbers)
    with _executor(on, workers) as (executor, width), _bar(sweep, todo, progress) as advance:
        waiting, running = iter(todo), {}
        try:
            while True:
                while len(running) < 2 * width and (number := next(waiting, None)) is not None:
                    running[executor.submit(sweep.compute_block, number)] = number
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number = running.pop(future)
                    keep(number, _result(future))
                    advance(number)
        finally:
            for future in running:
                future.cancel()


def _result(future: Any) -> Mapping[str, np.ndarray]:
    try:
        return future.result()
    except FactorGraphError:
        raise
    except Exception as error:
        if type(error).__name__ in ("KilledWorker", "BrokenProcessPool"):
            raise FactorGraphError(
                "workers keep dying; what is finished is kept, so look at their logs and memory and run this again"
            ) from error
        raise


@contextlib.contextmanager
def _executor(on: Any, workers: int | None) -> Iterator[tuple[Executor, int]]:
    count = workers or os.cpu_count() or 1
    if on == "threads":
        with ThreadPoolExecutor(count) as pool:
            yield pool, count
    elif on == "processes":
        # JAX runs threads of its own, which a forked child would find in no usable state.
        with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
            yield pool, count
    elif isinstance(on, str) and "://" not in on:
        raise FactorGraphError(f"on='{on}' is no place to compute; give 'threads', 'processes' or 'tcp://host:port'")
    else:
        with _client(on) as client:
            # Told apart by number, never by content: a block is computed because it is missing.
            yield client.get_executor(pure=False), max(1, sum(client.nthreads().values()))


@contextlib.contextmanager
def _client(on: Any) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise FactorGraphError("a cluster needs dask; install gpu-factorgraph[distributed]") from None
    if not isinstance(on, str):
        yield on
        return
    try:
        client = Client(on, timeout=_PATIENCE_S)
    except (OSError, ValueError) as error:
        raise FactorGraphError(f"no dask scheduler answers at {on}; start one with 'dask scheduler'") from error
    with client:
        yield client


@contextlib.contextmanager
def _bar(sweep: "Sweep", numbers: list[int], shown: bool) -> Iterator[Callable[[int], None]]:
    """Points done, points a second and time left."""
    if not shown:
        yield lambda number: None
        return
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:,.0f} points/s" if task.speed else "")

    def size(number: int) -> int:
        return int(np.prod([part.stop - part.start for part in sweep.blocks[number]]))

    count = TextColumn("{task.completed:,.0f} of {task.total:,.0f} points")
    columns = (count, BarColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        # What an earlier run finished counts as done, not as speed.
        task = bar.add_task("sweep", total=sweep.points, completed=sweep.points - sum(map(size, numbers)))
        yield lambda number: bar.advance(task, size(number))


class Parts:
    """Finished blocks of one sweep on disk, each a file that is either whole or not there."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def open(cls, path: Path, fingerprint: str) -> "Parts":
        """The folder for the parts of a file, new or of the same sweep begun earlier.

        Raises:
            FactorGraphError: it holds parts of another sweep.
        """
        folder = path.with_name(f".{path.name}.parts")
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / "fingerprint"
        if not mark.exists():
            _write_whole(mark, lambda file: file.write(fingerprint.encode()))
        if mark.read_text() != fingerprint:
            raise FactorGraphError(
                f"{folder} holds the beginning of another sweep; choose another file name, or delete that folder"
            )
        return cls(folder)

    def finished(self) -> set[int]:
        return {int(file.stem) for file in self.folder.glob("*.npz")}

    def keep(self, number: int, block: Mapping[str, np.ndarray]) -> None:
        _write_whole(self.folder / f"{number}.npz", lambda file: np.savez(file, allow_pickle=False, **block))

    def read(self, number: int) -> dict[str, np.ndarray]:
        with np.load(self.folder / f"{number}.npz") as block:
            return dict(block)

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def _write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    # The stem of a part is its number, so an unfinished one must not end like one.
    beside = path.with_name(path.name + ".unfinished")
    with beside.open("wb") as file:
        write(file)
    os.replace(beside, path)


def assemble(sweep: "Sweep", parts: Parts, path: Path) -> None:
    """Put all blocks into one file, one at a time, and let go of the parts."""
    whole = parts.folder / f"whole{path.suffix}"
    if path.suffix == ".zarr":
        _to_zarr(sweep, parts, whole)
        if path.exists():
            shutil.rmtree(path)
    else:
        _to_netcdf(sweep, parts, whole)
    os.replace(whole, path)
    parts.remove()


def _to_netcdf(sweep: "Sweep", parts: Parts, path: Path) -> None:
    import netCDF4

    sweep.frame().to_netcdf(path, engine="netcdf4", format="NETCDF4")
    with netCDF4.Dataset(path, "a") as file:
        chunks = sweep.block_shape or None
        variables = {n: file.createVariable(n, "f4", tuple(sweep.coords), chunksizes=chunks) for n in sweep.outputs}
        for name, variable in variables.items():
            variable.setncatts(sweep.meaning(name))
        for number, where in enumerate(sweep.blocks):
            for name, values in parts.read(number).items():
                variables[name][where] = values


def _to_zarr(sweep: "Sweep", parts: Parts, path: Path) -> None:
    try:
        import zarr
    except ImportError:
        raise FactorGraphError("writing Zarr needs zarr; install gpu-factorgraph[distributed]") from None
    # Format 2: format 3 has no settled encoding for the names of cards and models yet.
    sweep.frame().to_zarr(path, mode="w", zarr_format=2, consolidated=False)
    group: Any = zarr.open_group(path, mode="a")
    for name in sweep.outputs:
        group.create_array(
            name,
            shape=tuple(sweep.sizes.values()),
            chunks=sweep.block_shape,
            dtype="f4",
            fill_value=float("nan"),
            attributes={**sweep.meaning(name), "_ARRAY_DIMENSIONS": list(sweep.coords)},
        )
    for number, where in enumerate(sweep.blocks):
        for name, values in parts.read(number).items():
            group[name][where] = values
    zarr.consolidate_metadata(path)
