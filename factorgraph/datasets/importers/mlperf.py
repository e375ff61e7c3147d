"""MLPerf inference summaries, `mlperf_log_summary.txt`: a name, a colon, a value a line; latencies in ns."""

import re
from pathlib import Path

import numpy as np

from factorgraph.datasets.importers.reading import SourceError, read_text
from factorgraph.datasets.importers.rows import Imported, Rows

_LINE = re.compile(r"^\s*([^:=*]+?)\s*:\s*(.+?)\s*$")
# What the benchmark calls it, the first that is there; the unit it is in; ours.
_METRICS = {
    "ttft": (("50.00 percentile first token latency (ns)", "Mean First Token latency (ns)"), "ns", "s"),
    "tpot": (("50.00 percentile time to output token (ns)", "Mean Time to Output Token (ns)"), "ns", "s"),
    "request_rate": (("Completed samples per second", "Samples per second"), "1/s", "1/s"),
    "token_rate": (("Completed tokens per second", "Tokens per second"), "1/s", "1/s"),
}


def read(source: Path, facts: dict[str, str], *, model: str = "unknown") -> Imported:
    """The summary of an MLPerf inference run.

    Args:
        source: mlperf_log_summary.txt.
        facts: what else is known.
        model: the model served, which the summary does not state.

    Raises:
        SourceError: the file is no summary, or the run was not valid.
    """
    found: dict[str, str] = {}
    for line in read_text(source).split("\n"):
        if match := _LINE.match(line):
            found.setdefault(match[1], match[2])
    if "Scenario" not in found or "Result is" not in found:
        raise SourceError(f"{source} is no MLPerf summary; it states neither scenario nor whether the result is valid")
    names = {metric: next((n for n in said[0] if n in found), None) for metric, said in _METRICS.items()}
    if not any(names.values()):
        raise SourceError(f"{source} states no rate of samples or tokens and no latency of tokens")
    rows = Rows.of_records([found], source)
    rows.reject([found["Result is"] != "VALID"], f"the run was {found['Result is']}")
    values = {
        metric: rows.numbers(name, *_METRICS[metric][1:], optional=True)
        for metric, name in names.items()
        if name is not None
    }
    rows.reject(np.all([np.isnan(v) for v in values.values()], axis=0), "holds no number of a result")
    values |= {"model": np.array([model], dtype=object), "scenario": rows.text("Scenario")}
    said = {"engine": found.get("SUT name", "unknown"), "statistic": "median, or mean where that is all there is"}
    return rows.finish("serving", values, said | {"source": source.name} | facts, title="An MLPerf inference run")
