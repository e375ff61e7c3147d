"""Measured rows as a dataset of the schema."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.datasets.schema import KINDS, UNKNOWN, conform
from factorgraph.errors import FactorGraphError

# What is recorded beside the fields of a kind.
_RECORDED_UNITS = {"power": "W", "power_cap": "W", "sm_clock": "Hz", "temperature": "K", "calls": "1", "spread": "1"}


def as_dataset(kind: str, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> xr.Dataset:
    """A dataset with one entry a row along `row`.

    Args:
        kind: of the schema.
        rows: with the same keys each, values in SI. Those without a time are left out, and counted in `left_out`.
        facts: attributes, among them what the schema asks for.

    Raises:
        FactorGraphError: no row has a time.
        SchemaError: a fact or field is missing.
    """
    timed = [row for row in rows if np.isfinite(row["latency"])]
    if not timed:
        raise FactorGraphError("the clock could tell no run from a longer one; measure again on a quieter machine")
    units = _RECORDED_UNITS | {field.name: field.unit for field in KINDS[kind].fields}
    inputs = {field.name for field in KINDS[kind].fields if not field.measured}
    data, coords = {}, {}
    for name in timed[0]:
        values = np.array([row[name] for row in timed])
        attrs = {} if values.dtype.kind == "U" else {"units": units[name]}
        (coords if name in inputs or name == "cache_state" else data)[name] = ("row", values, attrs)
    recorded = "recorded" if "sm_clock" in timed[0] else UNKNOWN
    said = {"clock_state": recorded, "power_state": recorded, "operand_values": "random", "licence": UNKNOWN}
    return conform(xr.Dataset(data, coords, {"kind": kind, "left_out": len(rows) - len(timed)} | said | dict(facts)))
