"""Chrome traces of the PyTorch profiler, `export_chrome_trace`: kernels with durations in µs, operators with shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from factorgraph.datasets.importers.reading import SourceError, read_json
from factorgraph.datasets.importers.rows import Imported, Rows

# Which inputs of an operator are the two matrices.
_GEMMS = {"aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::_scaled_mm": (0, 1)}
_DTYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "c10::Float8_e4m3fn": "fp8"}


def read(source: Path, facts: dict[str, str], *, part: str = "gemm") -> Imported:
    """A trace of the PyTorch profiler (record_shapes=True for GEMM shapes), plain or gzip.

    Args:
        source: the JSON file.
        facts: what else is known.
        part: "gemm" for matrix products by shape, or "light" for all other kernels by name.

    Raises:
        SourceError: the file is no such trace, or holds no kernel of that part.
    """
    if part not in ("gemm", "light"):
        raise SourceError(f"a trace has no part '{part}'; it has gemm, light")
    content = read_json(source)
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise SourceError(f"{source} is no trace; it has no list traceEvents")
    events = [event for event in events if isinstance(event, dict) and isinstance(event.get("args"), dict)]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    if not kernels:
        raise SourceError(f"{source} holds no kernel; profile with ProfilerActivity.CUDA")
    operators = {
        event["args"].get("External id"): event
        for event in events
        if event.get("cat") == "cpu_op" and event.get("name") in _GEMMS
    }
    of_products = [kernel for kernel in kernels if kernel["args"].get("External id") in operators]
    if part == "gemm":
        calls = [_product(kernel, operators[kernel["args"]["External id"]]) for kernel in of_products]
    else:
        products = {id(kernel) for kernel in of_products}
        calls = [_kernel(kernel) for kernel in kernels if id(kernel) not in products]
    if not calls:
        mend = "profile with record_shapes=True" if part == "gemm" else "ask for the part gemm"
        raise SourceError(f"{source} holds no kernel of the part {part}; {mend}")
    labels = ("m", "n", "k", "dtype") if part == "gemm" else ("kernel",)
    return _by_label(Rows.of_records(calls, source), labels, {"source": source.name, "engine": "pytorch"} | facts)


def _product(kernel: dict[str, Any], operator: dict[str, Any]) -> dict[str, Any]:
    said = _kernel(kernel) | {"call": operator["args"]["External id"]}
    first, second = _GEMMS[operator["name"]]
    try:
        (m, k), (inner, n) = operator["args"]["Input Dims"][first], operator["args"]["Input Dims"][second]
        dtype = operator["args"]["Input type"][first]
    except (TypeError, ValueError, IndexError, KeyError):
        return said
    return said | {"m": m, "n": n, "k": k, "dtype": _DTYPES.get(dtype, str(dtype))} if inner == k else said


def _kernel(kernel: dict[str, Any]) -> dict[str, Any]:
    return {"dur": kernel.get("dur"), "kernel": str(kernel.get("name") or "unknown")}


def _by_label(rows: Rows, labels: tuple[str, ...], facts: dict[str, str]) -> Imported:
    """Calls with the same labels as one row: their median time, and how many they are."""
    if "m" in labels and "m" not in rows.frame:
        raise SourceError(f"{rows.where}: no matrix product states its shape; profile with record_shapes=True")
    if "m" in labels:
        rows.reject(rows.frame["m"].isna(), "its operator states no shape")
    rows.require("dur")
    frame = rows.frame.assign(time=rows.numbers("dur", "us", "s"))
    kept = frame.iloc[np.flatnonzero(rows.kept)]
    if "call" in frame:
        # One product may take several kernels, such as split-K and its reduction.
        kept = kept.groupby(["call", *labels], sort=False)["time"].sum().reset_index()
    grouped = kept.groupby(list(labels), sort=False)["time"].agg(latency="median", calls="size").reset_index()
    table = Rows(grouped, rows.where)
    values = {name: table.text(name) for name in ("dtype", "kernel") if name in labels}
    values |= {name: table.numbers(name, whole=True) for name in ("m", "n", "k") if name in labels}
    values |= {"latency": table.numbers("latency", "s", "s"), "calls": table.numbers("calls", whole=True)}
    kind = "gemm" if "m" in labels else "light"
    imported = table.finish(kind, values, {"statistic": "median of the calls"} | facts, title="A PyTorch trace")
    return Imported(imported.dataset, pd.concat([rows.rejected(), imported.rejected]))
