"""Studies: a question asked of graph and data, in one file each, whose numbers carry the selection they came from."""

import dataclasses
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from factorgraph.datasets import list_datasets
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.paths import search_path
from factorgraph.results import write


@dataclasses.dataclass(frozen=True)
class Number:
    """One figure of a study, with where it came from.

    Attributes:
        name: what it is called, unique in the study.
        value, unit: the figure.
        variable, selection: of the study's result file, from which it was taken.
        reported: what the starting report says, if it says anything.
        interval: lower and upper end, if the study gives one.
    """

    name: str
    value: float
    unit: str
    variable: str
    selection: dict[str, str]
    reported: float | None = None
    interval: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a study's `run` returns: its result, the numbers to be quoted from it, and what they mean.

    Attributes:
        result: every value the study computed.
        numbers: those that are quoted.
        verdict: "reproduced", "differs" or "not testable here", and why.
        caveats: what limits the verdict, and what would change it.
    """

    result: xr.Dataset
    numbers: tuple[Number, ...]
    verdict: str
    caveats: str


@dataclasses.dataclass(frozen=True)
class Study:
    """A study as its file states it: ID, QUESTION, DATASETS, METHOD, HOME, UNSEEN and `run()`."""

    id: str
    question: str
    datasets: tuple[str, ...]
    method: str
    home: tuple[str, ...]
    unseen: tuple[str, ...]
    run: Callable[[], Findings]


def number(result: xr.Dataset, name: str, variable: str, *, reported: float | None = None, **selection: str) -> Number:
    """A figure taken from a result by selection, so that it can be traced.

    Its interval is what the variables `<variable>_low` and `<variable>_high` hold there, if the result has them.

    Examples:
        >>> made = xr.Dataset({"eta": ("sku", [0.5, 0.7], {"units": "1"})}, coords={"sku": ["a", "b"]})
        >>> number(made, "b's", "eta", sku="b").value
        0.7
    """
    taken = result[variable].sel(selection)
    ends = [f"{variable}_{end}" for end in ("low", "high")]
    interval = None
    if all(end in result for end in ends):
        interval = float(result[ends[0]].sel(selection)), float(result[ends[1]].sel(selection))
    unit = str(result[variable].attrs.get("units", "1"))
    return Number(name, float(taken), unit, variable, selection, reported, interval)


def bootstrap_mean(values: ArrayLike, *, resamples: int = 400) -> tuple[float, float, float]:
    """Mean of (case,) values, and the ends of its 95 % percentile interval over resampled cases.

    The cases count as independent, which rows of one sweep are not quite: a lower bound on the uncertainty.

    Examples:
        >>> bootstrap_mean([2.0, 2.0, 2.0])
        (2.0, 2.0, 2.0)
    """
    cases = np.asarray(values, np.float64)
    rng = np.random.default_rng(0)
    means = np.array([cases[rng.integers(0, cases.size, cases.size)].mean() for _ in range(resamples)])
    low, high = np.quantile(means, [0.025, 0.975])
    return float(cases.mean()), float(low), float(high)


def list_studies() -> tuple[Study, ...]:
    """All studies on the search path, by id.

    Examples:
        >>> "E1.5" in [study.id for study in list_studies()]
        True
    """
    found: dict[str, Study] = {}
    for folder in search_path("studies"):
        for file in sorted(folder.glob("*.py")):
            study = _read(file)
            found.setdefault(study.id, study)
    return tuple(found[key] for key in sorted(found))


def run_studies(ids: tuple[str, ...], folder: Path) -> Iterator[tuple[Study, Findings | FactorGraphError]]:
    """Run studies one after the other; one that fails does not stop the others.

    Each leaves `<folder>/<id>/result.nc` and `numbers.json`.

    Raises:
        UnknownNameError: there is no study of that id.
    """
    studies = {study.id: study for study in list_studies()}
    for wanted in ids:
        if wanted not in studies:
            raise UnknownNameError("study", wanted, studies)
    for study in [studies[wanted] for wanted in ids] if ids else studies.values():
        try:
            findings = study.run()
        except FactorGraphError as error:
            yield study, error
            continue
        write(findings.result, folder / study.id / "result.nc")
        document = describe(study, findings)
        (folder / study.id / "numbers.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        yield study, findings


def describe(study: Study, findings: Findings) -> dict:
    """A study and its numbers as one document, with the checksums of the data they were computed from."""
    sums = {entry.name: {name: file.sha256 for name, file in entry.files.items()} for entry in list_datasets()}
    return {
        "id": study.id,
        "question": study.question,
        "method": study.method,
        "home": list(study.home),
        "unseen": list(study.unseen),
        "datasets": {name: sums[name] for name in study.datasets},
        "verdict": findings.verdict,
        "caveats": findings.caveats,
        "numbers": [dataclasses.asdict(number) | {"file": f"{study.id}/result.nc"} for number in findings.numbers],
    }


def report(folder: Path) -> str:
    """A Markdown report of the studies whose results lie in a folder, each number beside the starting report's.

    Raises:
        FactorGraphError: no study was run into that folder.
    """
    files = sorted(folder.glob("*/numbers.json"))
    if not files:
        raise FactorGraphError(f"no results in {folder}; run `factorgraph study run` first")
    parts = ["# Studies"]
    for file in files:
        study = json.loads(file.read_text(encoding="utf-8"))
        parts += [f"## {study['id']}: {study['question']}", study["method"], f"**Verdict.** {study['verdict']}"]
        parts.append("| number | value | 95 % interval | unit | report | from |\n|---|---|---|---|---|---|")
        for one in study["numbers"]:
            chosen = ", ".join(f"{key}={value}" for key, value in one["selection"].items())
            said = "-" if one["reported"] is None else f"{one['reported']:g}"
            trace = f"{one['file']}: {one['variable']}[{chosen}]"
            value = f"{one['value']:.4g} | {_between(one['interval'])} | {one['unit']}"
            parts[-1] += f"\n| {one['name']} | {value} | {said} | {trace} |"
        parts.append(f"Home: {', '.join(study['home']) or 'none'}. Unseen: {', '.join(study['unseen']) or 'none'}.")
        parts.append(study["caveats"])
    return "\n\n".join(parts) + "\n"


def _between(interval: list[float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:.4g} to {interval[1]:.4g}"


def _read(file: Path) -> Study:
    module = _load(file)
    fields = {"id": "ID", "question": "QUESTION", "datasets": "DATASETS", "method": "METHOD", "home": "HOME"}
    fields |= {"unseen": "UNSEEN", "run": "run"}
    for word in fields.values():
        if not hasattr(module, word):
            raise FactorGraphError(f"study {file.name} states no {word}; a study states {', '.join(fields.values())}")
    return Study(**{field: getattr(module, word) for field, word in fields.items()})


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_factorgraph_study_{file.stem.replace('.', '_')}", file)
    if spec is None or spec.loader is None:
        raise FactorGraphError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FactorGraphError:
        raise
    except Exception as error:  # whatever a study's file raises is said in one sentence
        raise FactorGraphError(f"study {file.name} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
