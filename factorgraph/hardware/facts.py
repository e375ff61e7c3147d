"""Numbers with unit and source, read from TOML. Every complaint names the file, the line, the key and the mend."""

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from factorgraph.errors import FactorGraphError
from factorgraph.units import to_unit

# The units that a number may be written in, by the SI unit it is kept in.
WRITTEN_UNITS = {
    "1": ("1", "SM"),
    "s": ("s", "ms", "us", "ns"),
    "Hz": ("Hz", "kHz", "MHz", "GHz"),
    "W": ("W", "kW"),
    "B": ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"),
    "B/s": ("B/s", "MB/s", "GB/s", "TB/s"),
    "J/B": ("J/B", "nJ/B", "pJ/B"),
    "FLOP": ("FLOP",),
    "FLOP/s": ("FLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"),
}


@dataclasses.dataclass(frozen=True)
class Alternative:
    """What another source says of the same number, in the same SI unit."""

    value: float
    source: str


@dataclasses.dataclass(frozen=True)
class Fact:
    """A number, and how it is known.

    Attributes:
        value: in `unit`; 1 or 0 where the fact is a yes or no.
        unit: SI.
        source: where the number stands.
        note: what a reader should know of it.
        verified: whether it was read in that source; False where it was written down from memory or estimated.
        alternatives: other sources that say otherwise.
    """

    value: float
    unit: str
    source: str
    note: str = ""
    verified: bool = True
    alternatives: tuple[Alternative, ...] = ()


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What a number must be, to be believed.

    Attributes:
        unit: the SI unit it is kept in.
        low, high: the range it has, wide enough for the next ones and too narrow for a slip of a thousand.
        example: how a card writes it.
        zero: whether it may be zero all the same, for "none".
        whole: whether only whole numbers occur.
        required: whether a card must state it.
        of: what the range is of.
    """

    unit: str
    low: float
    high: float
    example: str
    zero: bool = False
    whole: bool = False
    required: bool = True
    of: str = "any GPU"

    def complaint(self, value: float) -> str | None:
        """What is wrong with a value in the SI unit, or None."""
        if not math.isfinite(value):
            return f"is {value}; give a finite number"
        if value < 0 or (value == 0 and not self.zero):
            return f"is {value:g}; it must be positive"
        if value and not self.low <= value <= self.high:
            unit = "" if self.unit == "1" else f" {self.unit}"
            return f"is {value:g}{unit}, outside the {self.low:g} to {self.high:g}{unit} of {self.of}"
        if self.whole and value != int(value):
            return f"is {value:g}; it must be a whole number"
        return None

    def mend(self, written: float, unit: str) -> str:
        """A guess at the unit that was meant, where a number is only plausible in another; else nothing."""
        units = [one for one in WRITTEN_UNITS[self.unit] if self.low <= to_unit(written, one, self.unit) <= self.high]
        return f"; did you mean {written:g} {units[0]}?" if units and unit not in units else ""


class FactFile:
    """A TOML file of facts.

    Args:
        file: its path.

    Raises:
        FactorGraphError: it cannot be read, is empty, is no UTF-8 text or no TOML.
    """

    def __init__(self, file: Path):
        self.file = file
        self._text = _read_text(file)
        try:
            self.content = tomllib.loads(self._text)
        except RecursionError:
            raise FactorGraphError(f"{file} is nested too deeply to be read") from None
        except ValueError as error:  # malformed TOML, or an integer of thousands of digits
            end = f"the end, line {len(self._text.splitlines())}"
            raise FactorGraphError(f"{file} is no TOML: {error}".replace("end of document", end)) from None
        if not self.content:
            raise FactorGraphError(f"{file} is empty; the bundled cards show what belongs in it")

    def fault(self, path: Iterable[str], complaint: str, *, inside: str = "") -> FactorGraphError:
        """The error that a key is at fault, with its line, or that of a key inside it if it is there."""
        path = tuple(path)
        line = _line_of(self._text, (*path, inside)) or _line_of(self._text, path)
        return FactorGraphError(f"{self.file}, line {line}: {'.'.join(path)} {complaint}")

    def check_keys(self, path: tuple[str, ...], known: Iterable[str]) -> None:
        """Raise on the first key of a table that is none of those known."""
        known = sorted(known)
        for key in self._table(path):
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                mend = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
                raise self.fault((*path, key), f"is not known; {mend}")

    def keys(self, path: tuple[str, ...]) -> Iterator[str]:
        yield from self._table(path)

    def text(self, path: tuple[str, ...]) -> str:
        """A text that must be there."""
        value = self._at(path, '"..."')
        if not isinstance(value, str) or not value.strip():
            raise self.fault(path, f"is {_shown(value)}; it must be a text in quotes")
        return value

    def flag(self, path: tuple[str, ...]) -> Fact:
        """A fact that is true or false."""
        entry = self._entry(path, 'value = true, source = "..."')
        if not isinstance(entry["value"], bool):
            raise self.fault(path, f"is {_shown(entry['value'])}; it must be true or false", inside="value")
        if "unit" in entry or "alternatives" in entry:
            raise self.fault(path, "is a yes or no, which has neither unit nor alternatives")
        return self._fact(path, entry, float(entry["value"]), "1", ())

    def number(self, path: tuple[str, ...], quantity: Quantity) -> Fact:
        """A number of a known kind, converted to its SI unit."""
        entry = self._entry(path, quantity.example)
        value = self._value(path, entry, quantity)
        others = entry.get("alternatives", [])
        if not isinstance(others, list) or not all(
            isinstance(other, dict) and set(other) == {"value", "unit", "source"} for other in others
        ):
            complaint = f"has alternatives that are no list of tables such as {{ {quantity.example} }}"
            raise self.fault(path, complaint, inside="alternatives")
        alternatives = (Alternative(self._value(path, one, quantity), self._source(path, one)) for one in others)
        return self._fact(path, entry, value, quantity.unit, tuple(alternatives))

    def anything(self, path: tuple[str, ...]) -> Fact:
        """A fact of any kind: true or false, or a finite number in a unit whose SI unit is known."""
        entry = self._entry(path, 'value = 1.0, unit = "1", source = "..."')
        if isinstance(entry["value"], bool):
            return self.flag(path)
        for si, units in WRITTEN_UNITS.items():
            if entry.get("unit") in units:
                return self.number(path, Quantity(si, 0.0, math.inf, f'value = 1.0, unit = "{si}"', zero=True))
        known = ", ".join(unit for units in WRITTEN_UNITS.values() for unit in units)
        raise self.fault(path, f"has unit {_shown(entry.get('unit'))}; known: {known}", inside="unit")

    def _value(self, path: tuple[str, ...], entry: dict[str, Any], quantity: Quantity) -> float:
        written, unit = entry["value"], entry.get("unit")
        units = WRITTEN_UNITS[quantity.unit]
        if isinstance(written, bool) or not isinstance(written, int | float):
            raise self.fault(path, f"is {_shown(written)}; it must be a number without quotes", inside="value")
        if unit is None:
            raise self.fault(path, f'has no unit; write for example unit = "{units[-1]}"')
        if unit not in units:
            raise self.fault(path, f"has unit {_shown(unit)}; state it in {' or '.join(units)}", inside="unit")
        try:
            written = float(written)
        except OverflowError:
            written = math.inf
        value = float(to_unit(written, unit, quantity.unit))
        if complaint := quantity.complaint(value):
            raise self.fault(path, complaint + quantity.mend(written, unit), inside="value")
        return value

    def _fact(
        self, path: tuple[str, ...], entry: dict[str, Any], value: float, unit: str, others: tuple[Alternative, ...]
    ) -> Fact:
        note, verified = entry.get("note", ""), entry.get("verified", True)
        if not isinstance(note, str):
            raise self.fault(path, f"has the note {_shown(note)}; it must be a text in quotes", inside="note")
        if not isinstance(verified, bool):
            raise self.fault(path, f"has verified = {_shown(verified)}; it must be true or false", inside="verified")
        return Fact(value, unit, self._source(path, entry), note, verified, others)

    def _source(self, path: tuple[str, ...], entry: dict[str, Any]) -> str:
        source = entry.get("source")
        if not isinstance(source, str) or not source.strip():
            raise self.fault(path, 'has no source; say where the number stands: source = "..."')
        return source

    def _entry(self, path: tuple[str, ...], example: str) -> dict[str, Any]:
        entry = self._at(path, f"{{ {example} }}")
        if not isinstance(entry, dict) or "value" not in entry:
            raise self.fault(path, f"must be written {'.'.join(path)} = {{ {example} }}")
        self.check_keys(path, [field.name for field in dataclasses.fields(Fact)])
        return entry

    def _table(self, path: tuple[str, ...]) -> dict[str, Any]:
        table = self._at(path, "{ ... }")
        if not isinstance(table, dict):
            raise self.fault(path, f"is {_shown(table)}; it must be a table")
        return table

    def _at(self, path: tuple[str, ...], example: str) -> Any:
        value: Any = self.content
        for depth, key in enumerate(path, 1):
            if not isinstance(value, dict):
                raise self.fault(path[: depth - 1], f"is {_shown(value)}; it must be a table")
            if key not in value:
                raise FactorGraphError(
                    f"{self.file}: {'.'.join(path[:depth])} is missing; add a line {'.'.join(path)} = {example}"
                )
            value = value[key]
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _read_text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except IsADirectoryError:
        raise FactorGraphError(f"{file} is a folder; give the path of a card in it") from None
    except OSError as error:
        raise FactorGraphError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FactorGraphError(f"{str(file)!r} is no path: {error}") from None
    try:
        # A byte-order mark, which some editors write, is no fault of the file's content.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FactorGraphError(f"{file}, line {line}: not UTF-8 text; save the file as UTF-8") from None


def _line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line that sets a key: where the first statement starts with which the text so far holds it.

    Reading ever longer beginnings of the file leaves sections, dotted keys and multi-line values to the TOML reader.
    """
    lines = text.split("\n")
    read = 0
    for end in range(1, len(lines) + 1):
        try:
            content = tomllib.loads("\n".join(lines[:end]) + "\n")
        except ValueError:  # in the middle of a statement
            continue
        if _holds(content, path):
            return read + 1
        read = end
    return None


def _holds(content: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True
