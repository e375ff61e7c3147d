"""A measurement from beginning to end: all cases in random order, each on disk once measured, then a dataset."""

import dataclasses
import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.datasets.files import write_netcdf
from factorgraph.errors import FactorGraphError
from factorgraph.hardware import load_sku
from factorgraph.measuring.cases import Case, cases_of
from factorgraph.measuring.journal import Journal
from factorgraph.measuring.machine import Machine, this_machine
from factorgraph.measuring.sampler import Sampler, Watch, watching
from factorgraph.measuring.tables import as_dataset
from factorgraph.measuring.timing import time_per_call


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long each case is measured: `least` is that of a run in s, `repeats` how many runs."""

    least: float
    repeats: int


QUICK, FULL = Effort(0.02, 5), Effort(0.2, 15)
Progress = Callable[[int, int], None]


def measure(
    kind: str,
    out: str | os.PathLike[str],
    *,
    quick: bool = False,
    sku: str | None = None,
    seed: int = 0,
    resume: bool = False,
    sampler: Sampler | None = None,
    progress: Progress = lambda done, of: None,
) -> xr.Dataset:
    """Measure this machine, and write the dataset.

    Args:
        kind: "gemm", "bandwidth", "light" or "step".
        out: NetCDF file to write. Until it is whole, what was measured is in a file of the same name and `.partial`.
        quick: fewer and smaller cases, under a minute on a CPU.
        sku: card of the device; without one the dataset carries the device's own name.
        seed: of the order and of the operands.
        resume: go on from an interrupted run of the same machine and settings.
        sampler: reads the device's clock and power meanwhile.
        progress: told how many cases are done, of how many.

    Returns:
        The dataset as written, with one entry a case along `row`.

    Raises:
        UnknownNameError: there is no such kind or card.
        FactorGraphError: the file cannot be written, or the interrupted run was another.
    """
    out = Path(out).expanduser()
    sku_name = None if sku is None else load_sku(sku).name
    machine = this_machine(sku)
    cases = cases_of(kind, machine, quick=quick)
    return measure_cases(
        kind,
        cases,
        machine,
        out,
        QUICK if quick else FULL,
        sku=sku_name,
        seed=seed,
        resume=resume,
        sampler=sampler,
        progress=progress,
    )


def measure_cases(
    kind: str,
    cases: list[Case],
    machine: Machine,
    out: Path,
    effort: Effort,
    *,
    sku: str | None = None,
    seed: int = 0,
    resume: bool = False,
    sampler: Sampler | None = None,
    progress: Progress = lambda done, of: None,
    clock: Callable[[], float] = time.perf_counter,
) -> xr.Dataset:
    """As `measure`, for cases of one's own and by any clock, in s."""
    settings = {"kind": kind, "cases": [case.name for case in cases], "effort": dataclasses.asdict(effort)}
    sampled = sampler is not None
    about = {"machine": dataclasses.asdict(machine), "settings": settings, "seed": seed, "sku": sku, "sampled": sampled}
    journal = Journal(out, about, resume=resume)
    try:
        order = np.random.default_rng(seed).permutation(len(cases))
        for done, case in enumerate(cases[i] for i in order):
            progress(done, len(cases))
            if case.name not in journal.rows:
                journal.add(case.name, _measured(kind, case, effort, seed, sampler, clock))
        progress(len(cases), len(cases))
        rows = [journal.rows[case.name] for case in cases]
        dataset = as_dataset(kind, rows, _facts(kind, machine, effort, seed, sku))
        try:
            write_netcdf(dataset, out)
        except (OSError, RuntimeError) as error:  # HDF5 has both for a full disk
            raise FactorGraphError(f"{out} cannot be written ({error}); make room and add --resume") from None
    except BaseException:
        journal.close()
        raise
    journal.remove()
    return dataset


def _measured(
    kind: str, case: Case, effort: Effort, seed: int, sampler: Sampler | None, clock: Callable[[], float]
) -> dict[str, Any]:
    run = case.prepare(np.random.default_rng(seed))
    watch = Watch()
    timing = time_per_call(
        run,
        clock=clock,
        calls_per_round=case.calls_per_round,
        least=effort.least,
        repeats=effort.repeats,
        during=watching(sampler, watch),
    )
    row = case.row | {"latency": timing.seconds, "spread": timing.spread, "calls": timing.calls} | watch.summary()
    if kind == "bandwidth":
        row["bandwidth"] = case.row["volume"] / timing.seconds
    return row


def _facts(kind: str, machine: Machine, effort: Effort, seed: int, sku: str | None) -> dict[str, Any]:
    return {
        "title": f"{kind} measured on {machine.device}",
        "sku": sku or machine.label,
        "engine": "jax",
        "engine_version": machine.jax_version,
        "kernel_source": f"XLA, {machine.backend}",
        "dtype": "fp32" if kind == "bandwidth" else machine.dtype,
        "statistic": f"median of {effort.repeats}; spread is the distance of the quartiles over it",
        "source": f"factorgraph measure {kind}",
        "date": datetime.date.today().isoformat(),
        "device": machine.device,
        "backend": machine.backend,
        "cores": float(machine.cores),
        "cache": f"{machine.cache:.0f} B ({machine.cache_source})",
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"),
        "seed": float(seed),
    }
