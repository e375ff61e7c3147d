"""gpu-benches (RRZE): columns of text, `data set`, `exec time`, `spread`, `Eff. bw`, each number with its unit."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from factorgraph.datasets.importers.reading import SourceError, read_table, read_text
from factorgraph.datasets.importers.rows import REPEATED, Imported, Rows
from factorgraph.units import to_unit

_NUMBER = r"[-+\d.eE]+|nan|inf"
# One or two sizes (what a block reads, and what all read), a time, a spread, a bandwidth; counters may follow.
_LINE = re.compile(
    rf"^\s*(?:(?P<block>{_NUMBER})\s*(?P<block_unit>[kMGT]?B)\s+)?(?P<size>{_NUMBER})\s*(?P<size_unit>[kMGT]?B)"
    rf"\s+(?P<time>{_NUMBER})\s*(?P<time_unit>[nuµm]?s)\s+(?P<spread>{_NUMBER})\s*%"
    rf"\s+(?P<rate>{_NUMBER})\s*(?P<rate_unit>[kMGT]?B/s)"
)
_RESULT = re.compile(r"\d\s*[kMGT]?B\b|\d\s*%|\d\s*[kMGT]?B/s")
# The program counts a kilobyte as 1024 bytes; its bandwidths are decimal.
_SIZES = {"B": "B", "kB": "KiB", "MB": "MiB", "GB": "GiB", "TB": "TiB"}
_FACTS = {"engine": "gpu-benches", "statistic": "fastest of the repeats"}


def read(source: Path, facts: dict[str, str]) -> Imported:
    """The output of gpu-benches' cache and streaming benchmarks, as text or as the CSV tables made of it.

    Raises:
        SourceError: the file holds no line of results.
    """
    text = read_text(source)
    header = text.lstrip().split("\n", 1)[0]
    if "," in header and "volume_bytes" in header:
        return _of_table(source, facts, volume="volume_bytes", time="us:us", bandwidth="best_gbps", label="mode")
    if "," in header and "window_bytes" in header:
        return _of_table(source, facts, volume="window_bytes", time="time_ms:ms", bandwidth="gbps", label=None)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if _RESULT.search(line)]
    if not lines:
        raise SourceError(f"{source} holds no line of results such as '512 kB  1536 kB  12ms  0.0%  4315.9 GB/s'")
    matches = [_LINE.match(line) for _, line in lines]
    units = [match.group("block_unit", "size_unit", "time_unit", "rate_unit") if match else None for match in matches]
    block, size, time, rate = np.array([_scales(*found) if found else [np.nan] * 4 for found in units]).T
    cells = [match.groupdict() if match else {} for match in matches]
    frame = pd.DataFrame(cells, columns=["block", "size", "time", "spread", "rate"], dtype=object)
    frame.insert(0, "text", [line.strip() for _, line in lines])
    frame.index = pd.Index([number for number, _ in lines], name="line")
    rows = Rows(frame, source)
    rows.reject([match is None for match in matches], "is not laid out as size, time, spread, bandwidth")
    rows.reject(frame.duplicated("text"), REPEATED)
    values = {
        "volume": rows.numbers("size") * size,
        "latency": rows.numbers("time") * time,
        "spread": rows.numbers("spread", "percent", "1", zero=True),
        "bandwidth": rows.numbers("rate") * rate,
    }
    if np.isfinite(block).any():
        values["block"] = rows.numbers("block", optional=True) * block
    named = re.search(r"Running on GPU:\s*(.+)", text)
    said = {"sku": named[1].strip()} if named else {}
    return rows.finish("bandwidth", values, _FACTS | said | {"source": source.name} | facts, title="gpu-benches")


def _scales(block: str | None, size: str, time: str, rate: str) -> list[float]:
    """What one of each unit is in B, B, s and B/s."""
    return [
        to_unit(1.0, _SIZES[block], "B") if block else np.nan,
        to_unit(1.0, _SIZES[size], "B"),
        to_unit(1.0, time, "s"),
        to_unit(1.0, rate, "B/s"),
    ]


def _of_table(
    source: Path, facts: dict[str, str], *, volume: str, time: str, bandwidth: str, label: str | None
) -> Imported:
    rows = Rows.of_table(read_table(source), source)
    column, unit = time.split(":")
    rows.require("gpu", volume, column, bandwidth)
    values = {
        "sku": rows.text("gpu"),
        "volume": rows.numbers(volume, "B", "B"),
        "latency": rows.numbers(column, unit, "s", optional=True),
        "bandwidth": rows.numbers(bandwidth, "GB/s", "B/s"),
    }
    if label is not None and label in rows.frame:
        values["mode"] = rows.text(label)
    if "spread_pct" in rows.frame:
        values["spread"] = rows.numbers("spread_pct", "percent", "1", zero=True, optional=True)
    if "block_kb" in rows.frame:
        values["block"] = rows.numbers("block_kb", "KiB", "B", optional=True)
    return rows.finish("bandwidth", values, _FACTS | {"source": source.name} | facts, title="gpu-benches")
