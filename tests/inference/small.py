"""A law of which everything is known in closed form, and measurements made with it."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.graph import FactorGraph
from factorgraph.observations import Observations
from factorgraph.variables import Domain, Variable

Load = Annotated[Array, Variable("load", "1", Domain(0.0, 10.0), plates=("row",))]
Took = Annotated[Array, Variable("took", "s", Domain(0.0, 1e9), plates=("row",))]


class Exponential(Factor):
    """ln took = a + b load: the logarithm is linear in both constants."""

    a: Array = parameter(1.0, source="a test", lower=-10.0, upper=10.0)
    b: Array = parameter(1.0, source="a test", lower=-10.0, upper=10.0)

    def __call__(self, load: Load) -> Took:
        return jnp.exp(self.a + self.b * load)


class Product(Factor):
    """took = p q (1 + load): only the product shows."""

    p: Array = parameter(1.0, source="a test")
    q: Array = parameter(1.0, source="a test")
    idle: Array = parameter(1.0, source="a test")

    def __call__(self, load: Load) -> Took:
        return self.p * self.q * (1.0 + load) + 0.0 * self.idle


def exponential() -> FactorGraph:
    return FactorGraph([Exponential()])


def made(took: np.ndarray, load: np.ndarray, groups: tuple[str, ...] = ("one",)) -> Observations:
    """Measurements, (group, row)."""
    shape = (len(groups), -1)
    return Observations(
        values={"load": jnp.asarray(np.reshape(load, shape), float)},
        measured=jnp.asarray(np.reshape(took, shape), float),
        target="took",
        groups=groups,
    )
