"""What a dataset must say: one schema for each kind of measurement, checked whole, with every fault named at once."""

import dataclasses
import re
from collections.abc import Iterator

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.units import to_unit

UNKNOWN = "unknown"
# Neither NetCDF nor CSV gives these back as they were.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
BY_ROW = "by row"


@dataclasses.dataclass(frozen=True)
class Field:
    """A quantity that a kind of dataset holds.

    Attributes:
        name: of the coordinate or data variable.
        unit: the SI unit it has after loading; "text" for names, "by row" where each row has its own.
        doc: what it is, in a few words.
        required: whether a dataset of the kind must hold it.
        measured: whether it is a result, which may be absent (NaN) where nothing was measured.
        whole: whether it counts something.
        zero: whether 0 is a value that occurs.
    """

    name: str
    unit: str
    doc: str
    required: bool = True
    measured: bool = False
    whole: bool = False
    zero: bool = False


@dataclasses.dataclass(frozen=True)
class Fact:
    """Something a dataset must say about how it was measured, as an attribute or, where it varies, as a coordinate.

    Attributes:
        name: of the attribute or coordinate.
        doc: what it is.
        choices: the words it is said in; none where it is free text.
    """

    name: str
    doc: str
    choices: tuple[str, ...] = ()


FACTS = (
    Fact("sku", "the GPU's card name"),
    Fact("engine", "the serving engine or library"),
    Fact("engine_version", "its version"),
    Fact("kernel_source", "the kernels it ran"),
    Fact("dtype", "the number type of the work"),
    Fact("clock_state", "how the SM clock was set", ("free", "locked", "recorded", UNKNOWN)),
    Fact("power_state", "how the power limit was set", ("stock", "capped", "recorded", UNKNOWN)),
    Fact("cache_state", "what L2 held beforehand", ("cold", "warm", "rotating", UNKNOWN)),
    Fact("operand_values", "what the operands were filled with", ("zeros", "constant", "random", "unset", UNKNOWN)),
    Fact("statistic", "what one number stands for, such as 'median of 20'"),
    Fact("source", "where the numbers are from"),
    Fact("licence", "under which terms"),
    Fact("date", "when they were measured or published"),
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """The schema of one kind of dataset.

    Attributes:
        name: as in the dataset's attribute `kind`.
        doc: what one measurement of this kind is.
        fields: the quantities.
        one_of: names of measured fields of which at least one must be there.
    """

    name: str
    doc: str
    fields: tuple[Field, ...]
    one_of: tuple[str, ...] = ()


def _count(name: str, doc: str, **more: bool) -> Field:
    return Field(name, "1", doc, whole=True, **more)


def _result(name: str, unit: str, doc: str, **more: bool) -> Field:
    return Field(name, unit, doc, measured=True, **more)


def _maybe(*fields: Field) -> tuple[Field, ...]:
    return tuple(dataclasses.replace(field, required=False) for field in fields)


_LATENCY = _result("latency", "s", "time of one run")
_POWER = _maybe(
    Field("power_cap", "W", "power limit"),
    _result("power", "W", "board power"),
    _result("sm_clock", "Hz", "SM clock while it ran"),
)
_SPREAD = _result("spread", "1", "spread over repeats, relative", required=False, zero=True)
_CALLS = _count("calls", "runs that the time is taken over", required=False)
_COPIES = _count("cache_copies", "copies of the operands that are cycled", required=False, zero=True)

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "gemm",
            "matrix products (m x k) (k x n)",
            (
                _count("m", "rows"),
                _count("n", "columns"),
                _count("k", "inner size"),
                _LATENCY,
                _COPIES,
                _CALLS,
                _SPREAD,
                _count("tensor_parallel", "GPUs that the layer is split over", required=False),
                *_POWER,
            ),
        ),
        Kind(
            "attention",
            "one attention kernel over a batch",
            (
                _count("batch", "sequences"),
                _count("q_len", "new tokens a sequence"),
                _count("kv_len", "tokens attended to a sequence"),
                _count("q_heads", "query heads"),
                _count("kv_heads", "key and value heads"),
                _count("head_dim", "size of a head"),
                _count("window", "sliding window in tokens, 0 for none", required=False, zero=True),
                _count("causal", "1 where a token attends only to those before it", required=False, zero=True),
                Field("kv_dtype", "text", "number type of the KV cache", required=False),
                _LATENCY,
                *_POWER,
            ),
        ),
        Kind(
            "moe",
            "the expert layer of a mixture of experts",
            (
                _count("tokens", "tokens"),
                _count("hidden", "model width"),
                _count("intermediate", "width of one expert"),
                _count("top_k", "experts a token is sent to"),
                _count("experts", "experts there are"),
                _count("tensor_parallel", "GPUs an expert is split over"),
                _count("expert_parallel", "GPUs the experts are shared out over"),
                Field("distribution", "text", "how tokens fall on experts", required=False),
                _LATENCY,
                *_POWER,
            ),
        ),
        Kind(
            "light",
            "element-wise, normalisation, quantisation and copy kernels",
            (
                Field("kernel", "text", "which kernel"),
                _LATENCY,
                *_maybe(
                    Field("traffic", "B", "bytes read and written"),
                    _CALLS,
                    _SPREAD,
                    _count("tokens", "tokens"),
                    _count("width", "elements a token"),
                ),
            ),
        ),
        Kind(
            "collective",
            "one collective operation between GPUs",
            (
                Field("operation", "text", "which operation"),
                _count("ranks", "GPUs that take part"),
                Field("message_bytes", "B", "size of the message"),
                _LATENCY,
            ),
        ),
        Kind(
            "bandwidth",
            "streaming a volume from some level of memory",
            (
                Field("volume", "B", "bytes moved or window read"),
                _result("bandwidth", "B/s", "bytes per second"),
                *_maybe(
                    _LATENCY,
                    _CALLS,
                    _SPREAD,
                    Field("block", "B", "bytes that one thread block reads"),
                    Field("mode", "text", "how the kernels were launched"),
                ),
            ),
        ),
        Kind(
            "clock_power",
            "a load under a clock or power setting",
            (
                Field("workload", "text", "what ran"),
                *_maybe(
                    Field("clock_lock", "Hz", "clock the SMs were locked to"),
                    _result("throughput", "FLOP/s", "work per second"),
                    _result("bandwidth", "B/s", "bytes per second"),
                    _result("token_rate", "1/s", "tokens per second"),
                ),
                *_POWER,
            ),
            one_of=("throughput", "bandwidth", "token_rate", "sm_clock", "power"),
        ),
        Kind(
            "step",
            "one step of an engine, or a part of it on the host",
            (
                _count("batch", "sequences"),
                _LATENCY,
                *_maybe(
                    _CALLS,
                    _SPREAD,
                    Field("operation", "text", "which part"),
                    Field("model", "text", "the model served"),
                    _count("input_len", "prompt tokens", zero=True),
                    _count("output_len", "tokens generated", zero=True),
                    _count("tensor_parallel", "GPUs a layer is split over"),
                ),
            ),
        ),
        Kind(
            "serving",
            "a served load: time to first token and per output token",
            (
                Field("model", "text", "the model served"),
                *_maybe(
                    _count("concurrency", "requests in flight, 0 where not stated", zero=True),
                    _count("input_len", "prompt tokens a request"),
                    _count("output_len", "tokens generated a request"),
                    _count("tensor_parallel", "GPUs a layer is split over"),
                    _result("ttft", "s", "time to first token"),
                    _result("tpot", "s", "time per output token"),
                    _result("request_rate", "1/s", "requests per second"),
                    _result("token_rate", "1/s", "output tokens per second"),
                ),
            ),
            one_of=("ttft", "tpot", "request_rate", "token_rate"),
        ),
        Kind(
            "reported",
            "numbers a report states, each in its own unit",
            (
                Field("quantity", "text", "which quantity"),
                Field("stated", "text", "the value as printed"),
                Field("stated_unit", "text", "the unit it is printed in"),
                Field("si_unit", "text", "the unit of low and high"),
                _result("low", BY_ROW, "the value, or the lower end of a printed range"),
                _result("high", BY_ROW, "the value, or the upper end of a printed range"),
            ),
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a dataset, and what to do about it."""

    variable: str
    problem: str
    mend: str

    def __str__(self) -> str:
        return f"{self.variable} {self.problem}; {self.mend}"


class SchemaError(FactorGraphError):
    """A dataset that does not say what its kind must. `faults` lists all that is wrong."""

    def __init__(self, title: str, faults: list[Fault]):
        self.faults = tuple(faults)
        many = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
        super().__init__(f"{title} has {many}: " + " | ".join(map(str, faults)))


def kind_of(name: str) -> Kind:
    """The schema of a kind.

    Raises:
        UnknownNameError: there is no such kind.

    Examples:
        >>> [field.name for field in kind_of("gemm").fields if field.required]
        ['m', 'n', 'k', 'latency']
    """
    if name not in KINDS:
        raise UnknownNameError("kind of dataset", name, KINDS)
    return KINDS[name]


def conform(dataset: xr.Dataset, *, title: str = "the dataset") -> xr.Dataset:
    """The dataset in SI units, after everything its kind asks for was checked.

    Args:
        dataset: with the attribute `kind`. Quantities carry the attribute `units`, in any unit of the right dimension.
        title: how the error calls it.

    Returns:
        The same dataset with each field of the kind in the unit of the schema. Of data on disk (dask), names, units and
        types are checked, not values.

    Raises:
        SchemaError: something is missing, has no or a wrong unit, or has values that cannot be; all faults at once.

    Examples:
        >>> facts = {fact.name: "unknown" for fact in FACTS}
        >>> size = {"units": "1"}
        >>> slow = xr.Dataset(
        ...     {"latency": ("shape", [5.0], {"units": "us"})},
        ...     coords={name: ("shape", [64], size) for name in ("m", "n", "k")},
        ...     attrs=facts | {"kind": "gemm", "title": "one product"},
        ... )
        >>> conform(slow).latency.values, conform(slow).latency.units
        (array([5.e-06]), 's')
    """
    name = dataset.attrs.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        known = ", ".join(KINDS)
        raise SchemaError(title, [Fault("kind", f"is {name!r}", f"set the attribute to one of {known}")])
    kind, faults = KINDS[name], []
    changed: dict[str, xr.Variable] = {}
    for field in kind.fields:
        if field.name not in dataset.variables:
            if field.required:
                faults.append(Fault(field.name, "is missing", f"add {field.doc} in '{field.unit}'"))
            continue
        try:
            converted = _in_si(dataset[field.name], field)
        except FactorGraphError as error:
            faults.append(Fault(field.name, f"has a wrong unit ({error})", f"give it in '{field.unit}'"))
            continue
        faults += _value_faults(converted, field)
        changed[field.name] = converted.variable
    dataset = dataset.assign({name: values for name, values in changed.items() if name in dataset.data_vars})
    dataset = dataset.assign_coords({name: values for name, values in changed.items() if name in dataset.coords})
    faults += _layout_faults(dataset, kind)
    faults += _fact_faults(dataset)
    if faults:
        raise SchemaError(title, faults)
    return dataset


def _in_si(values: xr.DataArray, field: Field) -> xr.DataArray:
    if field.unit in ("text", BY_ROW) or "units" not in values.attrs:
        return values
    given = str(values.attrs["units"])
    converted = values.copy(data=to_unit(values.data, given, field.unit, what=field.name))
    if field.whole and given == field.unit and converted.dtype.kind == "f" and (converted % 1 == 0).all():
        converted = converted.astype(np.int64)  # NetCDF tools turn counts into floats where one is missing
    return converted.assign_attrs(units=field.unit)


def _value_faults(values: xr.DataArray, field: Field) -> Iterator[Fault]:
    """What is wrong with the values of one quantity, already in its SI unit."""
    if field.unit == "text":
        if values.dtype.kind not in "UTO":
            yield Fault(field.name, f"holds {values.dtype}", "give names as text")
        return
    if values.dtype.kind not in "fiu":
        yield Fault(field.name, f"holds {values.dtype}", f"give numbers in '{field.unit}'")
        return
    if "units" not in values.attrs:
        yield Fault(field.name, "has no unit", f"set its attribute units to '{field.unit}', or one like it")
        return
    if field.whole and values.dtype.kind == "f":
        yield Fault(field.name, "counts something but is not whole", "give whole numbers")
        return
    if values.chunks is not None:
        return  # a look at the values would read the whole file
    numbers = values.to_numpy()
    absent = np.isnan(numbers)
    if field.measured and field.required and absent.all():
        yield Fault(field.name, "holds no measurement", "leave such a dataset out")
    if field.required and not field.measured and absent.any():
        yield Fault(field.name, f"is absent in {absent.sum()} places", "leave those rows out")
    if infinite := np.isinf(numbers).sum():
        yield Fault(field.name, f"is infinite in {infinite} places", "leave those rows out")
    low = (numbers < 0) if field.zero else (numbers <= 0)
    if low.any() and field.unit != BY_ROW:
        least = "negative" if field.zero else "zero or negative"
        yield Fault(field.name, f"is {least} in {low.sum()} places", "leave those rows out")


def _layout_faults(dataset: xr.Dataset, kind: Kind) -> Iterator[Fault]:
    if kind.one_of and not any(name in dataset.variables for name in kind.one_of):
        yield Fault(" or ".join(kind.one_of), "is missing", "give at least one of them")
    for name, size in dataset.sizes.items():
        if size == 0:
            yield Fault(str(name), "is a dimension of no length", "leave such a dataset out")
    ours = {field.name for field in kind.fields} | {fact.name for fact in FACTS}
    for name, values in dataset.variables.items():
        if (
            name in dataset.data_vars
            and name not in ours
            and values.dtype.kind in "fiu"
            and "units" not in values.attrs
        ):
            yield Fault(str(name), "has no unit", "set its attribute units; '1' for a bare number")
        if values.dtype.kind in "UTO" and any(map(_CONTROL.search, np.unique(values.astype(str)))):
            yield Fault(str(name), "holds control characters", "write names on one line, as plain text")


def _fact_faults(dataset: xr.Dataset) -> Iterator[Fault]:
    if not str(dataset.attrs.get("title", "")).strip():
        yield Fault("title", "is missing", "say in a line what was measured, as an attribute")
    for fact in FACTS:
        if fact.name in dataset.variables:
            said = {str(word) for word in np.unique(dataset[fact.name].astype(str))}
        else:
            said = {str(dataset.attrs.get(fact.name, ""))}
        words = ", ".join(fact.choices) if fact.choices else f"or '{UNKNOWN}'"
        mend = f"say {fact.doc} ({words}), as an attribute or a coordinate"
        if "" in said:
            yield Fault(fact.name, "is not said", mend)
        elif fact.choices and not said <= set(fact.choices):
            yield Fault(fact.name, f"is {', '.join(map(repr, sorted(said - set(fact.choices))))}", mend)
