"""What this machine is, as far as it says so itself."""

import dataclasses
import os
import platform
import re
from pathlib import Path

import jax

PROC, SYS = Path("/proc"), Path("/sys")
# Where no cache says its size: larger than the last-level cache of any GPU and of most CPUs.
_ASSUMED_CACHE = 256 * 2**20


@dataclasses.dataclass(frozen=True)
class Machine:
    """What measurements are of.

    Attributes:
        device: name of the CPU or GPU.
        backend: JAX's name of it, "cpu" or "gpu".
        jax_version: of JAX.
        cores: CPU cores that this process may use.
        cache: last-level cache, B.
        cache_source: how that is known.
        memory: of the device, B.
    """

    device: str
    backend: str
    jax_version: str
    cores: int
    cache: float
    cache_source: str
    memory: float

    @property
    def dtype(self) -> str:
        """The type that products are measured in: what the device is built for."""
        return "fp32" if self.backend == "cpu" else "bf16"

    @property
    def label(self) -> str:
        """The device's name as a card would be called.

        Examples:
            >>> Machine("Intel(R) Xeon(R) CPU", "cpu", "0.9", 2, 1e6, "", 1e9).label
            'intel-xeon-cpu'
        """
        return card_name(self.device)


def card_name(device: str) -> str:
    """What a card of a device of that name would be called.

    Examples:
        >>> card_name("NVIDIA H200")
        'nvidia-h200'
    """
    words = re.sub(r"\((r|tm)\)", " ", device.lower())
    return "-".join(re.findall(r"[a-z0-9]+", words)) or "unknown"


def this_machine(sku: str | None = None) -> Machine:
    """The machine that JAX runs on.

    Args:
        sku: card of the device, which knows its last-level cache; needed on a GPU, which does not tell.

    Raises:
        UnknownNameError: there is no such card.
    """
    device, backend = jax.devices()[0], jax.default_backend()
    if backend == "cpu":
        name, memory = cpu_model(), _installed_memory()
        cache, source = last_level_cache() or (_ASSUMED_CACHE, "assumed, the machine does not say")
    else:
        stats = device.memory_stats() or {}
        name, memory = device.device_kind, float(stats.get("bytes_limit", 8 * 2**30))
        cache, source = _ASSUMED_CACHE, "assumed, no card was named"
    if sku is not None:
        from factorgraph.hardware import load_sku

        cache, source = load_sku(sku).l2_capacity, f"card {sku}"
    return Machine(name, backend, jax.__version__, usable_cores(), float(cache), source, memory)


def usable_cores() -> int:
    """CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model(proc: Path = PROC) -> str:
    """The CPU's name."""
    return cpu_fields(proc).get("model name") or platform.processor() or platform.machine() or "unknown CPU"


def cpu_fields(proc: Path = PROC) -> dict[str, str]:
    """The first processor's lines in /proc/cpuinfo; none where there is no such file."""
    try:
        text = (proc / "cpuinfo").read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def last_level_cache(system: Path = SYS) -> tuple[float, str] | None:
    """Size of the first core's largest cache in B, and the file that says so; None where none does."""
    found = []
    for file in sorted((system / "devices/system/cpu/cpu0/cache").glob("index*/size")):
        size = re.fullmatch(r"(\d+)([KMG]?)", file.read_text().strip())
        if size:
            found.append((float(size[1]) * 1024 ** " KMG".index(size[2] or " "), str(file)))
    return max(found) if found else None


def _installed_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float(8 * 2**30)
