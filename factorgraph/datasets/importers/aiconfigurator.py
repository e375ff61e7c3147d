"""The measured kernel tables of aiconfigurator-core: Parquet, latency in ms, `message_size` in elements."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd

from factorgraph.datasets.importers.reading import SourceError, read_bytes
from factorgraph.datasets.importers.rows import REPEATED, Imported, Rows
from factorgraph.errors import FactorGraphError

# Its names of systems, and ours of GPUs.
SYSTEMS = {
    "a100_sxm": "a100-sxm4-80gb",
    "a100_pcie": "a100-pcie-80gb",
    "a30": "a30",
    "l4": "l4",
    "l40s": "l40s",
    "h100_pcie": "h100-pcie",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
    "b200_sxm": "b200",
    "gb200": "gb200",
    "b300_sxm": "b300",
    "gb300": "gb300",
}
_DTYPES = {"bfloat16": "bf16", "half": "fp16", "float16": "fp16", "float": "fp32"}
_ELEMENT_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "int8": 1.0, "fp8": 1.0}


def read(source: Path, facts: dict[str, str], *, table: str | None = None) -> Imported:
    """A kernel table of aiconfigurator-core: GEMM, attention, collectives, MoE, quantisation; Parquet.

    Args:
        source: the file; under systems/data/<system>/<op>/<engine>/<version>/, these are taken from there.
        facts: what else is known.
        table: which table it is, such as "gemm", where the file's name does not say so.

    Raises:
        SourceError: the file is no such table.
    """
    name = table or source.name.removesuffix(".parquet").removesuffix("_perf")
    if name not in _TABLES:
        raise SourceError(f"{source} is not a table that can be imported; the tables are {', '.join(sorted(_TABLES))}")
    rows = Rows(_parquet(source), source)
    rows.require("kernel_source", "latency")
    rows.reject(rows.frame.duplicated(), REPEATED)
    kind, values = _TABLES[name](rows)
    values |= {"latency": rows.numbers("latency", "ms", "s"), "kernel_source": rows.text("kernel_source")}
    if {"power", "power_limit"} <= set(rows.frame):
        columns = {"power": "power", "power_cap": "power_limit"}
        values |= {field: rows.numbers(column, "W", "W", optional=True) for field, column in columns.items()}
        facts = {"power_state": "recorded"} | facts
    said = {"title": f"{name} measured by aiconfigurator-core's collectors", "statistic": "as tabulated by the source"}
    return rows.finish(kind, values, said | _place(source, rows) | facts, title=source.name)


def tables_root() -> Path:
    """The folder of tables of the installed package, which is looked for but not run.

    Raises:
        FactorGraphError: it is not installed.
    """
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or found.origin is None:
        raise FactorGraphError(
            "aiconfigurator-core is not installed; it is the extra 'silicon': pip install 'gpu-factorgraph[silicon]'"
        )
    return Path(found.origin).parent / "systems"


def _parquet(source: Path) -> pd.DataFrame:
    read_bytes(source)  # the plain faults, in the plain words
    try:
        frame = pd.read_parquet(source, engine="pyarrow").reset_index(drop=True)
    except ImportError:
        raise SourceError("reading Parquet needs pyarrow; pip install pyarrow") from None
    except Exception as error:  # pyarrow has its own tree of errors
        raise SourceError(f"{source} cannot be read as Parquet, it may be cut short ({str(error)[:200]})") from None
    frame.index += 1
    return frame


def _place(source: Path, rows: Rows) -> dict[str, str]:
    """What the file's place in the package says; failing that, its own columns."""
    *_, system, _op, engine, version = ("", "", "", "", *source.resolve().parent.parts)
    if system in SYSTEMS:
        return {
            "sku": SYSTEMS[system],
            "engine": engine,
            "engine_version": version,
            "source": f"aiconfigurator-core, systems/data/{system}/{_op}/{engine}/{version}/{source.name}",
            "licence": "Apache-2.0",
        }
    columns = {"framework": "engine", "version": "engine_version", "device": "sku"}
    return {
        fact: ", ".join(sorted({str(cell).lower() for cell in rows.frame[column]}))
        for column, fact in columns.items()
        if column in rows.frame
    } | {"source": source.name}


