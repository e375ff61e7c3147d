"""A GPU that can be bought: its numbers in SI, and how each is known."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.hardware.facts import Fact, Quantity
from factorgraph.hardware.generation import Generation
from factorgraph.workload.kernels import TENSOR_TYPES

# FP16 and BF16 with FP32 accumulation, as every engine multiplies; INT8 operations count as FLOP; FP32 is a CPU's type.
DTYPES = ("bf16", "fp16", "fp8", "fp4", "int8", "fp32")

RATE = Quantity("FLOP", 64, 262_144, 'value = 4096, unit = "FLOP", source = "..."')
PEAK = Quantity("FLOP/s", 1e13, 1e18, 'value = 989.4, unit = "TFLOP/s", source = "..."')
_CLOCK = Quantity("Hz", 1e8, 4e9, 'value = 1980, unit = "MHz", source = "..."')
_POWER = Quantity("W", 30, 3000, 'value = 700, unit = "W", source = "..."')
QUANTITIES = {
    "sm_count": Quantity("1", 1, 1024, 'value = 132, unit = "SM", source = "..."', whole=True),
    "boost_clock": _CLOCK,
    "max_clock": _CLOCK,
    "base_clock": dataclasses.replace(_CLOCK, required=False),
    "min_clock": dataclasses.replace(_CLOCK, required=False),
    "dram_bandwidth": Quantity("B/s", 1e11, 1e14, 'value = 3.35, unit = "TB/s", source = "..."'),
    "dram_capacity": Quantity("B", 4e9, 4e12, 'value = 80, unit = "GiB", source = "..."'),
    "l2_capacity": Quantity("B", 1e6, 1e9, 'value = 50, unit = "MiB", source = "..."'),
    "tdp": _POWER,
    "power_cap_min": dataclasses.replace(_POWER, required=False),
    "power_cap_max": _POWER,
    "nvlink_bandwidth": Quantity("B/s", 1e10, 1e13, 'value = 450, unit = "GB/s", source = "..."', zero=True),
    "nvlink_domain": Quantity("1", 1, 1024, 'value = 8, unit = "1", source = "..."', whole=True),
    "pcie_bandwidth": Quantity("B/s", 4e9, 1e12, 'value = 64, unit = "GB/s", source = "..."'),
}
BY_TYPE = {"flop_per_clock_per_sm": RATE, "printed_peak": PEAK}

# The generation whose SMs are cores and whose L2 is the last-level cache. Its numbers are smaller than a GPU's, and its
# makers print no peak.
CPU = "cpu"
_CPU_RANGES = {
    "flop_per_clock_per_sm": (1, 65_536),
    "printed_peak": (1e8, 1e16),
    "boost_clock": (1e8, 1e10),
    "max_clock": (1e8, 1e10),
    "dram_bandwidth": (1e8, 1e14),
    "dram_capacity": (1e8, 1e14),
    "l2_capacity": (1e4, 1e10),
    "tdp": (1, 3000),
    "power_cap_max": (1, 3000),
    "pcie_bandwidth": (1e8, 1e14),
}


def quantities_of(generation: str) -> dict[str, Quantity]:
    """What each number on a card must be; those by type of number are a `BY_TYPE` key.

    Examples:
        >>> quantities_of("hopper")["dram_bandwidth"].low, quantities_of("cpu")["dram_bandwidth"].low
        (100000000000.0, 100000000.0)
    """
    quantities = QUANTITIES | BY_TYPE
    if generation != CPU:
        return quantities
    narrow = {
        key: dataclasses.replace(quantities[key], low=low, high=high, of="any CPU")
        for key, (low, high) in _CPU_RANGES.items()
    }
    return quantities | narrow | {"printed_peak": dataclasses.replace(narrow["printed_peak"], required=False)}


# GDDR6 keeps check bits in the rows of the data, and reads them along: an eighth of the bandwidth
# (design section 3: fitted on the L40S GEMM tables of aiconfigurator-core 0.12.0).
INLINE_ECC_FACTOR = 0.875

AGREEMENT = 0.03  # relative: makers round their peaks to three digits, and clocks to a few MHz


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that checking a card brings up.

    Attributes:
        sku: name of the card.
        kind: "peak", the countable units against the printed peak; "disagreement", two sources that differ;
            "unverified", a number that nobody read in a source.
        field: the card's key, such as "l2_capacity" or "printed_peak.bf16"; or its generation's, "ada.smem_per_sm".
        value: the peak that the units give, or the card's number, in `unit`.
        other: the printed peak, or the other source's number; None where there is only one.
        unit: SI.
        source: of the printed peak, the other number or the unverified one.
        note: what the card says of it.
    """

    sku: str
    kind: Literal["peak", "disagreement", "unverified"]
    field: str
    value: float
    other: float | None
    unit: str
    source: str
    note: str

    @property
    def ratio(self) -> float | None:
        """value / other, or None where there is no other or it is zero."""
        return self.value / self.other if self.other else None

    @property
    def agrees(self) -> bool:
        """Whether both numbers are the same within 3 %."""
        return self.ratio is not None and abs(self.ratio - 1.0) <= AGREEMENT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sku:
    """A GPU, all numbers in SI. `load_sku` reads it from a card; `replace` makes a changed one.

    Attributes:
        name: by which it is loaded, such as "h100-sxm".
        title: its full name.
        architecture: its generation, with the facts that all GPUs of it share.
        sm_count: streaming multiprocessors.
        flop_per_clock_per_sm: dense FLOP per clock and SM by type (see `DTYPES`), accumulated in FP32.
        printed_peak: dense peak that the maker prints, FLOP/s by type; not every type has one.
        boost_clock: SM clock behind the printed peak, Hz.
        max_clock: highest SM clock the GPU runs at, Hz.
        base_clock, min_clock: guaranteed and lowest lockable SM clock, Hz; None where unknown.
        dram_bandwidth: printed, B/s.
        dram_capacity: what software sees of the DRAM, B.
        dram_ecc_inline: whether error correction costs DRAM bandwidth.
        l2_capacity: B.
        tdp: design power, W.
        power_cap: power limit in force, W; the design power unless replaced.
        power_cap_min, power_cap_max: range the limit can be set in, W; the lower end is None where unknown.
        nvlink_bandwidth: of one GPU in one direction, B/s; 0 without NVLink.
        nvlink_domain: GPUs that NVLink joins; 1 without.
        pcie_bandwidth: of one GPU in one direction, B/s.
        facts: how each number is known, by the card's key; one that was replaced has none.

    Raises:
        FactorGraphError: a number is not one that a GPU can have, or contradicts another.
    """

    name: str
    title: str
    architecture: Generation = dataclasses.field(repr=False, hash=False)
    sm_count: float
    flop_per_clock_per_sm: Mapping[str, float] = dataclasses.field(hash=False)
    printed_peak: Mapping[str, float] = dataclasses.field(hash=False)
    boost_clock: float
    max_clock: float
    base_clock: float | None = None
    min_clock: float | None = None
    dram_bandwidth: float
    dram_capacity: float
    dram_ecc_inline: bool
    l2_capacity: float
    tdp: float
    power_cap: float
    power_cap_min: float | None = None
    power_cap_max: float
    nvlink_bandwidth: float
    nvlink_domain: float
    pcie_bandwidth: float
    facts: Mapping[str, Fact] = dataclasses.field(repr=False, hash=False)

    def __post_init__(self):
        quantities = quantities_of(self.generation)
        for key in (*QUANTITIES, "power_cap"):
            value, quantity = getattr(self, key), quantities["tdp" if key == "power_cap" else key]
            if value is not None or quantity.required:
                self._check_number(key, value, quantity)
        for key in BY_TYPE:
            for dtype, value in getattr(self, key).items():
                if dtype not in DTYPES:
                    raise UnknownNameError("type", dtype, DTYPES)
                self._check_number(f"{key}.{dtype}", value, quantities[key])
        _check_order(self)
        _check_links(self)
        _check_peaks(self)

    def _check_number(self, key: str, value: Any, quantity: Quantity) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FactorGraphError(f"{key} of {self.name} is {value!r}; give a number in {quantity.unit}")
        if complaint := quantity.complaint(value):
            raise FactorGraphError(f"{key} of {self.name} {complaint}")

    @property
    def generation(self) -> str:
        """Name of the architecture generation, such as "hopper"."""
        return self.architecture.name

    @property
    def compute_capability(self) -> float:
        """CUDA compute capability, such as 9.0."""
        return self.architecture["compute_capability"]

    @property
    def tensor_cores_per_sm(self) -> float:
        """Tensor cores in an SM."""
        return self.architecture["tensor_cores_per_sm"]

    @property
    def smem_per_sm(self) -> float:
        """Shared memory of an SM, B."""
        return self.architecture["smem_per_sm"]

    def peak_flops(self, dtype: str = "bf16") -> float:
        """Dense peak in FLOP/s, multiplied out of countable units: sm_count * FLOP per clock and SM * boost clock.

        Args:
            dtype: one of `DTYPES`.

        Raises:
            FactorGraphError: the GPU does not multiply in that type.

        Examples:
            >>> from factorgraph.hardware import load_sku
            >>> round(load_sku("h100-sxm").peak_flops("bf16") / 1e12, 1)
            989.4
        """
        self._supports(dtype)
        return self.sm_count * self.flop_per_clock_per_sm[dtype] * self.boost_clock

    def replace(self, **changes: Any) -> "Sku":
        """The same GPU with other numbers, in SI.

        Raises:
            UnknownNameError: it has no such number.
            FactorGraphError: a number is not one that this GPU can have.

        Examples:
            >>> from factorgraph.hardware import load_sku
            >>> load_sku("h100-sxm").replace(power_cap=500.0).power_cap
            500.0
        """
        known = [field.name for field in dataclasses.fields(self) if field.name not in ("architecture", "facts")]
        for key in changes:
            if key not in known:
                raise UnknownNameError(f"number of {self.name}", key, known)
        if changes.keys() & {"sm_count", "flop_per_clock_per_sm", "boost_clock"}:
            changes.setdefault("printed_peak", {})  # what is printed belongs to the units as they were
        kept = {key: fact for key, fact in self.facts.items() if key.split(".")[0] not in changes}
        return dataclasses.replace(self, **changes, facts=kept)

    def check(self) -> tuple[Finding, ...]:
        """Hold the card to itself: peaks that are counted and printed, sources that disagree, numbers nobody verified.

        Returns:
            A finding of kind "peak" for every printed peak, whether it agrees or not; one of kind "disagreement" for
            every other source that says otherwise; one of kind "unverified" for every number not read in its source.

        Examples:
            >>> from factorgraph.hardware import load_sku
            >>> [round(one.ratio, 3) for one in load_sku("h100-sxm").check() if one.field == "printed_peak.bf16"]
            [1.0]
        """
        return tuple(self._peaks()) + tuple(self._disagreements()) + tuple(self._unverified())

    def _peaks(self) -> Iterator[Finding]:
        for dtype, printed in self.printed_peak.items():
            key = f"printed_peak.{dtype}"
            fact = self.facts.get(key)
            source, note = (fact.source, fact.note) if fact else ("", "")
            yield Finding(self.name, "peak", key, self.peak_flops(dtype), printed, "FLOP/s", source, note)

    def _disagreements(self) -> Iterator[Finding]:
        for key, fact in self.facts.items():
            for other in fact.alternatives:
                yield Finding(
                    self.name, "disagreement", key, fact.value, other.value, fact.unit, other.source, fact.note
                )

    def _unverified(self) -> Iterator[Finding]:
        shared = {f"{self.generation}.{key}": fact for key, fact in self.architecture.facts.items()}
        for key, fact in {**self.facts, **shared}.items():
            if not fact.verified:
                yield Finding(self.name, "unverified", key, fact.value, None, fact.unit, fact.source, fact.note)

    def _supports(self, dtype: str) -> None:
        if dtype not in DTYPES:
            raise UnknownNameError("type", dtype, DTYPES)
        if dtype not in self.flop_per_clock_per_sm:
            raise FactorGraphError(
                f"the tensor cores of {self.name} do not multiply in {dtype}; "
                f"they do in {', '.join(self.flop_per_clock_per_sm)}"
            )

    # --- what a graph asks of it -------------------------------------------------------------------------------------

    @property
    def label(self) -> tuple[str, str]:
        """What several cards are told apart by in a result: the dimension "sku", and this one's name on it."""
        return "sku", self.name

    @property
    def coords(self) -> dict[str, tuple[str, ...]]:
        """Names along the plate of tensor-core types."""
        return {"tensor_type": TENSOR_TYPES}

    def values(self) -> dict[str, Any]:
        """Every variable that a card supplies to a graph, by name, in SI; and every fact of its generation.

        Examples:
            >>> from factorgraph.hardware import load_sku
            >>> load_sku("h100-sxm").values()["type_rates"]
            [4096.0, 8192.0, 0.0]
        """
        rates = [self.flop_per_clock_per_sm.get(dtype, 0.0) for dtype in TENSOR_TYPES]
        has_nvlink = self.nvlink_bandwidth > 0
        return {name: fact.value for name, fact in self.architecture.facts.items()} | {
            "sm_count": self.sm_count,
            "boost_clock": self.boost_clock,
            "sm_clock": self.boost_clock,
            "power_cap": self.power_cap,
            "tdp": self.tdp,
            "dram_bandwidth": self.dram_bandwidth,
            "dram_capacity": self.dram_capacity,
            "l2_capacity": self.l2_capacity,
            "ecc_factor": INLINE_ECC_FACTOR if self.dram_ecc_inline else 1.0,
            "bf16_flop_per_clock": self.flop_per_clock_per_sm.get("bf16", 0.0),
            "type_rates": rates,
            "link_bandwidth": self.nvlink_bandwidth if has_nvlink else self.pcie_bandwidth,
            "link_is_pcie": float(not has_nvlink),
        }

    def accepts(self, other: Any) -> None:
        """Refuse a step in a type that the tensor cores lack, or on more GPUs than NVLink joins.

        Raises:
            FactorGraphError: the step cannot run on this GPU.

        Examples:
            >>> from factorgraph import load_model
            >>> from factorgraph.hardware import load_sku
            >>> load_sku("a100-sxm4-80gb").accepts(load_model("llama-3.1-8b").decode(batch=1, context=128))
        """
        for dtype in dict.fromkeys(getattr(other, "gemm_dtypes", ())):
            self._supports(dtype)
        gpus = getattr(other, "tp", 1)
        if self.nvlink_bandwidth and gpus > self.nvlink_domain:
            raise FactorGraphError(
                f"tp={gpus} reaches beyond the {self.nvlink_domain:g} GPUs that NVLink joins on {self.name}; "
                f"use tp={self.nvlink_domain:g} at most"
            )


