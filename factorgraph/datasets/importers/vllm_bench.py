"""The result files of vLLM's benchmarks: `vllm bench serve` (or `benchmark_serving.py`) and `vllm bench latency`."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from factorgraph.datasets.importers.reading import SourceError, read_json, read_text
from factorgraph.datasets.importers.rows import Imported, Rows

_METRICS = {
    "ttft": ("median_ttft_ms", "ms", "s"),
    "tpot": ("median_tpot_ms", "ms", "s"),
    "request_rate": ("request_throughput", "1/s", "1/s"),
    "token_rate": ("output_throughput", "1/s", "1/s"),
}


def read(
    source: Path,
    facts: dict[str, str],
    *,
    batch: int | None = None,
    input_len: int | None = None,
    output_len: int | None = None,
) -> Imported:
    """A result of `vllm bench serve` (one JSON object, a list, or one a line) or of `vllm bench latency`.

    Args:
        source: the JSON file.
        facts: what else is known.
        batch, input_len, output_len: of a latency benchmark, whose result does not state them.

    Raises:
        SourceError: the file is no such result.
    """
    records = _records(source)
    facts = {"engine": "vllm", "source": source.name} | facts
    if all("latencies" in record and "avg_latency" in record for record in records):
        return _latency(source, facts, records, {"batch": batch, "input_len": input_len, "output_len": output_len})
    return _serving(source, facts, records)


def _records(source: Path) -> list[dict[str, Any]]:
    try:
        content = read_json(source)
    except SourceError:
        lines = [line for line in read_text(source).split("\n") if line.strip()]
        try:
            content = [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            raise SourceError(f"{source} is neither JSON nor JSON lines; it may be cut short") from None
    records = content if isinstance(content, list) else [content]
    if not records or not all(isinstance(record, dict) for record in records):
        raise SourceError(f"{source} holds no result of a vLLM benchmark, which is a JSON object")
    return records


def _serving(source: Path, facts: dict[str, str], records: list[dict[str, Any]]) -> Imported:
    rows = Rows.of_records(records, source)
    rows.require("completed")
    present = {name: said for name, said in _METRICS.items() if said[0] in rows.frame}
    if not present:
        raise SourceError(f"{source} has none of {', '.join(said[0] for said in _METRICS.values())}")
    rows.reject(rows.frame.astype(str).duplicated(), "repeats an earlier result exactly")
    completed = rows.numbers("completed", whole=True)
    values = {name: rows.numbers(*said, optional=True) for name, said in present.items()}
    nothing = np.all([np.isnan(column) for column in values.values()], axis=0)
    rows.reject(nothing, "holds no number of a result")
    for name, column in {"input_len": "total_input_tokens", "output_len": "total_output_tokens"}.items():
        if column in rows.frame:
            values[name] = np.maximum(np.rint(rows.numbers(column, whole=True) / completed), 1.0)
    if "max_concurrency" in rows.frame:
        values["concurrency"] = np.nan_to_num(rows.numbers("max_concurrency", whole=True, optional=True))
    values["model"] = _model(rows)
    if "date" in rows.frame:
        values["date"] = np.array([_day(word) for word in rows.text("date", absent="")], dtype=object)
    said = {"statistic": "median over requests; lengths are means"}
    return rows.finish("serving", values, said | facts, title="A load served and measured by vLLM's benchmark")


def _model(rows: Rows) -> np.ndarray:
    for column in ("model_id", "model"):
        if column in rows.frame:
            return rows.text(column, absent="unknown")
    return np.full(len(rows.frame), "unknown", dtype=object)


def _day(stamp: str) -> str:
    match = re.match(r"(\d{4})-?(\d{2})-?(\d{2})", stamp)
    return "-".join(match.groups()) if match else "unknown"


def _latency(
    source: Path, facts: dict[str, str], records: list[dict[str, Any]], given: dict[str, int | None]
) -> Imported:
    if missing := [name for name, value in given.items() if value is None]:
        raise SourceError(f"{source} does not state {', '.join(missing)}; give them as options")
    repeats = [record["latencies"] for record in records]
    if not all(isinstance(times, list) and times for times in repeats):
        raise SourceError(f"{source} holds no list of latencies")
    rows = Rows.of_records(
        [{**given, "latency": float(np.median(np.array(times, dtype=float)))} for times in repeats], source
    )
    values = {name: rows.numbers(name, whole=True) for name in given} | {"latency": rows.numbers("latency", "s", "s")}
    said = {"statistic": f"median of {len(repeats[0])}; prompt and output tokens together"}
    return rows.finish("step", values, said | facts, title="A batch timed by vLLM's benchmark")
