"""A line of an error table: one GPU, one engine, one kind of kernel."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError
from factorgraph.evaluation.forest import Forest
from factorgraph.metrics import Errors, errors


@dataclasses.dataclass(frozen=True)
class Cases:
    """What one GPU and one engine were measured on, and what is predicted there; arrays of shape (case,), times in s.

    Attributes:
        predicted, measured: NaN in `measured` where there is no measurement.
        roofline: the longest of FLOP/peak and bytes/bandwidth.
        features: (case, feature) of the shape, positive, for baselines that learn.
        regime: the quantity that errors are split by, with the upper ends of its ranges and their names.
        labels: what else tells the row apart, such as the phase.
    """

    predicted: np.ndarray
    measured: np.ndarray
    roofline: np.ndarray
    features: np.ndarray
    regime: np.ndarray
    regimes: tuple[tuple[float, str], ...]
    labels: dict[str, str] = dataclasses.field(default_factory=dict)

    def there(self) -> "Cases | None":
        """Only the cases that were measured; None where there are none."""
        known = np.isfinite(self.measured)
        if not known.any():
            return None
        kept = {
            field.name: getattr(self, field.name)[known]
            for field in dataclasses.fields(self)
            if field.name not in ("regimes", "labels")
        }
        return dataclasses.replace(self, **kept)


@dataclasses.dataclass(frozen=True)
class Row:
    """Errors on the measurements of one GPU by one engine, in percent.

    Attributes:
        sku, engine: whose measurements.
        role: "home" where the laws' constants were fitted on this GPU, else "unseen".
        errors: of the model.
        roofline, roofline_tuned: MAPE on the same rows of the roofline, and of roofline / 0.8 + 3 µs.
        forest, forest_scaled: MAPE of a random forest that learned the A100's times, as it is and scaled by the ratio
            of the rooflines; None without A100 measurements by that engine, and on the A100.
        regimes: errors by range of a quantity, where there are measurements.
        labels: what else tells the row apart.
    """

    sku: str
    engine: str
    role: str
    errors: Errors
    roofline: float
    roofline_tuned: float
    regimes: dict[str, Errors]
    forest: float | None = None
    forest_scaled: float | None = None
    labels: dict[str, str] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Flat, as the command prints it."""
        return {
            "sku": self.sku,
            "engine": self.engine,
            **self.labels,
            **dataclasses.asdict(self.errors),
            "roofline_mape": self.roofline,
            "roofline_tuned_mape": self.roofline_tuned,
            "forest_mape": self.forest,
            "forest_scaled_mape": self.forest_scaled,
            "role": self.role,
            "regimes": {name: dataclasses.asdict(found) for name, found in self.regimes.items()},
        }


def score(cases: Cases, *, sku: str, engine: str, role: str, forest: Forest | None = None) -> Row:
    """The row of measured cases."""
    learned = forest.predict(cases.features, cases.roofline) if forest else None
    return Row(
        sku=sku,
        engine=engine,
        role=role,
        errors=errors(cases.predicted, cases.measured),
        roofline=errors(cases.roofline, cases.measured).mape,
        roofline_tuned=errors(cases.roofline / 0.8 + 3e-6, cases.measured).mape,
        regimes=dict(_by_regime(cases)),
        forest=errors(learned.verbatim, cases.measured).mape if learned else None,
        forest_scaled=errors(learned.scaled, cases.measured).mape if learned else None,
        labels=cases.labels,
    )


def rows_of(
    cases_of: Callable[[str, str], Cases | None],
    *,
    skus: Sequence[str],
    engines: Sequence[str],
    home: Callable[[str], bool],
    learn: bool,
) -> Iterator[Row]:
    """A row for each GPU and engine that has cases; a baseline that is to learn does so from the A100's."""
    teachers = {engine: _teacher(cases_of, engine) for engine in engines} if learn else {}
    for sku in skus:
        for engine in engines:
            cases = cases_of(sku, engine)
            if cases is not None:
                forest = teachers.get(engine) if sku != TEACHER else None
                yield score(cases, sku=sku, engine=engine, role="home" if home(sku) else "unseen", forest=forest)


# The GPU that a learned baseline is trained on: the one profiled longest ago.
TEACHER = "a100-sxm4-80gb"


def _teacher(cases_of: Callable[[str, str], Cases | None], engine: str) -> Forest | None:
    cases = cases_of(TEACHER, engine)
    return None if cases is None else Forest.learn(cases.features, cases.measured, cases.roofline)


def _by_regime(cases: Cases) -> Iterator[tuple[str, Errors]]:
    low = -np.inf
    for high, name in cases.regimes:
        inside = (cases.regime > low) & (cases.regime <= high)
        if inside.any():
            yield name, errors(cases.predicted[inside], cases.measured[inside])
        low = high


def asked_skus(dataset: xr.Dataset, sku: str | None) -> list[str]:
    """The GPUs of a dataset in its order, or the one asked for.

    Raises:
        FactorGraphError: the dataset has no measurement of it.
    """
    known = list(dict.fromkeys(str(name) for name in dataset["sku"].values))
    if sku is not None and sku not in known:
        raise FactorGraphError(f"no measurement of '{sku}' in this dataset; it has {', '.join(known)}")
    return known if sku is None else [sku]
