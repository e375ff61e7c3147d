"""Tables and JSON as the command prints them."""

import json
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


# Tables keep this width in a narrower window or a pipe: a number that is cut short says something else.
_LEAST_WIDTH = 132


def console() -> Console:
    return Console(highlight=False, width=max(shutil.get_terminal_size().columns, _LEAST_WIDTH))


def print_json(value: Any) -> None:
    """One JSON document; a NaN here would be a fault, and is refused."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, text: int = 1) -> Table:
    """A table whose first `text` columns are words and whose others are numbers, aligned right."""
    result = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        result.add_column(column, justify="left" if i < text else "right", no_wrap=i == 0 or i >= text, overflow="fold")
    for row in rows:
        result.add_row(*(cell(value) for value in row))
    return result


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.2e}"
    return str(value)


def seconds(value: float) -> str:
    """A time with the unit that reads best.

    Examples:
        >>> seconds(0.0123)
        '12.3 ms'
    """
    for scale, unit in _SCALES:
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} s"


def engineering(value: float, unit: str) -> str:
    """A large number with a decimal prefix.

    Examples:
        >>> engineering(3.35e12, "B/s")
        '3.35 TB/s'
    """
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
