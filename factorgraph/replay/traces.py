"""Requests with their arrival times: made from arrays, or read from the common public formats of trace files."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.datasets.importers.reading import SourceError, read_table, read_text
from factorgraph.datasets.importers.rows import Rows
from factorgraph.errors import FactorGraphError

# Later than this, or longer, is a mistake; and until then times are told apart to a tenth of a microsecond.
_LATEST = 1e9
_LONGEST = 1e9
_UNITS = {"arrival": "s", "input_tokens": "1", "output_tokens": "1"}


@dataclasses.dataclass(frozen=True)
class TraceFormat:
    """A layout of trace files, known by its columns.

    Attributes:
        name: what it is called.
        arrival: the column of arrival times; None where requests have none.
        unit: of that column: "s", "ms", or "date" for dates with times of day.
        input_tokens, output_tokens: the columns of token counts.
    """

    name: str
    arrival: str | None
    unit: str
    input_tokens: str
    output_tokens: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.arrival, self.input_tokens, self.output_tokens) if name is not None)


# The first whose columns are all there is taken, so one without arrival times stands behind those with them.
FORMATS = (
    # github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and AzureLLMInferenceDataset2024.md
    TraceFormat("Azure LLM inference trace", "TIMESTAMP", "date", "ContextTokens", "GeneratedTokens"),
    # github.com/HPMLL/BurstGPT; its failed requests have 0 response tokens
    TraceFormat("BurstGPT", "Timestamp", "s", "Request tokens", "Response tokens"),
    # github.com/kvcache-ai/Mooncake, FAST25-release/traces
    TraceFormat("Mooncake", "timestamp", "ms", "input_length", "output_length"),
    TraceFormat("plain", "arrival", "s", "input_tokens", "output_tokens"),
    TraceFormat("plain", "arrival", "s", "input", "output"),
    TraceFormat("lengths with arrivals", "arrival", "s", "prompt_len", "output_len"),
    TraceFormat("lengths", None, "s", "prompt_len", "output_len"),
)


def make_requests(arrival: Any, input_tokens: Any, output_tokens: Any) -> xr.Dataset:
    """Requests from arrays.

    Args:
        arrival: when each is sent, in s, in any order, shape (requests,).
        input_tokens, output_tokens: of each, whole numbers of 1 or more; of that shape, or one number for all.

    Returns:
        A dataset of the three along `request`.

    Raises:
        FactorGraphError: there are no requests, or one of the numbers cannot be.

    Examples:
        >>> make_requests([0.0, 0.5], 512, [100, 200]).output_tokens.values
        array([100, 200])
    """
    try:
        columns = [np.asarray(column, float) for column in (arrival, input_tokens, output_tokens)]
        columns = np.broadcast_arrays(*columns)
    except (TypeError, ValueError) as error:
        raise FactorGraphError(f"requests need numbers, as many of each kind or one for all ({error})") from None
    if columns[0].ndim != 1:
        raise FactorGraphError(f"requests need one list of arrival times; theirs has shape {columns[0].shape}")
    return check_requests(xr.Dataset({n: ("request", c) for n, c in zip(_UNITS, columns, strict=True)}))


def check_requests(requests: xr.Dataset) -> xr.Dataset:
    """The requests of a dataset, without anything else, once their numbers are known to be possible.

    Raises:
        FactorGraphError: a variable is missing, there are no requests, or a number cannot be; the message names it.
    """
    for name in _UNITS:
        if name not in requests or requests[name].dims != ("request",):
            raise FactorGraphError(f"requests need '{name}' along the dimension 'request'; see make_requests")
    if not requests.sizes["request"]:
        raise FactorGraphError("there are no requests")
    arrival, *tokens = (requests[name].values for name in _UNITS)
    # The negations catch NaN too.
    if arrival.dtype.kind not in "iuf" or not ((arrival >= 0) & (arrival <= _LATEST)).all():
        raise FactorGraphError(
            "an arrival time is negative, above 10^9 s or no number; count from the first arrival on"
        )
    for name, counts in zip(("input_tokens", "output_tokens"), tokens, strict=True):
        if counts.dtype.kind not in "iuf":
            raise FactorGraphError(f"{name} holds {counts.dtype}; it must hold whole numbers")
        if (bad := np.flatnonzero(~((counts >= 1) & (counts <= _LONGEST) & (counts % 1 == 0)))).size:
            raise FactorGraphError(
                f"{name} of request {bad[0]} is {counts[bad[0]]:g}; it must be a whole number from 1 to 10^9"
            )
    columns = {"arrival": arrival.astype(float)}
    columns |= {name: counts.astype(np.int64) for name, counts in zip(list(_UNITS)[1:], tokens, strict=True)}
    return xr.Dataset(
        {name: ("request", values, {"units": _UNITS[name]}) for name, values in columns.items()},
        attrs=requests.attrs,
    )


def load_trace(path: str | os.PathLike) -> xr.Dataset:
    """Read the arrivals of a trace file; its format is known by its columns.

    Formats: the Azure LLM inference traces (CSV with TIMESTAMP, ContextTokens, GeneratedTokens), BurstGPT (CSV with
    Timestamp, Request tokens, Response tokens), Mooncake (JSON lines with timestamp in ms, input_length,
    output_length; `hash_ids` are not used), and CSV or JSON lines with arrival (s), input_tokens or input, and
    output_tokens or output; or with prompt_len and output_len, with or without arrival. The file may be gzip.

    Args:
        path: the file.

    Returns:
        As from `make_requests`, in the order of arrival, with times from the first arrival on. The attributes say the
        `source` and the `format`, count the rows left out by reason (`rejected`, JSON), and may hold `notes`.

    Raises:
        FactorGraphError: the file cannot be read, has other columns, or no row that can be used.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "trace.csv"
        >>> _ = file.write_text("arrival,input,output\\n3.5,512,128\\n3.0,100,20\\n4.0,100,0\\n")
        >>> trace = load_trace(file)
        >>> trace.arrival.values, trace.attrs["rejected"]
        (array([0. , 0.5]), '{"output is zero or negative": 1}')
    """
    path = Path(path)
    text = read_text(path)
    rows = _json_lines(text, path) if text.lstrip().startswith(("{", "[")) else _csv(path)
    layout = _recognise(rows)
    input_tokens, output_tokens = (_tokens(rows, column) for column in (layout.input_tokens, layout.output_tokens))
    arrival = _arrival(rows, layout)
    kept = rows.kept
    counts = {reason: int(n) for reason, n in pd.Series(rows.reasons[~kept]).value_counts(sort=False).items()}
    if not kept.any():
        said = ", ".join(f"{n} x {reason}" for reason, n in counts.items())
        raise SourceError(f"no request of {path} can be used: {said}")
    arrival, input_tokens, output_tokens = arrival[kept], input_tokens[kept], output_tokens[kept]
    order = np.argsort(arrival, kind="stable")
    if (np.diff(order) < 0).any():
        rows.notes.append("the rows were not in the order of arrival, and were sorted")
    requests = make_requests(arrival[order], input_tokens[order], output_tokens[order])
    said = {"source": path.name, "format": layout.name, "rejected": json.dumps(counts)}
    return requests.assign_attrs(said | ({"notes": "; ".join(rows.notes)} if rows.notes else {}))


def _csv(path: Path) -> Rows:
    table = read_table(path)
    rows = Rows(table.frame, path, notes=table.notes)
    rows.reject(table.ragged != "", "has fewer or more cells than the header")
    return rows


def _json_lines(text: str, path: Path) -> Rows:
    if text.lstrip().startswith("["):
        raise SourceError(f"{path} is a JSON array; write one object a line")
    records = [_record(line) for line in text.split("\n") if line.strip()]
    rows = Rows.of_records([record or {} for record in records], path)
    rows.reject([record is None for record in records], "is no JSON object, or was cut short")
    return rows


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line, parse_int=float)  # an integer of hundreds of digits is infinite, and set aside so
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _recognise(rows: Rows) -> TraceFormat:
    for layout in FORMATS:
        if set(layout.columns) <= set(rows.frame):
            return layout
    known = "; ".join(f"{', '.join(layout.columns)} ({layout.name})" for layout in FORMATS)
    there = ", ".join(map(str, rows.frame.columns[:30]))
    raise SourceError(f"{rows.where} has the columns {there or 'of no trace'}; a trace has one of these sets: {known}")


def _tokens(rows: Rows, column: str) -> np.ndarray:
    counts = rows.numbers(column, whole=True)
    rows.reject(counts > _LONGEST, f"{column} is above 10^9")
    return counts


def _arrival(rows: Rows, layout: TraceFormat) -> np.ndarray:
    """Times since the first arrival in s; rows whose time cannot be used are set aside."""
    if layout.arrival is None:
        rows.notes.append("there are no arrival times: all requests arrive at 0; replay them in a closed loop")
        return np.zeros(len(rows.frame))
    if layout.unit == "date":
        dates = pd.to_datetime(rows.frame[layout.arrival], format="ISO8601", utc=True, errors="coerce")
        rows.reject(dates.isna(), f"{layout.arrival} is no date with a time of day")
        times = np.asarray((dates - dates.min()) / pd.Timedelta(seconds=1), dtype=float)
    else:
        times = rows.numbers(layout.arrival, layout.unit, "s", zero=True)
    if rows.kept.any():
        times = times - times[rows.kept].min()
    rows.reject(times > _LATEST, f"{layout.arrival} is more than 10^9 s after the first")
    return times
