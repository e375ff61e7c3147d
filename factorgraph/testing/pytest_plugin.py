"""`pytest --law module:Law` or `pytest --law path/to/file.py:Law`: one test for each check of a law.

Without paths on the command line only the laws are judged. Nothing is imported unless a law is given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("factorgraph").addoption(
        "--law",
        action="append",
        default=[],
        metavar="WHERE:CLASS",
        help="hold a factorgraph law to its physics: package.module:Class or path/to/file.py:Class; may be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--law") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for words in config.getoption("--law") or ():
        items.extend(_checks_of(words, session))


def _checks_of(words: str, session: pytest.Session) -> list[pytest.Item]:
    from factorgraph.errors import FactorGraphError
    from factorgraph.testing import CHECKS, check_law, load_law

    try:
        law = load_law(words)
    except FactorGraphError as error:
        raise pytest.UsageError(str(error)) from None
    return [
        LawItem.from_parent(session, name=f"{words}[{check}]", run=lambda check=check: check_law(law, checks=[check]))
        for check in CHECKS
    ]


class LawItem(pytest.Item):
    """One check of one law."""

    def __init__(self, *, run: Callable[[], None], **others: Any):
        super().__init__(**others)
        self._run = run

    def runtest(self) -> None:
        self._run()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The law's own words: the place in the kit where the fault was found helps nobody."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
