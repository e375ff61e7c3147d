"""A card of the CPU that this runs on: what it says of itself, what was measured, and what had to be assumed."""

import json
import os
import time
from pathlib import Path

import numpy as np

from factorgraph.datasets import load_dataset
from factorgraph.datasets.integrity import replacing
from factorgraph.errors import FactorGraphError
from factorgraph.hardware import Fact, Sku, load_sku
from factorgraph.measuring.cases import stream_case
from factorgraph.measuring.machine import PROC, SYS, cpu_fields, cpu_model, last_level_cache, usable_cores
from factorgraph.measuring.rotation import BEYOND
from factorgraph.measuring.timing import time_per_call

# FP32 lanes of the widest vector unit, by the flag that stands for it in /proc/cpuinfo; the widest first.
_LANES = {"avx512f": 16, "avx2": 8, "avx": 8, "asimd": 4, "sse2": 4}
_FMA_UNITS = 2
_WATTS_A_CORE = 10.0
_ASSUMED_CACHE = 32 * 2**20


def card_facts(
    bandwidth: str | os.PathLike[str] | None = None, *, proc: Path = PROC, system: Path = SYS
) -> dict[str, Fact]:
    """Every number of this machine's card, with where it is from.

    Args:
        bandwidth: file of `measure bandwidth` on this machine; without one a stream is measured now.
        proc, system: where /proc and /sys are.

    Raises:
        FactorGraphError: this is no Linux machine, or the bandwidth is another machine's or all from the cache.
    """
    fields = cpu_fields(proc)
    if not fields:
        raise FactorGraphError(
            "a card is read from /proc and /sys, which only Linux has; write one by hand, as `sku show h100-sxm` is"
        )
    cache, clock = _cache(system), _clock(fields, proc, system)
    reached = _measured_now(cache.value) if bandwidth is None else _measured_before(Path(bandwidth), cpu_model(proc))
    power = _power(system)
    return {
        "sm_count": Fact(usable_cores(), "SM", "cores that this process may run on (scheduler affinity)"),
        "flop_per_clock_per_sm.fp32": _flop_per_clock(fields, proc),
        "boost_clock": clock,
        "max_clock": clock,
        "dram_bandwidth": reached,
        "dram_capacity": _memory(proc),
        "l2_capacity": cache,
        "tdp": power,
        "power_cap_max": power,
        "nvlink_bandwidth": Fact(0, "B/s", "a CPU has no NVLink of its own"),
        "nvlink_domain": Fact(1, "1", "a CPU has no NVLink of its own"),
        "pcie_bandwidth": Fact(
            reached.value, "B/s", "stands for a link: there is one device, in memory", verified=False
        ),
    }


def write_card(out: Path, facts: dict[str, Fact], title: str) -> Sku:
    """Write a card, and read it back.

    Args:
        out: the file, which ends in .toml; its name without that is the card's.
        facts: from `card_facts`.
        title: the CPU's name.

    Raises:
        FactorGraphError: the file cannot be written, or a number is not one that a CPU can have.
    """
    if out.suffix != ".toml":
        raise FactorGraphError(f"{out} does not end in .toml, as a card must; name it {out.name}.toml")
    if out.is_dir():
        raise FactorGraphError(f"{out} is a folder; name a file in it")
    if out.exists():
        raise FactorGraphError(f"{out} exists; name another file, or remove it first")
    try:
        with replacing(out) as beside:
            beside.write_text(card_text(facts, title), encoding="utf-8")
    except OSError as error:
        raise FactorGraphError(f"{out} cannot be written ({error.strerror or error})") from None
    return load_sku(out)


