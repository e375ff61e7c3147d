"""Host constants that follow a stream of steps: S(N) = s0 + s1 N, with forgetting and a detector of shifts."""

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import ArrayLike

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph


@dataclasses.dataclass(frozen=True)
class Host:
    """Time of a step at N concurrent sequences: s0 + s1 N, both in seconds."""

    s0: float
    s1: float

    def predict(self, sequences: ArrayLike) -> np.ndarray:
        return self.s0 + self.s1 * np.asarray(sequences, np.float64)

    def into(self, graph: FactorGraph) -> FactorGraph:
        """A graph with these as constants of its law of host time."""
        return graph.with_parameters({"t_host.s0": self.s0, "t_host.s1": self.s1})


@dataclasses.dataclass(frozen=True)
class Followed:
    """What an adapter made of a stream.

    Attributes:
        predicted: of each step in s, made before it was seen.
        s0, s1: in s, after each step.
        shifts: the steps at which the detector said that the host had changed.
        final: the constants at the end.
    """

    predicted: np.ndarray
    s0: np.ndarray
    s1: np.ndarray
    shifts: tuple[int, ...]
    final: Host

    def regret(self, seconds: ArrayLike, oracle: ArrayLike) -> float:
        """Squared error beyond that of an oracle's predictions, in mean over the steps, s^2."""
        seconds = np.asarray(seconds, np.float64)
        errors = (seconds - self.predicted) ** 2 - (seconds - np.asarray(oracle, np.float64)) ** 2
        return float(errors.mean())


