"""Importers: a file a foreign format, each a function `read(source, facts, **options) -> Imported`.

Those of this folder are found by their file's name; others by the entry point group `factorgraph.importers`, whose
entries are named after the format and load such a function.
"""

import functools
import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from factorgraph.datasets.importers.reading import SourceError
from factorgraph.datasets.importers.rows import Imported, Rows
from factorgraph.datasets.schema import FACTS, Fact
from factorgraph.errors import FactorGraphError, UnknownNameError

__all__ = ["Imported", "Rows", "SourceError", "import_file", "list_formats"]

_GROUP = "factorgraph.importers"
_NOT_FORMATS = ("reading", "rows")


def list_formats() -> dict[str, str]:
    """The formats that can be imported, and what each is.

    Examples:
        >>> list_formats()["aiconfigurator"]
        'A kernel table of aiconfigurator-core: GEMM, attention, collectives, MoE, quantisation; Parquet.'
    """
    found = {entry.name: entry.load() for entry in entry_points(group=_GROUP)}
    found |= {name: _load_built_in(name) for name in _built_in()}
    return {name: (inspect.getdoc(read) or "").split("\n")[0] for name, read in sorted(found.items())}


def import_file(
    source: str | os.PathLike, format: str, *, facts: Mapping[str, str] | None = None, **options: Any
) -> Imported:
    """Read a foreign file into a dataset.

    Args:
        source: the file (for some formats, a folder of files).
        format: one of `list_formats`.
        facts: what the file does not say of itself, such as {"sku": "h100-sxm", "cache_state": "cold"}; facts that are
            neither given nor found are "unknown".
        options: further arguments of the format's importer.

    Raises:
        UnknownNameError: there is no such format, option or fact.
        SourceError: the file cannot be read or holds nothing that can be used.
        SchemaError: what it holds is not a valid dataset; all faults are listed.
    """
    importer = _importer(format)
    parameters = dict(list(inspect.signature(importer).parameters.items())[2:])
    accepted = list(parameters)
    missing = [name for name, one in parameters.items() if one.default is one.empty and name not in options]
    if missing:
        raise SourceError(f"the format '{format}' needs {' and '.join(missing)}; state what {source} holds with them")
    for option in options:
        if option not in accepted:
            raise UnknownNameError(f"option of the format {format}", option, accepted)
    known = {fact.name: fact for fact in FACTS} | {"title": Fact("title", "a line on what was measured")}
    given = dict(facts or {})
    for name, word in given.items():
        if name not in known:
            raise UnknownNameError("fact", name, known)
        if known[name].choices and word not in known[name].choices:
            raise FactorGraphError(f"{name} is '{word}'; say one of {', '.join(known[name].choices)}")
    try:
        return importer(Path(source), given, **options)
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        # The file has the right syntax but not the structure that the importer was written for.
        raise SourceError(
            f"{source} is not laid out as the format '{format}' is ({type(error).__name__}: {error})"
        ) from error


def _importer(format: str) -> Callable[..., Imported]:
    if format in _built_in():
        return _load_built_in(format)
    # Looking through all that is installed takes ten times as long as reading a small file.
    others = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if format not in others:
        raise UnknownNameError("format", format, [*_built_in(), *others])
    return others[format].load()


@functools.cache
def _built_in() -> tuple[str, ...]:
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name.replace("_", "-") for name in modules if name not in _NOT_FORMATS)


def _load_built_in(format: str) -> Callable[..., Imported]:
    return importlib.import_module(f"{__name__}.{format.replace('-', '_')}").read
