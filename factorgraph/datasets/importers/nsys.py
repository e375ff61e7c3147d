"""Nsight Systems' summary of GPU kernels, `nsys stats --report cuda_gpu_kern_sum --format csv`."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from factorgraph.datasets.importers.reading import SourceError, read_table
from factorgraph.datasets.importers.rows import Imported, Rows

# A shape that somebody wrote into a kernel's name; tiles such as 128x128x64 are no shape.
_SHAPE = r"(?i)(?<![a-z])m[=_:]?(\d+)\W{0,2}_?n[=_:]?(\d+)\W{0,2}_?k[=_:]?(\d+)"
_MEDIAN = re.compile(r"Med \((ns|us|ms|s)\)|Median \((ns|us|ms|s)\)")
_AVERAGE = re.compile(r"Avg \((ns|us|ms|s)\)|Average \((ns|us|ms|s)\)")


def read(source: Path, facts: dict[str, str], *, part: str = "light") -> Imported:
    """The kernel summary of Nsight Systems as CSV; lines before the header are passed over.

    Args:
        source: the file.
        facts: what else is known.
        part: "light" for every kernel by its name, or "gemm" for those whose name states m, n and k.

    Raises:
        SourceError: the file is no such summary.
    """
    if part not in ("light", "gemm"):
        raise SourceError(f"a kernel summary has no part '{part}'; it has light, gemm")
    rows = Rows.of_table(read_table(source, header_has="Instances"), source)
    rows.require("Name", "Instances")
    column, unit, statistic = _time_column(rows)
    name = rows.text("Name")
    values = {"latency": rows.numbers(column, unit, "s"), "calls": rows.numbers("Instances", whole=True)}
    said = {"statistic": f"{statistic} of the calls", "source": source.name}
    if part == "light":
        return rows.finish("light", values | {"kernel": name}, said | facts, title="Kernels seen by Nsight Systems")
    shape = pd.Series(name).str.extract(_SHAPE).astype(float).to_numpy()
    rows.reject(np.isnan(shape).any(axis=1), "the name states no m, n and k")
    values |= {size: shape[:, i] for i, size in enumerate(("m", "n", "k"))} | {"kernel_source": name}
    return rows.finish("gemm", values, said | facts, title="GEMMs seen by Nsight Systems")


def _time_column(rows: Rows) -> tuple[str, str, str]:
    for pattern, statistic in ((_MEDIAN, "median"), (_AVERAGE, "mean")):
        for column in rows.frame:
            if match := pattern.fullmatch(str(column)):
                return match[0], match[1] or match[2], statistic
    raise SourceError(f"{rows.where} lacks the column Med (ns) or Avg (ns); it has {', '.join(rows.frame)}")
