"""What the GPU does while it is measured: clock, power, limit, temperature and why it is slowed down. Only read."""

import contextlib
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np

from factorgraph.datasets.schema import UNKNOWN

# A reading takes about a millisecond of the host's time; the sensors change no faster than this.
_PERIOD = 0.02
# How NVML names the bits that say why a clock is held down; a name of several bits, such as all of them, is no reason.
_REASON = "nvmlClocksThrottleReason"

Reading = dict[str, float | str]
_Answer = TypeVar("_Answer")


class Sampler(Protocol):
    """Reads a device's state."""

    def read(self) -> Reading:
        """Now: `sm_clock` Hz, `power` W, `power_cap` W, `temperature` K, `throttle_reasons` in words."""
        ...


class NvmlSampler:
    """Reads an NVIDIA GPU through NVML, the library of its driver. Nothing is ever set.

    Args:
        nvml: the module `pynvml`.
        device: index among those visible.
    """

    def __init__(self, nvml: Any, device: int = 0):
        self._nvml = nvml
        nvml.nvmlInit()
        self._handle = _handle(nvml, device)
        self._reasons = {
            getattr(nvml, name): name.removeprefix(_REASON)
            for name in dir(nvml)
            if name.startswith(_REASON) and getattr(nvml, name).bit_count() == 1
        }

    def read(self) -> Reading:
        nvml, handle = self._nvml, self._handle
        return {
            "sm_clock": _told(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6, math.nan),
            "power": _told(lambda: nvml.nvmlDeviceGetPowerUsage(handle) * 1e-3, math.nan),
            "power_cap": _told(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) * 1e-3, math.nan),
            "temperature": _told(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU) + 273.15, math.nan
            ),
            "throttle_reasons": _told(self._reasons_now, UNKNOWN),
        }

    def _reasons_now(self) -> str:
        mask = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return ", ".join(sorted(name for bit, name in self._reasons.items() if mask & bit)) or "none"


def _told(ask: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
    """What a GPU answers, or `otherwise` where it lacks the sensor; NVML raises a type for each of its codes."""
    try:
        return ask()
    except Exception:
        return otherwise


def find_sampler(backend: str) -> tuple[Sampler | None, str]:
    """A sampler of the device that JAX runs on, or none and why there is none."""
    if backend == "cpu":
        return None, ""
    try:
        import pynvml  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None, "clock and power are not recorded: install the extra 'nvml' (nvidia-ml-py) for that"
    try:
        return NvmlSampler(pynvml), ""
    except Exception as error:  # NVML raises a type for each of its codes
        return None, f"clock and power are not recorded: the driver does not answer ({error})"


class Watch:
    """Readings taken while something runs."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def summary(self) -> Reading:
        """The median of each number, and the commonest of each word.

        Examples:
            >>> watch = Watch()
            >>> watch.readings += [{"power": 300.0}, {"power": 310.0}, {"power": 700.0}]
            >>> watch.summary()
            {'power': 310.0}
        """
        result: Reading = {}
        for key in self.readings[0] if self.readings else ():
            values = [reading[key] for reading in self.readings]
            if isinstance(values[0], str):
                result[key] = Counter(values).most_common(1)[0][0]
            else:
                result[key] = float(np.median(np.array(values, float)))
        return result


@contextlib.contextmanager
def watching(sampler: Sampler | None, watch: Watch) -> Iterator[None]:
    """Read a device every 20 ms from a thread of its own, at least once."""
    done = threading.Event()
    if sampler is None:
        yield
        return

    def keep_reading() -> None:
        while True:
            watch.readings.append(sampler.read())
            if done.wait(_PERIOD):
                return

    thread = threading.Thread(target=keep_reading, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _handle(nvml: Any, device: int) -> Any:
    # JAX counts the visible GPUs, NVML all of them.
    visible = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    name = visible[device] if device < len(visible) else str(device)
    if name.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)
