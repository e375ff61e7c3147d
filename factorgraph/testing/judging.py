"""Hold a law to its physics, and tell the smallest example where it breaks."""

import dataclasses
from collections.abc import Iterable

import hypothesis
from hypothesis import HealthCheck
from hypothesis.errors import Flaky

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor
from factorgraph.testing.bench import Bench, Values
from factorgraph.testing.checks import CHECKS, EFFORT
from factorgraph.testing.strategies import values_for
from factorgraph.testing.wording import point

_EXAMPLES = 25


class LawError(AssertionError):
    """A law that broke a check. The text names the law, the check, the smallest example and the numbers."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How one check of a law went.

    Attributes:
        check: its name in `CHECKS`.
        passed: whether the law holds.
        message: what is wrong, with the smallest example; empty if it holds.
    """

    check: str
    passed: bool
    message: str = ""


def check_law(law: Factor, *, checks: Iterable[str] | None = None, examples: int = _EXAMPLES, seed: int = 0) -> None:
    """Hold a law to its physics.

    Args:
        law: an instance.
        checks: names out of `CHECKS`; all by default.
        examples: points drawn for each check; around each, lines of some hundred points are laid along every input.
        seed: of the draw; the same seed draws the same points.

    Raises:
        LawError: the first check that fails, with the smallest example found.
        UnknownNameError: a check of another name.

    Examples:
        >>> from factorgraph.laws.host import HostResidual
        >>> check_law(HostResidual(), examples=5)
    """
    for name in _known(CHECKS if checks is None else checks):
        _run(law, name, examples, seed)


def judge(
    law: Factor, *, checks: Iterable[str] | None = None, examples: int = _EXAMPLES, seed: int = 0
) -> list[Verdict]:
    """Every check of a law, whether it passed, and if not, why; arguments as for `check_law`.

    Examples:
        >>> from factorgraph.laws.host import HostResidual
        >>> judge(HostResidual(), checks=["domain"], examples=5)
        [Verdict(check='domain', passed=True, message='')]
    """
    verdicts = []
    for name in _known(CHECKS if checks is None else checks):
        try:
            _run(law, name, examples, seed)
        except LawError as error:
            verdicts.append(Verdict(name, False, str(error)))
        else:
            verdicts.append(Verdict(name, True))
    return verdicts


def _known(names: Iterable[str]) -> list[str]:
    names = list(names)
    for name in names:
        if name not in CHECKS:
            raise UnknownNameError("check", name, CHECKS)
    return names


def _run(law: Factor, name: str, examples: int, seed: int) -> None:
    try:
        bench = Bench.of(law)
    except FactorGraphError as error:
        raise LawError(f"law {law.law_name} fails '{name}': {error}") from None

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(1, round(examples * EFFORT.get(name, 1.0))),
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.nested_given],
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(values_for(law))
    def holds(values: Values) -> None:
        if complaint := _complaint(bench, name, values):
            raise LawError(
                f"law {law.law_name} fails '{name}': {complaint}\n  smallest example: {point(values, bench)}"
            )

    try:
        holds()
    except LawError as error:
        raise LawError(str(error)) from None  # without the notes that Hypothesis adds for its own tests
    except Flaky:
        raise LawError(
            f"law {law.law_name} fails '{name}': it answers the same question differently each time"
        ) from None


def _complaint(bench: Bench, name: str, values: Values) -> str | None:
    try:
        return CHECKS[name](bench, values)
    except Exception as error:  # whatever a user's law raises is a fault of the law, told in one sentence
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return f"it cannot be run ({type(error).__name__}: {reason})"
