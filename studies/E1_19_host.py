"""Host constants: calibrated once against followed step by step, on made streams that stay and that shift."""

import numpy as np
import xarray as xr

from factorgraph.online import Host, calibrate, follow
from factorgraph.studies import Findings, bootstrap_mean, number

ID = "E1.19"
QUESTION = "Does following the host's constants beat calibrating them once, on a stream that stays and one that shifts?"
DATASETS = ("reported-round1",)
METHOD = (
    "Not measured: no bundled data log an engine's steps. Twenty made streams of 4,000 steps of 1 to 128 sequences, "
    "S(N) = 2.37 ms + 5 us N with 3 % noise; in the shifted ones S grows by half after 2,000 steps. Both ways see "
    "the first 200 steps; the rest are scored before they are seen. Regret is the error beyond that of the truth."
)
HOME = ()
UNSEEN = ()
_STREAMS, _STEPS, _SEEN = 20, 4000, 200
_TRUE = Host(2.37e-3, 5e-6)


def run() -> Findings:
    errors = np.array([[_errors(seed, shift) for seed in range(_STREAMS)] for shift in (1.0, 1.5)])
    means = np.array([[bootstrap_mean(errors[i, :, j]) for j in (0, 1)] for i in (0, 1)])
    names = ("regret", "regret_low", "regret_high")
    wins = (errors[:, :, 1] < errors[:, :, 0]).sum(axis=1)
    result = xr.Dataset(
        {name: (("stream", "way"), means[..., i], {"units": "%"}) for i, name in enumerate(names)}
        | {"wins": ("stream", wins, {"units": "1"})},
        coords={"stream": ["stationary", "shifted"], "way": ["once", "followed"]},
    )
    numbers = [
        number(result, f"{stream}, {way}", "regret", stream=stream, way=way)
        for stream in ("stationary", "shifted")
        for way in ("once", "followed")
    ]
    numbers += [
        number(result, f"{stream}, streams of {_STREAMS} won by following", "wins", stream=stream)
        for stream in ("stationary", "shifted")
    ]
    as_reported = wins[0] < _STREAMS / 2 < wins[1]
    return Findings(
        result=result,
        numbers=tuple(numbers),
        verdict=(
            f"{'Reproduced' if as_reported else 'Differs'} on made streams: following wins {wins[0]} of {_STREAMS} "
            f"stationary streams and {wins[1]} of {_STREAMS} shifted ones."
        ),
        caveats=(
            "Made streams have the law's own form, which favours calibration once where nothing shifts. Step logs of "
            "an engine across a restart or a change of load would decide it."
        ),
    )


def _errors(seed: int, shift: float) -> tuple[float, float]:
    """Regret of either way, in percentage points of mean absolute error."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 129, _STEPS).astype(float)
    truth = _TRUE.predict(n) * np.where(np.arange(_STEPS) < _STEPS // 2, 1.0, shift)
    seconds = truth * (1.0 + 0.03 * rng.standard_normal(_STEPS))
    once = calibrate(n[:_SEEN], seconds[:_SEEN])
    followed = follow(n[_SEEN:], seconds[_SEEN:], start=once).predicted
    n, truth, seconds = n[_SEEN:], truth[_SEEN:], seconds[_SEEN:]
    least = np.abs(truth / seconds - 1.0).mean()
    ways = (once.predict(n), followed)
    return tuple(100.0 * float(np.abs(way / seconds - 1.0).mean() - least) for way in ways)
