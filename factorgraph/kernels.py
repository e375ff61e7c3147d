"""A prediction read kernel by kernel: how long, how much work, which factors, what bounds it."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError

FACTORS: tuple[str, ...] = ("eta_clock", "eta_wave", "eta_tc", "eta_barrier", "eta_mem")
# Below it the traffic of a GEMM takes longer than its computing would: a ridge of sharpness 2.7 gives 2^(-1/2.7).
_MEMORY_BOUND = 0.77
_BOUND: dict[str, str] = dict(zip(FACTORS, ("clock", "wave", "tensor core", "barrier", "memory"), strict=True))


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kind of launch in a step.

    Attributes:
        name, kind: which kernel, on which plate.
        count: launches in the step.
        time_s: seconds of one launch; count * time_s adds up to t_gpu.
        flop, bytes: work and compulsory traffic of one launch.
        eta_clock ... eta_mem: the five factors of a GEMM, None for other kernels.
        bound: of a GEMM "memory" where traffic takes longer than computing, else its largest loss; "compute" or
            "memory" of attention; "launch" or "memory" of light kernels; "link" of collectives.
    """

    name: str
    kind: str
    count: float
    time_s: float
    flop: float
    bytes: float
    eta_clock: float | None
    eta_wave: float | None
    eta_tc: float | None
    eta_barrier: float | None
    eta_mem: float | None
    bound: str


def kernel_table(prediction: xr.Dataset) -> list[Kernel]:
    """The kernels of one prediction, longest total first.

    Args:
        prediction: from `predict`, for one card and one step (select along other dimensions first).

    Raises:
        FactorGraphError: the prediction still has a dimension beside the kernels'.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> kernel_table(fg.predict(fg.step_graph(), fg.load_sku("h100-sxm"), step))[0].bound
        'memory'
    """
    outer = set(prediction["t_gpu"].dims)
    if outer:
        raise FactorGraphError(f"this prediction spans {', '.join(sorted(map(str, outer)))}; select one with .sel(...)")
    rows = [kernel for read in (_gemms, _attention, _light, _collectives) for kernel in read(prediction)]
    return sorted((row for row in rows if row.count > 0), key=lambda row: -row.count * row.time_s)


def _along(prediction: xr.Dataset, plate: str, time: str) -> Iterator[tuple[str, Callable[[str], float]]]:
    """Name and reader of each kernel on a plate that the prediction has times for."""
    if time not in prediction or plate not in prediction.dims:
        return
    for i in range(prediction.sizes[plate]):
        one = prediction.isel({plate: i})
        name = str(one[plate].values) if plate in prediction.coords else f"{plate} {i}"
        yield name, lambda variable, one=one: float(one[variable])


def _gemms(prediction: xr.Dataset) -> Iterator[Kernel]:
    for name, read in _along(prediction, "gemm", "t_gemm"):
        etas = dict(zip(FACTORS, map(read, FACTORS), strict=True))
        work = (read("gemm_count"), read("t_gemm"), read("gemm_flop"), read("traffic"))
        limit = "eta_mem" if etas["eta_mem"] < _MEMORY_BOUND else min(etas, key=lambda factor: etas[factor])
        yield Kernel(name, "gemm", *work, **etas, bound=_BOUND[limit])


def _attention(prediction: xr.Dataset) -> Iterator[Kernel]:
    fastest = float(np.max(prediction["peak_flops"]))
    for name, read in _along(prediction, "attention", "t_attention"):
        flop, traffic = read("attention_flop"), read("attention_bytes")
        bound = "memory" if traffic / float(prediction["dram_bandwidth"]) > flop / fastest else "compute"
        yield _other(name, "attention", read("attention_count"), read("t_attention"), flop, traffic, bound)


def _light(prediction: xr.Dataset) -> Iterator[Kernel]:
    for name, read in _along(prediction, "light", "t_light"):
        traffic, time = read("light_bytes"), read("t_light")
        bound = "memory" if traffic / float(prediction["dram_bandwidth"]) > 0.5 * time else "launch"
        yield _other(name, "light", read("light_count"), time, 0.0, traffic, bound)


def _collectives(prediction: xr.Dataset) -> Iterator[Kernel]:
    for name, read in _along(prediction, "collective", "t_collective"):
        count, time = read("collective_count"), read("t_collective")
        yield _other(name, "collective", count, time, 0.0, read("message_bytes"), "link")


def _other(name: str, kind: str, count: float, time: float, flop: float, traffic: float, bound: str) -> Kernel:
    return Kernel(name, kind, count, time, flop, traffic, None, None, None, None, None, bound)
