"""Whether a file is the one that was written: checksums, and writing that leaves either the old file or the new one."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from factorgraph.errors import FactorGraphError

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST = 80


class IntegrityError(FactorGraphError):
    """A file that is missing, cut short, or not the one its checksum was taken of."""


def sha256(path: Path) -> str:
    """Checksum of a file, read in pieces.

    Examples:
        >>> import os
        >>> sha256(Path(os.devnull))[:16]
        'e3b0c44298fc1c14'
    """
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_name(name: str) -> str:
    """A dataset's name, which is also a file's, so that it must not lead elsewhere.

    Raises:
        FactorGraphError: it is not made of small letters, digits and single hyphens.

    Examples:
        >>> check_name("my-gemm-2")
        'my-gemm-2'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise FactorGraphError(
            f"{name!r} cannot name a dataset; use up to {_LONGEST} small letters, digits and hyphens, such as 'my-gemm'"
        )
    return name


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write beside the one at `path`, which it replaces once all was written; else the old one stays.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(file) as beside:
        ...     _ = beside.write_text("whole")
        >>> file.read_text(), len(list(file.parent.iterdir()))
        ('whole', 1)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
