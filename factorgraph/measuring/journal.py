"""The file beside the target that an interrupted measurement goes on from."""

import json
import os
from pathlib import Path
from typing import Any

from factorgraph.errors import FactorGraphError

SUFFIX = ".partial"


class Journal:
    """Measured rows, each on disk before the next is begun: a line of what is measured, then a line for each row.

    Args:
        target: the dataset's file; the journal is beside it.
        about: the machine and all settings; only a journal of the same is gone on from.
        resume: whether to go on from one that is there.

    Attributes:
        rows: measured so far, by the case's name.

    Raises:
        FactorGraphError: the target exists or cannot be written, or a journal is there that cannot be gone on from.
    """

    def __init__(self, target: Path, about: dict[str, Any], *, resume: bool):
        self.file = target.with_name(target.name + SUFFIX)
        self.rows: dict[str, dict[str, Any]] = {}
        if target.is_dir():
            raise FactorGraphError(f"{target} is a folder; name a file in it")
        if target.exists():
            raise FactorGraphError(f"{target} exists; name another file, or remove it first")
        if not target.parent.is_dir():
            raise FactorGraphError(f"there is no folder {target.parent} to write {target.name} to; make it first")
        first = json.dumps(about, sort_keys=True)
        try:
            if self.file.exists():
                kept = self._read(about, first, resume)
                # Cut off the line that was being written, so that the next starts on one of its own.
                os.truncate(self.file, kept)
            self._out = open(self.file, "a", encoding="utf-8")  # noqa: SIM115 (open as long as the journal is)
            if self.file.stat().st_size == 0:
                self._write(first)
        except OSError as error:
            raise _refusal(self.file, error) from None

    def add(self, name: str, row: dict[str, Any]) -> None:
        """Keep a row; it is on disk when this returns.

        Raises:
            FactorGraphError: it cannot be written, for want of space for example.
        """
        try:
            self._write(json.dumps([name, row]))
        except OSError as error:
            raise _refusal(self.file, error) from None
        self.rows[name] = row

    def close(self) -> None:
        """Leave the journal as it is, to be gone on from."""
        self._out.close()

    def remove(self) -> None:
        """Take the journal away, once the dataset is whole."""
        self.close()
        self.file.unlink()

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()
        os.fsync(self._out.fileno())

    def _read(self, about: dict[str, Any], first: str, resume: bool) -> int:
        """Take the rows of the journal that is there; the length of its whole lines."""
        whole, _, _ = self.file.read_bytes().rpartition(b"\n")
        if not whole:
            return 0
        try:
            header, *lines = whole.decode().split("\n")
            before = json.loads(header)
            rows = dict(json.loads(line) for line in lines)
        except (ValueError, TypeError):
            raise FactorGraphError(
                f"{self.file} is no journal of a measurement; remove it or name another file"
            ) from None
        if not resume:
            raise FactorGraphError(
                f"{self.file} holds {len(rows)} measurements of an interrupted run; "
                "go on from it with --resume, or remove it"
            )
        if not isinstance(before, dict) or before != json.loads(first):
            changed = [key for key, value in about.items() if not isinstance(before, dict) or before.get(key) != value]
            raise FactorGraphError(
                f"{self.file} is of another {' and '.join(changed) or 'run'}; "
                "name another file, or go on with what it was begun with"
            )
        self.rows = rows
        return len(whole) + 1


def _refusal(file: Path, error: OSError) -> FactorGraphError:
    return FactorGraphError(f"{file} cannot be written ({error.strerror or error}); check the path and the space left")
