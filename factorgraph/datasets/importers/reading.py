"""Foreign files as text and tables, whatever happened to them on the way here."""

import csv
import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from factorgraph.errors import FactorGraphError

_LARGEST = 2 << 30  # a gzip file can unpack to a thousand times its size


class SourceError(FactorGraphError):
    """A foreign file that cannot be read, or holds nothing that can be used."""


def read_bytes(path: Path) -> bytes:
    """A file's content, unpacked if it is gzip.

    Raises:
        SourceError: there is no such file, it is a folder, empty, cannot be read, or its gzip data is damaged.
    """
    if path.is_dir():
        raise SourceError(f"{path} is a folder; name a file in it")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SourceError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SourceError(f"{path!s} cannot be read: {error}") from None
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(_LARGEST + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise SourceError(f"{path}: its gzip data is damaged or cut short ({error})") from None
        if len(data) > _LARGEST:
            raise SourceError(f"{path} unpacks to more than 2 GiB; split it")
    if not data.strip():
        raise SourceError(f"{path} is empty")
    return data


def read_text(path: Path) -> str:
    """A file's text with plain line ends; UTF-8 with or without a byte-order mark, or UTF-16 with one.

    Raises:
        SourceError: as `read_bytes`, or the content is not such text.
    """
    data = read_bytes(path)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text (at byte {error.start}); save it as UTF-8") from None
    if "\0" in text:
        raise SourceError(f"{path} is not text; it holds NUL bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> Any:
    """A JSON file's content.

    Raises:
        SourceError: as `read_text`, or the text is no JSON.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is not JSON, it may be cut short ({error})") from None


class Table:
    """A table as read: text in every cell, and what is to be said about it.

    Attributes:
        frame: a row for each line, all cells text, the index its line number in the file.
        ragged: for each row, what is wrong with its number of cells, or "".
        notes: what the user should know.
    """

    def __init__(self, frame: pd.DataFrame, ragged: pd.Series, notes: tuple[str, ...]):
        self.frame, self.ragged, self.notes = frame, ragged, notes


def read_table(path: Path, *, header_has: str | None = None) -> Table:
    """A CSV file, separated by commas, semicolons or tabs.

    Args:
        path: the file.
        header_has: a column's name, by which the header is found where text comes before it.

    Raises:
        SourceError: as `read_text`, or the text is no table.
    """
    text = read_text(path)
    skipped = _lines_before(text, header_has)
    body = text.split("\n", skipped)[skipped]
    first = body.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    lines, numbers = [], []
    reader = csv.reader(io.StringIO(body), delimiter=separator, strict=True)
    try:
        for line in reader:
            if any(cell.strip() for cell in line):
                lines.append(line)
                numbers.append(reader.line_num + skipped)
    except csv.Error as error:
        line = reader.line_num + skipped
        raise SourceError(f"{path} is not a whole CSV file: line {line}: {error}; it may be cut short") from None
    header = [name.strip() or f"column {place}" for place, name in enumerate(lines[0], start=1)]
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise SourceError(f"{path} has more than one column {', '.join(twice)}; rename or remove one")
    if len(lines) == 1:
        raise SourceError(f"{path} has a header but no rows")
    width, rows = len(header), lines[1:]
    ragged = ["" if len(row) == width else f"{len(row)} cells where the header has {width}" for row in rows]
    cells = [[cell.strip() for cell in row[:width]] + [""] * (width - len(row)) for row in rows]
    frame = pd.DataFrame(cells, columns=header, index=pd.Index(numbers[1:], name="line"), dtype=object)
    notes = ()
    if not text.endswith("\n"):
        notes = ("the last line has no line end: if the file was cut short there, its last value is too",)
    return Table(frame, pd.Series(ragged, index=frame.index), notes)


def _lines_before(text: str, header_has: str | None) -> int:
    for place, line in enumerate(text.split("\n")):
        if header_has is None and line.strip() and not line.startswith("#"):
            return place
        if header_has is not None and header_has in line:
            return place
    return 0
