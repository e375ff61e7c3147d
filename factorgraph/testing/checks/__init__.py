"""The checks of a law, one file a family. Each takes a law on the bench and one point, and says what is wrong there.

A check returns None, or one sentence with the numbers that disagree.
"""

from collections.abc import Callable

from factorgraph.testing.bench import Bench, Values
from factorgraph.testing.checks.contract import dtype, pytree, retrace, signature, stateless
from factorgraph.testing.checks.execution import jit, precision, vmap
from factorgraph.testing.checks.scaling import limits, scaling, units
from factorgraph.testing.checks.slopes import continuous, derivative, monotone
from factorgraph.testing.checks.values import domain, gradient, roofline

Check = Callable[[Bench, Values], str | None]

# By name, in the order in which a new law should be mended.
CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        signature,
        pytree,
        dtype,
        stateless,
        retrace,
        jit,
        vmap,
        domain,
        precision,
        gradient,
        continuous,
        derivative,
        monotone,
        units,
        scaling,
        limits,
        roofline,
    )
}

# Share of the examples that a check needs: what does not hang on the values is seen at a few points.
EFFORT = {"signature": 0.0, "pytree": 0.0, "dtype": 0.0, "stateless": 0.2, "retrace": 0.0, "jit": 0.2}
