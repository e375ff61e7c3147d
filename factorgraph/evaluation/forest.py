"""A baseline that learns: a random forest on one GPU's measurements, carried over to another GPU."""

from typing import NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestRegressor

_SEED, _TREES = 0, 30


class Transferred(NamedTuple):
    """Times in s on another GPU: as they were learned, and scaled by the ratio of the two rooflines."""

    verbatim: np.ndarray
    scaled: np.ndarray


class Forest:
    """Logarithms of times and rooflines, learned from logarithms of shapes.

    Examples:
        >>> import numpy as np
        >>> shapes = np.repeat([[1.0], [10.0]], 8, axis=0)
        >>> forest = Forest.learn(shapes, shapes[:, 0] * 1e-6, shapes[:, 0] * 1e-7)
        >>> found = forest.predict(np.array([[10.0]]), np.array([5e-7]))
        >>> f"{found.verbatim[0]:.1e} {found.scaled[0]:.1e}"
        '1.0e-05 5.0e-06'
    """

    def __init__(self, times: RandomForestRegressor, rooflines: RandomForestRegressor):
        self._times, self._rooflines = times, rooflines

    @classmethod
    def learn(cls, features: np.ndarray, times: np.ndarray, rooflines: np.ndarray) -> "Forest":
        """From (case, feature) shapes and (case,) times and rooflines, all positive."""
        return cls(*(_forest().fit(np.log(features), np.log(target)) for target in (times, rooflines)))

    def predict(self, features: np.ndarray, rooflines: np.ndarray) -> Transferred:
        """Times on a GPU with other rooflines."""
        verbatim = np.exp(self._times.predict(np.log(features)))
        return Transferred(verbatim, verbatim * rooflines / np.exp(self._rooflines.predict(np.log(features))))


def _forest() -> RandomForestRegressor:
    return RandomForestRegressor(n_estimators=_TREES, random_state=_SEED, n_jobs=-1)
