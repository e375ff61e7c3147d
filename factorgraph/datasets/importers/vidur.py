"""Vidur's profiles: CSV, times in ms in columns `time_stats.<operation>.median`, one row a setting.

A profile of a layer holds GEMMs and light kernels in one row, so that `part` says which of them is wanted. Times are
per GPU: widths and heads are divided by the number of tensor-parallel workers. The time of an operation contains the
profiler's own dispatch overhead.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from factorgraph.datasets.importers.reading import SourceError, read_table
from factorgraph.datasets.importers.rows import Imported, Rows

_MEDIAN = re.compile(r"time_stats\.(\w+)\.median")
_HOST_MEDIAN = re.compile(r"(\w+)_median", re.IGNORECASE)
_FACTS = {"dtype": "fp16", "cache_state": "warm", "statistic": "median, the profiler's dispatch overhead included"}
_GEMMS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
_ATTENTION = ("attn_prefill", "attn_decode")


def read(source: Path, facts: dict[str, str], *, part: str | None = None) -> Imported:
    """A profile of Vidur: mlp.csv, attention.csv, cpu_overheads.csv, all_reduce.csv or send_recv.csv.

    Args:
        source: the file.
        facts: what else is known, such as the GPU.
        part: of mlp.csv "gemm" or "light"; of attention.csv "attention" or "light"; the first unless given.

    Raises:
        SourceError: the columns are none of these profiles'.
    """
    table = read_table(source)
    columns = set(table.frame)
    for needs, parts in _PROFILES:
        if needs <= columns:
            chosen = part or next(iter(parts))
            if chosen not in parts:
                raise SourceError(f"{source} has no part '{chosen}'; it has {', '.join(parts)}")
            return parts[chosen](Rows.of_table(table, source), {"source": source.name} | facts)
    known = "; ".join(", ".join(sorted(needs)) for needs, _ in _PROFILES)
    raise SourceError(f"{source} has the columns of no Vidur profile, which are: {known}")


def _melted(rows: Rows, medians: dict[str, str]) -> Rows:
    """A row for every operation of every row, its time in the column `time`."""
    if not medians:
        raise SourceError(
            f"{rows.where} has no column of medians that can be used, such as time_stats.<operation>.median"
        )
    labels = [name for name in rows.frame if not name.startswith("time_stats.") and name not in medians.values()]
    parts = [
        rows.frame[labels].assign(operation=operation, time=rows.frame[column], reason=rows.reasons)
        for operation, column in medians.items()
    ]
    long = pd.concat(parts)
    melted = Rows(long.drop(columns="reason"), rows.where, notes=rows.notes)
    melted.reasons = np.array(long["reason"], dtype=object)
    return melted


def _medians(rows: Rows, wanted: Callable[[str], bool]) -> dict[str, str]:
    found = {match[1]: match[0] for name in rows.frame if (match := _MEDIAN.fullmatch(name))}
    return {operation: column for operation, column in found.items() if wanted(operation)}


def _gemm(rows: Rows, facts: dict[str, str]) -> Imported:
    rows.require("n_head", "n_kv_head", "n_embd", "n_expanded_embd", "use_gated_mlp")
    rows = _melted(rows, _medians(rows, lambda operation: operation in _GEMMS))
    tokens, workers = _counts(rows, "num_tokens", "num_tensor_parallel_workers")
    heads, kv_heads, width, inner = _counts(rows, "n_head", "n_kv_head", "n_embd", "n_expanded_embd")
    gated = np.where(np.char.lower(rows.text("use_gated_mlp").astype(str)) == "true", 2.0, 1.0)
    sizes = {
        "attn_pre_proj": (width * (1.0 + 2.0 * kv_heads / heads) / workers, width),
        "attn_post_proj": (width, width / workers),
        "mlp_up_proj": (gated * inner / workers, width),
        "mlp_down_proj": (width, inner / workers),
    }
    operation = rows.text("operation")
    n, k = (np.select([operation == name for name in sizes], [sizes[name][i] for name in sizes]) for i in (0, 1))
    rows.reject((n % 1 != 0) | (k % 1 != 0), "cannot be split over so many workers")
    values = {
        "m": tokens,
        "n": n,
        "k": k,
        "latency": _time(rows),
        "kernel_source": operation,
        "tensor_parallel": workers,
    }
    return rows.finish("gemm", values, _FACTS | facts, title="GEMMs profiled by Vidur")


def _light(rows: Rows, facts: dict[str, str]) -> Imported:
    rows = _melted(rows, _medians(rows, lambda operation: operation not in _GEMMS + _ATTENTION))
    tokens = "num_tokens" if "num_tokens" in rows.frame else "batch_size"
    values = {"kernel": rows.text("operation"), "latency": _time(rows)}
    values |= dict(zip(("tokens", "width"), _counts(rows, tokens, "n_embd"), strict=True))
    return rows.finish("light", values, _FACTS | facts, title="Light kernels profiled by Vidur")


def _attention(rows: Rows, facts: dict[str, str]) -> Imported:
    rows.require("n_embd", "n_q_head", "n_kv_head", "num_tensor_parallel_workers", "prefill_chunk_size", "is_prefill")
    rows = _melted(rows, _medians(rows, lambda operation: operation in _ATTENTION))
    prefill = np.char.lower(rows.text("is_prefill").astype(str)) == "true"
    # A row has the time of one of the two, and the cells of the other are empty by design, not by fault.
    mine = (rows.text("operation") == "attn_prefill") == prefill
    rows = _only(rows, mine)
    prefill = prefill[mine]
    batch, width, heads, kv_heads, workers = _counts(
        rows, "batch_size", "n_embd", "n_q_head", "n_kv_head", "num_tensor_parallel_workers"
    )
    chunk, cached = (rows.numbers(name, whole=True, zero=True) for name in ("prefill_chunk_size", "kv_cache_size"))
    q_len = np.where(prefill, chunk, 1.0)
    rows.reject(q_len <= 0, "prefill_chunk_size is zero for a prefill")
    sizes = {"q_heads": heads / workers, "kv_heads": np.maximum(kv_heads / workers, 1.0), "head_dim": width / heads}
    for name, size in sizes.items():
        rows.reject(size % 1 != 0, f"{name} is not a whole number")
    values = {"batch": batch, "q_len": q_len, "kv_len": cached + q_len, "latency": _time(rows)} | sizes
    if "attention_backend" in rows.frame:
        values["kernel_source"] = rows.text("attention_backend")
    return rows.finish("attention", values, _FACTS | facts, title="Attention profiled by Vidur")


def _only(rows: Rows, mask: np.ndarray) -> Rows:
    chosen = Rows(rows.frame.iloc[np.flatnonzero(mask)], rows.where, notes=rows.notes)
    chosen.reasons = rows.reasons[mask]
    return chosen


def _collective(rows: Rows, facts: dict[str, str]) -> Imported:
    rows = _melted(rows, _medians(rows, lambda operation: True))
    values = {
        "operation": rows.text("collective"),
        "ranks": rows.numbers("num_workers", whole=True),
        "message_bytes": rows.numbers("size", "B", "B"),
        "latency": _time(rows),
    }
    return rows.finish("collective", values, _FACTS | facts, title="Collectives profiled by Vidur")


def _host(rows: Rows, facts: dict[str, str]) -> Imported:
    medians = {match[1].lower(): match[0] for name in rows.frame if (match := _HOST_MEDIAN.fullmatch(name))}
    rows = _melted(rows, medians)
    values = {
        "operation": rows.text("operation"),
        "model": rows.text("model_name"),
        "batch": rows.numbers("batch_size", whole=True),
        "tensor_parallel": rows.numbers("tensor_parallel_degree", whole=True),
        "latency": _time(rows),
    }
    said = {"statistic": "median over steps; the profiler synchronises the GPU, whose waits are inside"}
    return rows.finish("step", values, said | facts, title="Host time of a step profiled by Vidur")


def _counts(rows: Rows, *columns: str) -> tuple[np.ndarray, ...]:
    rows.require(*columns)
    return tuple(rows.numbers(column, whole=True) for column in columns)


def _time(rows: Rows) -> np.ndarray:
    return rows.numbers("time", "ms", "s")


# By the columns that tell them apart.
_PROFILES: tuple[tuple[set[str], dict[str, Callable[[Rows, dict[str, str]], Imported]]], ...] = (
    ({"collective", "size", "num_workers"}, {"collective": _collective}),
    ({"batch_size", "kv_cache_size", "n_embd"}, {"attention": _attention, "light": _light}),
    ({"num_tokens", "num_tensor_parallel_workers", "n_embd"}, {"gemm": _gemm, "light": _light}),
    ({"model_name", "batch_size", "tensor_parallel_degree"}, {"step": _host}),
)
