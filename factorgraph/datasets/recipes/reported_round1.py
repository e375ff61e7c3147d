"""The bundled dataset reported-round1."""

import numpy as np
import pandas as pd

from factorgraph.datasets.importers import Imported, Rows
from factorgraph.datasets.importers.reading import read_table
from factorgraph.datasets.schema import UNKNOWN
from factorgraph.paths import data_root
from factorgraph.units import to_unit

# Of every unit that the report prints: how pint reads it, and the unit that the house keeps it in.
_UNITS = {
    "1": ("1", "1"),
    "of 3": ("1", "1"),
    "%": ("percent", "1"),
    "percentage point": ("percentage_point", "1"),
    "ms": ("ms", "s"),
    "TFLOP/s": ("TFLOP/s", "FLOP/s"),
}


def build() -> Imported:
    """Every number that the starting report states."""
    source = data_root("datasets") / "reported-round1" / "source.csv"
    rows = Rows.of_table(read_table(source), source)
    stated, unit = rows.text("value"), rows.text("unit")
    ends = pd.Series(stated).str.extract(r"^(?P<low>[\d.]+)(?:-(?P<high>[\d.]+))?$").astype(float)
    ends["high"] = ends["high"].fillna(ends["low"])
    low, high = (
        np.array([to_unit(value, *_UNITS[of]) for value, of in zip(ends[end], unit, strict=True)])
        for end in ("low", "high")
    )
    values = {
        "quantity": rows.text("quantity"),
        "stated": stated,
        "stated_unit": unit,
        "si_unit": np.array([_UNITS[of][1] for of in unit], dtype=object),
        "low": low,
        "high": high,
        "sku": rows.text("sku", absent=UNKNOWN),
        "id": rows.text("id"),
        "experiment": rows.text("experiment"),
        "spread_or_n": rows.text("spread_or_n", absent="not stated"),
        "condition": rows.text("condition", absent="not stated"),
    }
    facts = {
        "title": "Numbers that the starting report states",
        "source": "the project's starting report, round 1; the experiment of each number is a coordinate",
        "licence": "Apache-2.0",
        "statistic": "as stated",
    }
    return rows.finish("reported", values, facts, title="reported-round1")
