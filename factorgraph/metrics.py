"""Error measures, in percent, of predicted against measured times."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from factorgraph.errors import FactorGraphError


@dataclasses.dataclass(frozen=True)
class Errors:
    """Relative errors of n predictions, in percent.

    Attributes:
        n: how many pairs were compared.
        mape: mean absolute relative error.
        median: median absolute relative error.
        bias: mean signed relative error; positive where times are over-predicted.
    """

    n: int
    mape: float
    median: float
    bias: float


def errors(predicted: ArrayLike, measured: ArrayLike) -> Errors:
    """Compare predictions with measurements of the same shape.

    Args:
        predicted, measured: positive times in one unit.

    Raises:
        FactorGraphError: the shapes differ, nothing is to be compared, or a value is not positive and finite.

    Examples:
        >>> errors([1.1, 0.9], [1.0, 1.0])
        Errors(n=2, mape=10.0, median=10.0, bias=0.0)
    """
    predicted, measured = np.asarray(predicted, np.float64), np.asarray(measured, np.float64)
    if predicted.shape != measured.shape:
        raise FactorGraphError(f"{predicted.shape} predictions cannot be compared with {measured.shape} measurements")
    if measured.size == 0:
        raise FactorGraphError("there is no measurement to compare with")
    for what, values in (("prediction", predicted), ("measurement", measured)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise FactorGraphError(f"a {what} is not a positive, finite number; leave such rows out before comparing")
    relative = 100.0 * (predicted - measured) / measured
    absolute = np.abs(relative)
    return Errors(
        n=int(measured.size),
        mape=round(float(absolute.mean()), 9),
        median=round(float(np.median(absolute)), 9),
        bias=round(float(relative.mean()), 9),
    )
