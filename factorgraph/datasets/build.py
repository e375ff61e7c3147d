"""Build a bundled dataset from its source, byte for byte: `python -m factorgraph.datasets.build NAME [FOLDER]`."""

import importlib
import pkgutil
import sys
from pathlib import Path

from factorgraph.datasets import recipes
from factorgraph.datasets.files import write_netcdf
from factorgraph.datasets.registry import DATA, REJECTED, Entry, seal
from factorgraph.datasets.schema import conform
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.paths import data_root


def list_recipes() -> tuple[str, ...]:
    """The datasets that can be built.

    Examples:
        >>> "gemm-bf16" in list_recipes()
        True
    """
    bundled = {folder.name for folder in data_root("datasets").iterdir() if folder.is_dir()}
    names = (module.name.replace("_", "-") for module in pkgutil.iter_modules(recipes.__path__))
    return tuple(sorted(bundled.intersection(names)))


def build(name: str, folder: Path | None = None) -> Entry:
    """Make a dataset's files from its source, and take their checksums.

    Args:
        name: one of `list_recipes`.
        folder: holds its datasheet.md already; by default the bundled folder.

    Raises:
        UnknownNameError: there is no such recipe.
        FactorGraphError: the source is not installed.
    """
    if name not in list_recipes():
        raise UnknownNameError("recipe", name, list_recipes())
    folder = folder or data_root("datasets") / name
    made = importlib.import_module(f"{recipes.__name__}.{name.replace('-', '_')}").build()
    write_netcdf(conform(made.dataset, title=name), folder / DATA)
    (folder / REJECTED).unlink(missing_ok=True)
    if len(made.rejected):
        made.rejected.to_csv(folder / REJECTED, index=False, lineterminator="\n")
    return seal(folder)


def main(arguments: list[str]) -> int:
    """Build what the arguments name, and print what it came to."""
    try:
        if not 1 <= len(arguments) <= 2:
            raise FactorGraphError("name a dataset to build, and its folder if it is not the bundled one")
        entry = build(arguments[0], Path(arguments[1]) if len(arguments) == 2 else None)
    except FactorGraphError as error:
        print(error, file=sys.stderr)
        return 1
    for file in entry.files.values():
        print(f"{file.sha256}  {file.size:>9}  {entry.name}/{file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