def card_text(facts: dict[str, Fact], title: str) -> str:
    """A card as TOML.

    Examples:
        >>> print(card_text({"sm_count": Fact(2, "SM", "counted")}, "My CPU"))
        title = "My CPU"
        generation = "cpu"
        <BLANKLINE>
        sm_count = { value = 2, unit = "SM", source = "counted" }
        dram_ecc_inline = { value = false, source = "a server's memory keeps its check bits beside the data" }
        <BLANKLINE>
    """
    lines = [f"title = {_quoted(title)}", 'generation = "cpu"', ""]
    for name, fact in facts.items():
        unread = "" if fact.verified else ", verified = false"
        said = f'value = {fact.value:.15g}, unit = "{fact.unit}", source = {_quoted(fact.source)}{unread}'
        lines.append(f"{name} = {{ {said} }}")
    ecc = "a server's memory keeps its check bits beside the data"
    lines.append(f"dram_ecc_inline = {{ value = false, source = {_quoted(ecc)} }}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _flop_per_clock(fields: dict[str, str], proc: Path) -> Fact:
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    widest = next((flag for flag in _LANES if flag in flags), None)
    lanes = _LANES[widest] if widest else 1
    said = f"{proc}/cpuinfo: {widest}, {lanes} FP32 lanes" if widest else f"{proc}/cpuinfo names no vector unit"
    source = f"{said}, times {_FMA_UNITS} units of multiply and add assumed, as on server cores"
    return Fact(lanes * _FMA_UNITS * 2, "FLOP", source, verified=False)


def _clock(fields: dict[str, str], proc: Path, system: Path) -> Fact:
    file = system / "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
    try:
        return Fact(float(file.read_text()) * 1e3, "Hz", str(file))
    except (OSError, ValueError):
        pass
    try:
        clock = float(fields["cpu MHz"]) * 1e6
    except (KeyError, ValueError):
        return Fact(2e9, "Hz", "assumed: neither cpufreq nor cpuinfo states a clock", verified=False)
    source = f"{proc}/cpuinfo, cpu MHz: the clock now, or the nominal one of a virtual machine; there is no cpufreq"
    return Fact(clock, "Hz", source, verified=False)


def _cache(system: Path) -> Fact:
    found = last_level_cache(system)
    if found is None:
        return Fact(_ASSUMED_CACHE, "B", "assumed: the machine lists no cache", verified=False)
    return Fact(found[0], "B", f"{found[1]}; other virtual machines may share it")


def _memory(proc: Path) -> Fact:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return Fact(float(line.split()[1]) * 1024, "B", f"{proc}/meminfo, MemTotal")
    except (OSError, ValueError, IndexError):
        pass
    raise FactorGraphError(f"{proc}/meminfo states no MemTotal; write the card by hand, as `sku show h100-sxm` is")


def _power(system: Path) -> Fact:
    file = system / "class/powercap/intel-rapl:0/constraint_0_max_power_uw"
    try:
        if (watts := float(file.read_text()) * 1e-6) > 0.0:
            return Fact(watts, "W", str(file))
    except (OSError, ValueError):
        pass
    source = f"assumed {_WATTS_A_CORE:g} W a core: the machine shows no power limit"
    return Fact(_WATTS_A_CORE * usable_cores(), "W", source, verified=False)


def _measured_now(cache: float) -> Fact:
    case = stream_case(int(2.0 * BEYOND * cache), cache)
    timing = time_per_call(
        case.prepare(np.random.default_rng(0)), clock=time.perf_counter, calls_per_round=1, least=0.1, repeats=9
    )
    if not np.isfinite(timing.seconds):
        raise FactorGraphError("the bandwidth could not be measured; measure again on a quieter machine")
    source = f"measured now, {case.row['volume']:.3g} B read and written in place, median of 9"
    return Fact(case.row["volume"] / timing.seconds, "B/s", source)


def _measured_before(file: Path, device: str) -> Fact:
    dataset = load_dataset(file)
    if dataset.attrs["kind"] != "bandwidth":
        raise FactorGraphError(f"{file} is of kind {dataset.attrs['kind']}; give one of `measure bandwidth`")
    if dataset.attrs.get("device") != device:
        raise FactorGraphError(
            f"{file} was measured on '{dataset.attrs.get('device', 'unknown')}', this machine is '{device}'; "
            "measure it here"
        )
    cold = dataset["bandwidth"].values[dataset["cache_state"].values == "cold"]
    if not np.isfinite(cold).any():
        raise FactorGraphError(f"the bandwidth in {file} is all from the cache; measure streams that are larger")
    source = f"measured, {file.name} of {dataset.attrs['date']}, the fastest stream beyond the cache"
    return Fact(float(np.nanmax(cold)), "B/s", source)
