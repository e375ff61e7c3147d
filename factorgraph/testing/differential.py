"""A law beside another one, or beside measurements."""

import hypothesis
import numpy as np
import xarray as xr
from hypothesis import HealthCheck

from factorgraph.errors import FactorGraphError
from factorgraph.factor import Factor
from factorgraph.testing.bench import Bench, Values
from factorgraph.testing.judging import LawError
from factorgraph.testing.strategies import values_for
from factorgraph.testing.wording import amount, point

_EXAMPLES = 100
# Below any number that a law gives on purpose.
_NOTHING = 1e-15


def check_against(
    law: Factor, reference: Factor | xr.Dataset, tolerance: float, *, examples: int = _EXAMPLES, seed: int = 0
) -> None:
    """Hold a law to another that gives the same variable, or to measurements of it.

    Args:
        law: the law in question.
        reference: a law of the same output that reads no more than this one; or a dataset with a column for each
            input and for the output, named as the variables, in their units.
        tolerance: relative difference allowed at every point; of a dataset, that allowed on average over its rows.
        examples: points drawn from the inputs' domains; of a dataset all rows are taken.
        seed: of the draw.

    Raises:
        LawError: they differ by more, with the smallest example, or the worst row.
        FactorGraphError: they cannot be compared.

    Examples:
        >>> from factorgraph.laws.total import OverlappedHost, SerialHost
        >>> check_against(OverlappedHost(), SerialHost(), tolerance=0.5)  # at most half is hidden
    """
    if isinstance(reference, xr.Dataset):
        _against_data(law, reference, tolerance)
    else:
        _against_law(law, reference, tolerance, examples, seed)


def _against_law(law: Factor, reference: Factor, tolerance: float, examples: int, seed: int) -> None:
    ours, theirs = Bench.of(law), Bench.of(reference)
    if law.output != reference.output or not set(theirs.inputs) <= set(ours.inputs):
        raise FactorGraphError(
            f"law {reference.law_name} is no reference for {law.law_name}: it must give '{law.output.name}' "
            f"and read no more than {', '.join(ours.inputs)}"
        )

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.nested_given],
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(values_for(law))
    def agrees(values: Values) -> None:
        found = ours.double(values)
        expected = theirs.double({name: values[name] for name in theirs.inputs})
        if not abs(found - expected) <= tolerance * abs(expected) + _NOTHING:
            raise LawError(
                f"law {law.law_name} gives {amount(found, law.output)} and {reference.law_name} "
                f"{amount(expected, law.output)}, more than {tolerance:.3g} apart"
                f"\n  smallest example: {point(values, ours)}"
            )

    try:
        agrees()
    except LawError as error:
        raise LawError(str(error)) from None


def _against_data(law: Factor, data: xr.Dataset, tolerance: float) -> None:
    bench = Bench.of(law)
    for name in (*bench.inputs, law.output.name):
        if name not in data.variables:
            raise FactorGraphError(f"the dataset has no '{name}', which law {law.law_name} needs; rename a column")
    rows = data.to_dataframe().reset_index()
    columns = {name: rows[name].to_numpy(float) for name in (*bench.inputs, law.output.name)}
    measured = columns.pop(law.output.name)
    kept = np.isfinite(measured)
    if not kept.any():
        raise FactorGraphError(f"the dataset has no row in which '{law.output.name}' was measured")
    found = bench.batch({name: column[kept] for name, column in columns.items()})
    errors = np.abs(found - measured[kept]) / np.abs(measured[kept])
    if np.mean(errors) > tolerance:
        worst = int(np.argmax(errors))
        values = {name: float(column[kept][worst]) for name, column in columns.items()}
        raise LawError(
            f"law {law.law_name} misses the measurements by {np.mean(errors):.3g} on average, more than "
            f"{tolerance:.3g}; at the worst row it gives {amount(found[worst], law.output)}, measured "
            f"{amount(measured[kept][worst], law.output)}\n  worst row: {point(values, bench)}"
        )
