"""Rows of a foreign table on their way into a dataset: what cannot be used is set aside with its reason."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.datasets.importers.reading import SourceError, Table
from factorgraph.datasets.plausible import IMPOSSIBLE, faster_than_possible
from factorgraph.datasets.schema import FACTS, UNKNOWN, conform, kind_of
from factorgraph.units import to_unit

_LARGEST_COUNT = 2.0**53
REPEATED = "repeats an earlier row exactly"


@dataclasses.dataclass(frozen=True)
class Imported:
    """What an importer made of a foreign file.

    Attributes:
        dataset: valid for its kind, in SI units.
        rejected: rows that were left out, as they were read, with the columns `line` and `reason`.
        notes: what else the user should know.
    """

    dataset: xr.Dataset
    rejected: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were left out, by reason."""
        return {str(reason): int(n) for reason, n in self.rejected["reason"].value_counts(sort=False).items()}


class Rows:
    """Rows under inspection.

    Args:
        frame: the rows as read.
        where: how errors call the file.
        notes: carried into the result.
    """

    def __init__(self, frame: pd.DataFrame, where: Any, *, notes: Iterable[str] = ()):
        self.frame, self.where, self.notes = frame, where, list(notes)
        self.reasons = np.full(len(frame), "", dtype=object)

    @classmethod
    def of_table(cls, table: Table, where: Any) -> "Rows":
        """Rows of a CSV file; those with too few or too many cells and exact repeats are set aside."""
        rows = cls(table.frame, where, notes=table.notes)
        rows.reject(table.ragged != "", "has fewer or more cells than the header")
        rows.reject(table.frame.duplicated(), REPEATED)
        return rows

    @classmethod
    def of_records(cls, records: Iterable[Mapping[str, Any]], where: Any) -> "Rows":
        """Rows of JSON objects, of which only plain values count; the index counts them from 1."""
        plain = (str, int, float, bool)
        cells = [{str(k): v for k, v in record.items() if isinstance(v, plain)} for record in records]
        frame = pd.DataFrame(cells, dtype=object)
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="line")
        return cls(frame, where)

    @property
    def kept(self) -> np.ndarray:
        """Which rows are still in."""
        return self.reasons == ""

    def require(self, *columns: str) -> None:
        """Make sure that columns are there.

        Raises:
            SourceError: some are not; all of them are named.
        """
        if missing := [column for column in columns if column not in self.frame]:
            there = ", ".join(map(str, self.frame.columns[:30]))
            raise SourceError(f"{self.where} lacks the column {', '.join(missing)}; it has {there}")

    def reject(self, rows: Any, reason: str) -> None:
        """Set rows aside; the first reason that is found for a row stays."""
        self.reasons[np.asarray(rows, dtype=bool) & self.kept] = reason

    def text(self, column: str, *, absent: str | None = None) -> np.ndarray:
        """A column's text; rows without any are set aside unless `absent` says what stands for it."""
        values = self.frame[column].astype(object).where(self.frame[column].notna(), "").astype(str).str.strip()
        if absent is None:
            self.reject(values == "", f"{column} is empty")
        else:
            values = values.where(values != "", absent)
        return np.asarray(values, dtype=object)

    def numbers(
        self,
        column: str,
        given: str = "1",
        wanted: str = "1",
        *,
        whole: bool = False,
        zero: bool = False,
        optional: bool = False,
    ) -> np.ndarray:
        """A column's numbers, converted; rows whose number cannot be used are set aside.

        Args:
            column: its name.
            given, wanted: the unit it is in, and the one to return.
            whole: it counts something.
            zero: 0 may occur.
            optional: an empty cell is NaN and no reason to set the row aside.
        """
        raw = self.frame[column]
        values = np.array(pd.to_numeric(raw, errors="coerce"), dtype=float)
        empty = np.asarray(raw.isna() | raw.astype(str).str.strip().str.lower().isin(["", "nan"]))
        with np.errstate(invalid="ignore"):
            faults = {
                f"{column} is empty": empty & (not optional),
                f"{column} is not a finite number": ~empty & ~np.isfinite(values),
                f"{column} is {'' if zero else 'zero or '}negative": (values < 0) if zero else (values <= 0),
                f"{column} is not a whole number": whole & np.isfinite(values) & (values % 1 != 0),
                f"{column} is too large to count anything": whole & (np.abs(values) > _LARGEST_COUNT),
            }
        for reason, where in faults.items():
            self.reject(where, reason)
            values[where] = np.nan
        return to_unit(values, given, wanted, what=column)

    def finish(self, kind: str, values: Mapping[str, np.ndarray], facts: Mapping[str, str], *, title: str) -> Imported:
        """The rows that are left, as a dataset along `row`.

        Args:
            kind: whose fields they are.
            values: by field, fact or further name, for all rows; numbers in the units of the schema.
            facts: what holds for all rows.
            title: a line on what was measured, unless the facts say it.

        Raises:
            SourceError: no row is left.
            SchemaError: the result does not say what a dataset of the kind must.
        """
        said = {fact.name: UNKNOWN for fact in FACTS if fact.name not in values} | {"title": title}
        said |= {name: word for name, word in facts.items() if name not in values}
        if "latency" in values:
            self.reject(faster_than_possible(kind, values, said), IMPOSSIBLE)
        kept = self.kept
        if not kept.any():
            reasons = ", ".join(f"{n} x {reason}" for reason, n in pd.Series(self.reasons).value_counts().items())
            raise SourceError(f"no row of {self.where} can be used: {reasons or 'it has none'}")
        schema = {field.name: field for field in kind_of(kind).fields}
        coords, data = {}, {}
        for name, column in values.items():
            cells, field = column[kept], schema.get(name)
            if cells.dtype.kind in "OUT":
                coords[name] = ("row", cells.astype(str))
            elif field is not None and field.measured:
                data[name] = ("row", cells, {"units": field.unit, "long_name": field.doc})
            else:
                if (field is None or field.whole) and np.isfinite(cells).all() and not (cells % 1).any():
                    cells = cells.astype(np.int64)
                coords[name] = ("row", cells, {"units": field.unit if field else "1"})
        dataset = conform(xr.Dataset(data, coords, {"kind": kind} | said), title=str(self.where))
        return Imported(dataset, self.rejected(), tuple(self.notes))

    def rejected(self) -> pd.DataFrame:
        """The rows that were set aside, with their line and the reason."""
        aside = np.flatnonzero(~self.kept)
        return self.frame.iloc[aside].assign(reason=self.reasons[aside]).reset_index(names="line")
