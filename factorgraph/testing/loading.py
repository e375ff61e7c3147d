"""A law by the words a shell can say."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor


def load_law(words: str) -> Factor:
    """A law with its default constants, from "package.module:Class" or "path/to/file.py:Class".

    Raises:
        FactorGraphError: there is no such module, file or class, or the class is no law.

    Examples:
        >>> load_law("factorgraph.laws.host:HostResidual").law_name
        'HostResidual'
    """
    where, colon, name = words.rpartition(":")
    if not colon or not where or not name:
        raise FactorGraphError(f"'{words}' names no law; write package.module:Class or path/to/file.py:Class")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_path(where)
    laws = {key: value for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Factor)}
    if name not in laws:
        if hasattr(module, name):
            raise FactorGraphError(f"{words} is no law; subclass factorgraph.Factor")
        raise UnknownNameError(f"law in {where}", name, set(laws) - {"Factor", "Given"})
    try:
        return laws[name]()
    except TypeError as error:
        raise FactorGraphError(f"{words} needs values to be made ({error}); give its fields defaults") from None


def _from_path(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FactorGraphError(f"module {name} cannot be imported ({error}); check its name") from None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FactorGraphError(f"there is no file {path}")
    name = f"_factorgraph_law_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FactorGraphError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except FactorGraphError:
        raise
    except Exception as error:  # whatever the user's file raises is said in one sentence
        raise FactorGraphError(f"{path} cannot be run: {type(error).__name__}: {error}") from None
    return module