class Contradiction(FactorGraphError):
    """Two numbers of a GPU that cannot both be true; `key` is the one named."""

    def __init__(self, name: str, key: str, complaint: str):
        super().__init__(f"{key} of {name} {complaint}")
        self.key, self.complaint = key, complaint


def _check_order(sku: Sku) -> None:
    for lower, upper in (
        ("min_clock", "boost_clock"),
        ("base_clock", "boost_clock"),
        ("boost_clock", "max_clock"),
        ("power_cap_min", "power_cap"),
        ("power_cap", "power_cap_max"),
    ):
        low, high = getattr(sku, lower), getattr(sku, upper)
        if low is not None and low > high:
            raise Contradiction(sku.name, lower, f"is {low:g}, above the {high:g} of {upper}; one of the two is wrong")


def _check_links(sku: Sku) -> None:
    if (sku.nvlink_bandwidth > 0) != (sku.nvlink_domain > 1):
        complaint = (
            f"is {sku.nvlink_domain:g} at an nvlink_bandwidth of {sku.nvlink_bandwidth:g}; "
            "without NVLink write 1 and 0, with it both are more"
        )
        raise Contradiction(sku.name, "nvlink_domain", complaint)


def _check_peaks(sku: Sku) -> None:
    for dtype, printed in sku.printed_peak.items():
        key = f"printed_peak.{dtype}"
        if dtype not in sku.flop_per_clock_per_sm:
            raise Contradiction(sku.name, key, f"has no flop_per_clock_per_sm.{dtype} to be counted from; add that")
        counted = sku.peak_flops(dtype)
        if abs(printed / counted - 2.0) < 0.2:
            complaint = (
                f"is {printed / counted:.2f} times what the units count up to: it looks like the peak with sparsity; "
                "give the dense one, half of it"
            )
            raise Contradiction(sku.name, key, complaint)
        if abs(printed / counted - 1.0) > 0.1:
            complaint = (
                f"is {printed:.4g} FLOP/s, but {sku.sm_count:g} SMs * {sku.flop_per_clock_per_sm[dtype]:g} FLOP * "
                f"{sku.boost_clock:.4g} Hz is {counted:.4g}; one of the four is wrong"
            )
            raise Contradiction(sku.name, key, complaint)
