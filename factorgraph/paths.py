"""Where content lives: hardware cards, models, datasets and studies, the user's own before the bundled ones."""

import os
from collections.abc import Iterator
from pathlib import Path

from factorgraph.errors import FactorGraphError

KINDS = ("hardware", "models", "engines", "datasets", "studies")
_PACKAGE = Path(__file__).resolve().parent


def data_root(kind: str) -> Path:
    """The folder of bundled content of one kind: in a checkout beside the package, in a wheel inside it.

    Args:
        kind: "hardware", "models", "engines", "datasets" or "studies".

    Raises:
        FactorGraphError: the kind is not one of these, or the installation lost the folder.

    Examples:
        >>> data_root("hardware").name
        'hardware'
    """
    if kind not in KINDS:
        raise FactorGraphError(f"no content of kind '{kind}'; the kinds are {', '.join(KINDS)}")
    for folder in (_PACKAGE.parent / kind, _PACKAGE / "_data" / kind):
        # A folder beside an installed package belongs to somebody else; only a checkout has pyproject.toml there.
        if folder.is_dir() and (folder.parent == _PACKAGE / "_data" or (_PACKAGE.parent / "pyproject.toml").is_file()):
            return folder
    raise FactorGraphError(f"this installation of factorgraph has no {kind} folder; install it again")


def search_path(kind: str) -> Iterator[Path]:
    """Folders to look in for content of one kind, first match wins.

    `FACTORGRAPH_PATH` lists roots (separated as in PATH), each of which may hold folders named after the kinds.

    Examples:
        >>> list(search_path("hardware"))[-1] == data_root("hardware")
        True
    """
    for root in filter(None, os.environ.get("FACTORGRAPH_PATH", "").split(os.pathsep)):
        folder = Path(root).expanduser() / kind
        if folder.is_dir():
            yield folder
    yield data_root(kind)
