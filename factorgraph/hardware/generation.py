"""Facts that all GPUs of an architecture generation share."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.hardware.facts import Fact, FactFile
from factorgraph.paths import search_path

GENERATIONS_FILE = "generations.toml"

# What cards and laws rely on; a table may state more.
NEEDED_FACTS = (
    "compute_capability",
    "tensor_cores_per_sm",
    "smem_per_sm",
    "l2_partitions",
    "launch_class",
    "link_latency",
    "async_pipeline",
    "process_energy",
    "dram_energy",
    "attention_generation",
    "exponentials_per_clock",
)


@dataclasses.dataclass(frozen=True)
class Generation:
    """An architecture generation. Its facts are open: a law may read any number that the table states.

    Attributes:
        name: such as "hopper".
        title: how people call it.
        facts: numbers and yes-or-no facts by name, with their sources.
    """

    name: str
    title: str
    facts: Mapping[str, Fact]

    def __getitem__(self, fact: str) -> float:
        """The value of a fact in its SI unit.

        Raises:
            UnknownNameError: the generation has no fact of that name.

        Examples:
            >>> load_generation("hopper")["smem_per_sm"]
            233472.0
        """
        if fact not in self.facts:
            raise UnknownNameError(f"fact of generation {self.name}", fact, self.facts)
        return self.facts[fact].value


def list_generations() -> tuple[str, ...]:
    """Names of all generations on the search path.

    Examples:
        >>> "hopper" in list_generations()
        True
    """
    return tuple(sorted({name for table in _tables() for name in table.content}))


def load_generation(name: str) -> Generation:
    """Facts of a generation: from the user's own table (FACTORGRAPH_PATH) if it is there, else the bundled one.

    Raises:
        UnknownNameError: no table has that generation.
        FactorGraphError: the table states it wrongly; the line is named.

    Examples:
        >>> load_generation("ada").title
        'Ada Lovelace (AD10x)'
    """
    for table in _tables():
        if name in table.content:
            facts = {key: table.anything((name, key)) for key in table.keys((name,)) if key != "title"}
            for fact in NEEDED_FACTS:
                if fact not in facts:
                    raise table.fault((name,), f"lacks {fact}; add a line {fact} = {{ value = ..., source = ... }}")
            return Generation(name, table.text((name, "title")), facts)
    raise UnknownNameError("generation", name, list_generations())


def _tables() -> list[FactFile]:
    files = (folder / GENERATIONS_FILE for folder in search_path("hardware"))
    tables = [_table(file, file.stat().st_mtime_ns) for file in files if file.is_file()]
    if not tables:
        raise FactorGraphError(f"no {GENERATIONS_FILE} on the search path; install factorgraph again")
    return tables


@functools.cache
def _table(file: Path, modified: int) -> FactFile:
    """A file as it was at that time: every card asks for it."""
    return FactFile(file)
