"""What a user is told when something they gave cannot be used: one sentence naming the thing and the mend."""

import difflib
from collections.abc import Iterable


class FactorGraphError(ValueError):
    """A fault in what the caller gave. Its text is the whole message; the command line shows it without a traceback."""


class UnknownNameError(FactorGraphError):
    """A name that nothing carries, with the names that come nearest.

    Examples:
        >>> str(UnknownNameError("GPU", "h100sxm", ["h100-sxm", "l4"]))
        "unknown GPU 'h100sxm'; did you mean 'h100-sxm'?"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = sorted(known)
        near = difflib.get_close_matches(str(name).lower(), known, n=3, cutoff=0.5)
        if near:
            mend = "did you mean " + " or ".join(f"'{other}'" for other in near) + "?"
        else:
            mend = "known: " + (", ".join(known) if known else "none")
        super().__init__(f"unknown {kind} '{name}'; {mend}")
