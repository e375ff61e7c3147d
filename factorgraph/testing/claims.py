"""What a law may say of itself, beside `monotone`, that the checks then hold it to. All are class attributes.

| attribute | example | meaning |
|---|---|---|
| `kinks` | `("m", "n")` | inputs in which the law steps or bends sharply on purpose, such as through `ceil` |
| `literals` | `("FLOP",)` | units in which its text holds bare numbers, such as the 2 of 2 m n k |
| `limits` | `{"traffic": (1.0, 0.0)}` | the output as an input goes to 0 and to infinity |
| `roofline` | `(("light_bytes", "dram_bandwidth"),)` | work over rate that its time is never below |
| `scaling` | `{"light_count": 1}` | power with which the output follows an input |

A limit is a number, `math.inf`, None where nothing is said, or a function of the law and its other inputs:
`{"light_bytes": (lambda law, values: law.t_launch, math.inf)}`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from factorgraph.errors import FactorGraphError
from factorgraph.factor import Factor

# Work and rate that bound a time wherever a law reads both.
_ROOFS = (
    ("gemm_flop", "peak_flops"),
    ("attention_bytes", "dram_bandwidth"),
    ("light_bytes", "dram_bandwidth"),
)


@dataclasses.dataclass(frozen=True)
class Claims:
    """The class attributes of a law that say what its physics is; see the module's table."""

    kinks: tuple[str, ...]
    literals: tuple[str, ...]
    limits: Mapping[str, tuple[Any, Any]]
    roofline: tuple[tuple[str, str], ...]
    scaling: Mapping[str, float]


def claims_of(law: Factor) -> Claims:
    """What a law claims, with what its variables' names already say: counts double totals, and bytes take time.

    Args:
        law: an instance.

    Raises:
        FactorGraphError: an attribute names something that is no input.

    Examples:
        >>> from factorgraph.laws.total import LightTotal
        >>> dict(claims_of(LightTotal()).scaling)
        {'light_count': 1}
    """
    names = [variable.name for variable in law.inputs]
    is_time, is_total = law.output.unit == "s", law.output.name.endswith("_total")
    found = Claims(
        kinks=tuple(getattr(law, "kinks", ())),
        literals=tuple(getattr(law, "literals", ())),
        limits=dict(getattr(law, "limits", {})),
        roofline=tuple(getattr(law, "roofline", [roof for roof in _ROOFS if is_time and set(roof) <= set(names)])),
        scaling=dict(getattr(law, "scaling", {name: 1 for name in names if is_total and name.endswith("_count")})),
    )
    named = {"kinks": found.kinks, "limits": found.limits, "scaling": found.scaling}
    named["roofline"] = [name for roof in found.roofline for name in roof]
    for attribute, mentioned in named.items():
        for name in mentioned:
            if name not in names:
                raise FactorGraphError(
                    f"law {law.law_name}: {attribute} names '{name}', which is no input; "
                    f"the inputs are {', '.join(names)}"
                )
    return found
