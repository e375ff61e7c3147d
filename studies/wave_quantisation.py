"""The sawtooth of whole waves: how heavily each architecture's libraries pay for a last wave that is not full."""

import numpy as np
import xarray as xr

import factorgraph as fg
from factorgraph.studies import Findings, number

ID = "wave"
QUESTION = "Does a last wave that is not full cost a whole one, on Ampere and Ada, on Hopper, and on Blackwell?"
DATASETS = ("gemm-bf16",)
METHOD = (
    "Not measured by the report's protocol: public vLLM tables, at m >= 256, n and k >= 1024 and above 50 us. The "
    "logarithm of the ratio of times at successive m of one weight shape, whose steps across tile edges (256 to 257) "
    "show the sawtooth, against the fastest tiling of 128x128, 128x256 and 256x128 with "
    "waves = w ceil(u) + (1 - w) max(u, 1), u = tiles/SMs. w by least mean absolute error, per GPU; its interval by "
    "bootstrap over steps."
)
HOME = ()
UNSEEN = ("a100-sxm4-80gb", "l40s", "rtx-pro-6000-server", "h100-sxm", "h200-sxm", "b200", "gb200")
WEIGHTS = np.linspace(0.0, 1.0, 21)
_TILES = ((128, 128), (128, 256), (256, 128))
_LIKE_AMPERE = ("a100-sxm4-80gb", "l40s", "rtx-pro-6000-server")


def run() -> Findings:
    dataset = fg.load_dataset("gemm-bf16").sel(engine="vllm")
    found = np.empty((3, len(UNSEEN)))
    gains = np.empty((len(UNSEEN), WEIGHTS.size))
    steps = []
    for i, sku in enumerate(UNSEEN):
        errors = step_errors(dataset, sku)
        steps.append(errors.shape[1])
        gains[i] = errors.mean(axis=1)
        found[:, i] = WEIGHTS[gains[i].argmin()], *_interval(errors)
    names = ("weight", "weight_low", "weight_high")
    result = xr.Dataset(
        {name: ("sku", found[i], {"units": "1"}) for i, name in enumerate(names)}
        | {"error": (("sku", "w"), gains, {"units": "1"}), "steps": ("sku", steps, {"units": "1"})},
        coords={"sku": list(UNSEEN), "w": WEIGHTS},
    )
    ampere = [float(result["weight"].sel(sku=sku)) for sku in _LIKE_AMPERE]
    others = [float(result["weight"].sel(sku=sku)) for sku in UNSEEN if sku not in _LIKE_AMPERE]
    apart = min(ampere) > max(others)
    return Findings(
        result=result,
        numbers=tuple(number(result, f"{sku} weight of whole waves", "weight", sku=sku) for sku in UNSEEN),
        verdict=(
            f"{'Reproduced in kind' if apart else 'Differs'}: whole waves weigh {min(ampere):.2f} to {max(ampere):.2f} "
            f"on A100, L40S and the sm_120 card, and {min(others):.2f} to {max(others):.2f} on Hopper and sm_100."
        ),
        caveats=(
            "The tiling is taken to be the fastest of three; a library's heuristic may take another, which pulls the "
            "weight towards the middle. The A100's table has no pairs across a tile edge, so its weight comes from "
            "wider steps. Kernel names with tile sizes from a profiler would settle it."
        ),
    )


def step_errors(dataset: xr.Dataset, sku: str) -> np.ndarray:
    """(weight, step) absolute errors of the logarithm of the ratio of times at successive m."""
    table = dataset.sel(sku=sku)
    m, n, k, time = (table[name].values.astype(float) for name in ("m", "n", "k", "latency"))
    chosen = np.isfinite(time) & (m >= 256) & (n >= 1024) & (k >= 1024) & (time > 50e-6)
    m, n, k, time = (values[chosen] for values in (m, n, k, time))
    order = np.lexsort((m, n, k))
    m, n, k, time = (values[order] for values in (m, n, k, time))
    follows = (np.diff(n) == 0) & (np.diff(k) == 0)
    measured = np.diff(np.log(time))[follows]
    sms = float(fg.load_sku(sku).sm_count)
    predicted = np.stack([np.diff(np.log(rounds(m, n, sms, weight)))[follows] for weight in WEIGHTS])
    return np.abs(predicted - measured)


def rounds(m: np.ndarray, n: np.ndarray, sms: float, weight: float) -> np.ndarray:
    """Work of the busiest SM by the fastest tiling, in elements of the output."""
    alternatives = []
    for tile_m, tile_n in _TILES:
        u = np.ceil(m / tile_m) * np.ceil(n / tile_n) / sms
        alternatives.append((weight * np.ceil(u) + (1.0 - weight) * np.maximum(u, 1.0)) * tile_m * tile_n)
    return np.min(alternatives, axis=0)


def _interval(errors: np.ndarray) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    size = errors.shape[1]
    best = [WEIGHTS[errors[:, rng.integers(0, size, size)].mean(axis=1).argmin()] for _ in range(200)]
    low, high = np.quantile(best, [0.025, 0.975])
    return float(low), float(high)