def read_log(path: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """Concurrency and step time in s from a CSV file whose first row names two columns, `N` and `seconds`.

    Raises:
        FactorGraphError: there is no such file, it lacks a column, or a row is not two numbers above zero.
    """
    path = Path(path)
    if not path.is_file():
        raise FactorGraphError(f"there is no log {path}")
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        missing = {"N", "seconds"} - set(rows.fieldnames or ())
        if missing:
            raise FactorGraphError(f"{path} has no column {' and '.join(sorted(missing))}; name them in the first row")
        found = []
        for number, row in enumerate(rows, start=2):
            try:
                found.append((float(row["N"]), float(row["seconds"])))
            except (TypeError, ValueError):
                raise FactorGraphError(f"line {number} of {path} is not two numbers; mend it or leave it out") from None
    sequences, seconds = np.asarray(found, np.float64).reshape(-1, 2).T
    return _checked(sequences, seconds)


def calibrate(sequences: ArrayLike, seconds: ArrayLike, *, gpu: ArrayLike = 0.0) -> Host:
    """Constants by least squares, once: the baseline that following a stream has to beat.

    Args:
        sequences: concurrency of each step.
        seconds: its time.
        gpu: what the GPU took of it, in s, such as predictions of `t_gpu`.

    Raises:
        FactorGraphError: fewer than two different concurrencies.

    Examples:
        >>> host = calibrate([1, 10, 100], [1.1e-3, 2.0e-3, 11.0e-3])
        >>> round(host.s0 * 1e3, 6), round(host.s1 * 1e3, 6)
        (1.0, 0.1)
    """
    n, t = _checked(sequences, seconds)
    if np.unique(n).size < 2:
        raise FactorGraphError("one concurrency cannot tell s0 from s1; log steps at two or more")
    s1, s0 = np.polyfit(n, t - np.asarray(gpu, np.float64), 1)
    return Host(float(s0), float(s1))


def follow(
    sequences: ArrayLike,
    seconds: ArrayLike,
    *,
    start: Host,
    gpu: ArrayLike = 0.0,
    learning_rate: float = 0.02,
    threshold: float = 40.0,
    warm_up: int = 50,
) -> Followed:
    """Update constants after every step, by stochastic gradient descent (optax), and look for shifts.

    Each step moves the constants by `learning_rate` of what explains its error (normalised least mean squares), so a
    step is forgotten at that rate. Beside it runs a two-sided Page-Hinkley test on the error over its scale, which is
    found from the first `warm_up` steps after a shift. Where it says so, the rate is ten times higher for
    a while, so that the constants come over quickly.

    Args:
        sequences: concurrency of each step, in order.
        seconds: its time.
        start: constants before the first step, such as those of `calibrate`.
        gpu: what the GPU took of it, in s.
        learning_rate: between 0 and 1; 1 over it is about how many steps are remembered.
        threshold: of the test, in scales of the error: the higher, the rarer false alarms and the later true ones.
        warm_up: steps from which the scale is found.

    Raises:
        FactorGraphError: the log is not as long as the warm-up, or a setting makes no sense.
    """
    n, t = _checked(sequences, seconds)
    if not 0.0 < learning_rate <= 0.1:
        raise FactorGraphError(f"learning_rate={learning_rate:g} must be above 0 and at most 0.1")
    if n.size <= warm_up:
        raise FactorGraphError(f"{n.size} steps are no more than the warm-up of {warm_up}; log more steps")
    # In units in which both constants are about one, so that one rate fits both.
    unit_n, unit_t = float(np.sqrt(np.mean(n**2))), float(np.mean(t))
    own = np.broadcast_to(t - np.asarray(gpu, np.float64), t.shape) / unit_t
    weights = np.asarray([start.s0, start.s1 * unit_n]) / unit_t
    rate, bar = jnp.asarray(learning_rate, float), jnp.asarray(threshold, float)
    stream = (jnp.asarray(n / unit_n, float), jnp.asarray(own, float))
    predicted, path, alarms = _follow(*stream, jnp.asarray(weights, float), rate, bar, warm_up)
    s0, s1 = np.asarray(path, np.float64).T * unit_t / np.asarray([[1.0], [unit_n]])
    return Followed(
        predicted=np.asarray(predicted, np.float64) * unit_t + np.asarray(gpu, np.float64),
        s0=s0,
        s1=s1,
        shifts=tuple(np.flatnonzero(np.asarray(alarms)).tolist()),
        final=Host(float(s0[-1]), float(s1[-1])),
    )


# Drifts smaller than this many scales of the error are not looked for: half of the smallest shift that is.
_SLACK = 0.5
# How much faster constants move after a shift, and for how many warm-ups.
_BOOST = 10.0


@eqx.filter_jit
def _follow(n: Array, t: Array, weights: Array, rate: Array, threshold: Array, warm_up: int):
    optimiser = optax.inject_hyperparams(optax.sgd)(learning_rate=rate)

    def step(state, observed):
        weights, moments, sums, since, boosted, opt = state
        sequences, time = observed
        features = jnp.stack([jnp.ones(()), sequences])
        predicted = features @ weights
        error = time - predicted
        # Scale of the error, from the first steps after the start or a shift.
        learning = since < warm_up
        moments = jnp.where(learning, moments + error**2, moments)
        scale = jnp.sqrt(moments / jnp.minimum(since + 1, warm_up)) + 1e-9
        standard = jnp.clip(error / scale, -8.0, 8.0)
        grown = jnp.maximum(sums + jnp.stack([standard, -standard]) - _SLACK, 0.0)
        sums = jnp.where(learning, 0.0, grown)
        alarm = jnp.any(sums > threshold)
        # The gradient of error^2/2 over the length of the features: a rate of one would explain the step exactly.
        gradient = -error * features / (features @ features)
        opt.hyperparams["learning_rate"] = jnp.where(boosted > 0, jnp.minimum(_BOOST * rate, 0.5), rate)
        updates, opt = optimiser.update(gradient, opt)
        weights = jnp.asarray(optax.apply_updates(weights, updates))
        boosted = jnp.where(alarm, warm_up, jnp.maximum(boosted - 1, 0))
        # After a shift the scale is found anew, once the constants have come over.
        since = jnp.where(alarm, -warm_up, since + 1)
        moments = jnp.where(since < 0, 0.0, moments)
        sums = jnp.where(alarm, 0.0, sums)
        return (weights, moments, sums, since, boosted, opt), (predicted, weights, alarm)

    zero, none = jnp.zeros(()), jnp.zeros((), int)
    state = (weights, zero, jnp.zeros(2), none, none, optimiser.init(weights))
    return jax.lax.scan(step, state, (n, t))[1]


def _checked(sequences: ArrayLike | Sequence[float], seconds: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    n, t = np.asarray(sequences, np.float64), np.asarray(seconds, np.float64)
    if n.ndim != 1 or n.shape != t.shape:
        raise FactorGraphError(f"{n.shape} concurrencies do not belong to {t.shape} step times; give one a step")
    for what, numbers in (("concurrency", n), ("step time", t)):
        wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
        if wrong.size:
            raise FactorGraphError(
                f"the {what} of step {wrong[0]} is {numbers[wrong[0]]:g}; it must be a number above zero"
            )
    return n, t
