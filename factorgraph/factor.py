"""A factor: one law over named variables, wired by its own signature."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.units import parse
from factorgraph.variables import Variable, variable_of


def _as_float_array(value: Any) -> Array:
    return jnp.asarray(value, dtype=float)


def parameter(
    default: float | Sequence[float], *, unit: str = "1", source: str, lower: float = 0.0, upper: float = float("inf")
) -> Any:
    """A constant of a law: an array leaf that can be changed, differentiated and fitted without a retrace.

    Args:
        default: its value, in `unit`; scalar or 1-D.
        unit: unit text.
        source: where the number comes from.
        lower, upper: the open interval a fit may move it in.

    Raises:
        FactorGraphError: the unit cannot be read or the default lies outside the bounds.

    Examples:
        >>> from factorgraph.variables import SmClock, TStep
        >>> class Fixed(Factor):
        ...     t0: Array = parameter(2e-6, unit="s", source="launch of an empty kernel")
        ...     def __call__(self, sm_clock: SmClock) -> TStep:
        ...         return self.t0 + 0 * sm_clock
        >>> round(float(Fixed(t0=3e-6).t0) * 1e6, 3)
        3.0
    """
    parse(unit)
    values = default if isinstance(default, Sequence) else (default,)
    if not all(lower <= value <= upper for value in values):
        raise FactorGraphError(f"a parameter's default {default} must lie in its bounds [{lower}, {upper}]")
    metadata = {"parameter": ParameterInfo(unit=unit, source=source, lower=lower, upper=upper)}
    default = tuple(default) if isinstance(default, Sequence) else default
    return eqx.field(default=default, converter=_as_float_array, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """What is known of a law's constant beside its value."""

    unit: str
    source: str
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True)
class Signature:
    """The edges of a factor: the variables it reads, in order, and the one it gives."""

    inputs: tuple[Variable, ...]
    output: Variable


class Factor(eqx.Module):
    """A law over named variables. Its `__call__` signature is its edges.

    Each parameter of `__call__` is an input variable, by name and annotation; the return annotation is the output.
    Plates decide what a call sees: a plate that the output has too is mapped over, so the law reads a scalar; a plate
    that the output lacks is reduced by the law, which reads a vector.

    Constants are fields made with [`parameter`][factorgraph.factor.parameter]. `monotone` states how the output moves
    with an input (+1 never falls, -1 never rises); the law checks hold it to that. `kinks` names inputs in which the
    law has steps or corners, and `literals` units of which its text holds bare numbers, such as the 2 FLOP of a
    multiply-add. `fitted_in` gives the range of an input that the constants were fitted in, `supported_in` one beyond
    which the law does not hold at all: results say when they are left.

    Raises:
        FactorGraphError: on instantiation, when the signature cannot be read as edges.

    Examples:
        >>> from factorgraph.variables import DramBandwidth, LightBytes, TLight
        >>> class Streaming(Factor):
        ...     monotone = {"light_bytes": +1, "dram_bandwidth": -1}
        ...     def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        ...         return light_bytes / dram_bandwidth
        >>> law = Streaming()
        >>> [variable.name for variable in law.inputs], law.output.name
        (['light_bytes', 'dram_bandwidth'], 't_light')
    """

    monotone: ClassVar[dict[str, int]] = {}
    kinks: ClassVar[tuple[str, ...]] = ()
    literals: ClassVar[tuple[str, ...]] = ()
    fitted_in: ClassVar[dict[str, tuple[float, float]]] = {}
    supported_in: ClassVar[dict[str, tuple[float, float]]] = {}

    def __check_init__(self):
        signature = self.signature
        for stated in ("monotone", "fitted_in", "supported_in"):
            unknown = set(getattr(self, stated)) - {variable.name for variable in signature.inputs}
            if unknown:
                raise FactorGraphError(
                    f"law {self.law_name}: {stated} names {', '.join(sorted(unknown))}, which is no input; "
                    f"the inputs are {', '.join(variable.name for variable in signature.inputs)}"
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The law: one parameter for each variable it reads, and the variable it gives as return annotation."""
        raise FactorGraphError(f"law {self.law_name} has no __call__; define one whose parameters are its variables")

    @property
    def signature(self) -> Signature:
        return _read_signature(type(self))

    @property
    def inputs(self) -> tuple[Variable, ...]:
        return self.signature.inputs

    @property
    def output(self) -> Variable:
        return self.signature.output

    @property
    def law_name(self) -> str:
        return type(self).__name__

    @property
    def parameters(self) -> dict[str, ParameterInfo]:
        """Every fittable constant by field name."""
        return dict(_parameters(type(self)))


def _parameters(law: type[Factor]) -> Iterator[tuple[str, ParameterInfo]]:
    for field in dataclasses.fields(law):
        if "parameter" in field.metadata:
            yield field.name, field.metadata["parameter"]


@functools.cache
def _read_signature(law: type[Factor]) -> Signature:
    name = law.__name__
    call = law.__call__
    try:
        hints = typing.get_type_hints(call, include_extras=True)
    except NameError as error:
        raise FactorGraphError(
            f"law {name}: an annotation cannot be read ({error}); define it at module level"
        ) from error
    inputs = []
    for argument in list(inspect.signature(call).parameters.values())[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise FactorGraphError(f"law {name}: '*{argument.name}' names no variable; list the inputs one by one")
        if argument.default is not argument.empty:
            raise FactorGraphError(
                f"law {name}: input '{argument.name}' has a default; make it a field with parameter(...)"
            )
        variable = variable_of(hints.get(argument.name))
        if variable is None:
            raise FactorGraphError(
                f"law {name}: input '{argument.name}' is not annotated with a variable; "
                f"take one from factorgraph.variables or write Annotated[Array, Variable('{argument.name}', unit)]"
            )
        if variable.name != argument.name:
            raise FactorGraphError(
                f"law {name}: input '{argument.name}' is annotated with variable '{variable.name}'; "
                f"rename the input to '{variable.name}'"
            )
        inputs.append(variable)
    output = variable_of(hints.get("return"))
    if output is None:
        raise FactorGraphError(
            f"law {name}: the return annotation is no variable; write '-> EtaMem' or one of your own"
        )
    if output in inputs:
        raise FactorGraphError(f"law {name}: '{output.name}' is both input and output; a law cannot feed itself")
    return Signature(tuple(inputs), output)


class Given(Factor):
    """A variable that the graph itself supplies, such as the table of tilings a GEMM library chooses from.

    Examples:
        >>> from factorgraph.variables import TileM
        >>> Given(TileM, [64.0, 128.0]).output.name
        'tile_m'
    """

    value: Array = eqx.field(converter=_as_float_array)
    variable: Variable = eqx.field(static=True)

    def __init__(self, variable: Any, value: Any):
        found = variable_of(variable)
        if found is None:
            raise FactorGraphError(f"Given needs a variable to supply; {variable!r} carries none")
        self.variable = found
        self.value = value

    @property
    def signature(self) -> Signature:
        return Signature((), self.variable)

    def __call__(self) -> Array:
        return self.value
