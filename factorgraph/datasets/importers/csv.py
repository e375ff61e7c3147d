"""Any CSV file, once the user has said which column is which quantity, and in which unit."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from factorgraph.datasets.importers.reading import SourceError, read_table
from factorgraph.datasets.importers.rows import Imported, Rows
from factorgraph.datasets.schema import FACTS, Field, kind_of
from factorgraph.errors import FactorGraphError, UnknownNameError


def read(source: Path, facts: dict[str, str], *, kind: str, columns: Mapping[str, str]) -> Imported:
    """Plain CSV, whose columns the user names.

    Args:
        source: the file.
        facts: what holds for all rows.
        kind: what was measured.
        columns: the column of each field or fact, such as {"m": "M", "latency": "time:ms", "sku": "gpu"}; a quantity
            with a unit has it after a colon.

    Raises:
        SourceError: the file lacks a column, or no row of it can be used.
        UnknownNameError: there is no such kind or field.
        FactorGraphError: a unit is missing or measures something else.
    """
    fields = {field.name: field for field in kind_of(kind).fields}
    words = {fact.name for fact in FACTS}
    rows = Rows.of_table(read_table(source), source)
    values: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        if name in words or (name in fields and fields[name].unit == "text"):
            rows.require(column)
            values[name] = rows.text(column)
        elif name in fields:
            values[name] = _quantity(rows, column, fields[name])
        else:
            raise UnknownNameError(f"field of the kind {kind}", name, [*fields, *words])
    needed = [field.name for field in fields.values() if field.required and field.name not in values]
    if needed:
        raise SourceError(f"{source}: no column is given for {', '.join(needed)}; a dataset of kind {kind} needs them")
    return rows.finish(kind, values, {"source": source.name} | facts, title=source.name)


def _quantity(rows: Rows, column: str, field: Field) -> np.ndarray:
    """The column's numbers in the field's unit, where `column` may end in ":unit"."""
    name, _, unit = column.rpartition(":")
    if column in rows.frame or not name:
        name, unit = column, "1"
        if field.unit != "1":
            raise FactorGraphError(f"{field.name} needs a unit; write {field.name}={column}:{field.unit}")
    rows.require(name)
    return rows.numbers(name, unit, field.unit, whole=field.whole, zero=field.zero, optional=not field.required)