def _dtype(rows: Rows, column: str) -> np.ndarray:
    rows.require(column)
    return np.array([_DTYPES.get(name, name) for name in rows.text(column)], dtype=object)


def _counts(rows: Rows, **columns: str) -> dict[str, np.ndarray]:
    rows.require(*columns.values())
    return {field: rows.numbers(column, whole=True) for field, column in columns.items()}


def _gemm(rows: Rows) -> tuple[str, dict[str, np.ndarray]]:
    return "gemm", _counts(rows, m="m", n="n", k="k") | {"dtype": _dtype(rows, "gemm_dtype")}


def _attention(rows: Rows) -> tuple[str, dict[str, np.ndarray]]:
    values = _counts(
        rows, batch="batch_size", q_len="isl", q_heads="num_heads", kv_heads="num_key_value_heads", head_dim="head_dim"
    )
    rows.require("step")
    return "attention", values | {
        "kv_len": values["q_len"] + rows.numbers("step", whole=True, zero=True),
        # Older tables know no sliding window.
        "window": rows.numbers("window_size", whole=True, zero=True)
        if "window_size" in rows.frame
        else np.zeros(len(rows.frame)),
        "dtype": _dtype(rows, "attn_dtype"),
        "kv_dtype": _dtype(rows, "kv_cache_dtype"),
    }


def _encoder_attention(rows: Rows) -> tuple[str, dict[str, np.ndarray]]:
    values = _counts(rows, batch="batch_size", q_len="isl", q_heads="num_heads", head_dim="head_dim")
    return "attention", values | {
        "kv_len": values["q_len"],
        "kv_heads": values["q_heads"],
        "causal": np.zeros(len(rows.frame)),
        "dtype": _dtype(rows, "attn_dtype"),
    }


def _collective(rows: Rows) -> tuple[str, dict[str, np.ndarray]]:
    column = "allreduce_dtype" if "allreduce_dtype" in rows.frame else "nccl_dtype"
    dtype = _dtype(rows, column)
    rows.require("op_name")
    size = np.array([_ELEMENT_BYTES.get(name, np.nan) for name in dtype])
    rows.reject(np.isnan(size), f"{column} is none whose size is known")
    values = _counts(rows, ranks="num_gpus", message="message_size")
    return "collective", {
        "ranks": values["ranks"],
        "message_bytes": values["message"] * size,
        "operation": rows.text("op_name"),
        "dtype": dtype,
    }


def _moe(rows: Rows) -> tuple[str, dict[str, np.ndarray]]:
    rows.require("distribution")
    counts = _counts(
        rows,
        tokens="num_tokens",
        hidden="hidden_size",
        intermediate="inter_size",
        top_k="topk",
        experts="num_experts",
        tensor_parallel="moe_tp_size",
        expert_parallel="moe_ep_size",
    )
    return "moe", counts | {"distribution": rows.text("distribution"), "dtype": _dtype(rows, "moe_dtype")}


def _quantise(rows: Rows) -> tuple[str, dict[str, np.ndarray]]:
    rows.require("op_name")
    return "light", _counts(rows, tokens="m", width="k") | {
        "kernel": rows.text("op_name"),
        "dtype": _dtype(rows, "quant_dtype"),
    }


_TABLES = {
    "gemm": _gemm,
    "context_attention": _attention,
    "generation_attention": _attention,
    "encoder_attention": _encoder_attention,
    "custom_allreduce": _collective,
    "nccl": _collective,
    "moe": _moe,
    "computescale": _quantise,
    "scale_matrix": _quantise,
}
