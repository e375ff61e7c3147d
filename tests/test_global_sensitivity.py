"""Estimators against the closed forms of Ishigami and Sobol's g, written as laws."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import factorgraph as fg
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.factor import Factor, parameter
from factorgraph.global_sensitivity import global_sensitivity
from factorgraph.graph import FactorGraph
from factorgraph.variables import Domain, Variable
from factorgraph.workload import load_model

_ANY = Domain(-10.0, 10.0)
X1 = Annotated[Array, Variable("x1", "1", _ANY)]
X2 = Annotated[Array, Variable("x2", "1", _ANY)]
X3 = Annotated[Array, Variable("x3", "1", _ANY)]
Y = Annotated[Array, Variable("y", "s", Domain(-100.0, 100.0))]


class Ishigami(Factor):
    """Ishigami and Homma 1990, with a = 7 and b = 0.1."""

    a: Array = parameter(7.0, source="Ishigami and Homma 1990")

    def __call__(self, x1: X1, x2: X2, x3: X3) -> Y:
        return jnp.sin(x1) + self.a * jnp.sin(x2) ** 2 + 0.1 * x3**4 * jnp.sin(x1)


class SobolG(Factor):
    """g = product of (|4 x - 2| + c) / (1 + c) over three inputs."""

    def __call__(self, x1: X1, x2: X2, x3: X3) -> Y:
        return jnp.prod(jnp.stack([(abs(4 * x - 2) + c) / (1 + c) for x, c in ((x1, 0.0), (x2, 1.0), (x3, 9.0))]))


class Line(Factor):
    def __call__(self, x1: X1, x2: X2) -> Y:
        return 3.0 * x1 - 4.0 * x2


AT = {"x1": 0.5, "x2": 0.5, "x3": 0.5}
CIRCLE = dict.fromkeys(AT, (-np.pi, np.pi))
# Variance 13.845: first order 0.3139, 0.4424, 0; total 0.5576, 0.4424, 0.2437.
ISHIGAMI = ([0.3139, 0.4424, 0.0], [0.5576, 0.4424, 0.2437])


def sobol_g():
    parts = np.array([1 / 3 / (1 + c) ** 2 for c in (0.0, 1.0, 9.0)])
    whole = np.prod(1 + parts) - 1
    return parts / whole, np.array([v * np.prod(1 + parts) / (1 + v) for v in parts]) / whole


def test_sobol_shares_of_ishigami():
    out = global_sensitivity(FactorGraph([Ishigami()]), AT, over=CIRCLE, output="y", samples=4096)
    np.testing.assert_allclose(out.first_order.isel(samples=-1), ISHIGAMI[0], atol=0.02)
    np.testing.assert_allclose(out.total.isel(samples=-1), ISHIGAMI[1], atol=0.02)
    assert out.samples.values.tolist() == [512, 1024, 2048, 4096]
    assert (out.total_interval.isel(samples=-1) < out.total_interval.isel(samples=0)).all()


def test_sobol_shares_of_the_g_function():
    over = dict.fromkeys(AT, (0.0, 1.0))
    out = global_sensitivity(FactorGraph([SobolG()]), AT, over=over, output="y", samples=4096)
    first, total = sobol_g()
    np.testing.assert_allclose(out.first_order.isel(samples=-1), first, atol=0.02)
    np.testing.assert_allclose(out.total.isel(samples=-1), total, atol=0.02)


def test_first_order_shares_from_any_points():
    out = global_sensitivity(FactorGraph([Ishigami()]), AT, over=CIRCLE, output="y", samples=4096, method="first")
    np.testing.assert_allclose(out.first_order.isel(samples=-1), ISHIGAMI[0], atol=0.03)


def test_morris_effects_of_a_line_are_its_slopes_times_the_ranges():
    over = {"x1": (0.0, 2.0), "x2": (0.0, 1.0)}
    out = global_sensitivity(FactorGraph([Line()]), AT, over=over, output="y", samples=64, method="morris")
    last = out.isel(samples=-1)
    np.testing.assert_allclose(last.mean_effect, [6.0, -4.0], rtol=1e-5)
    np.testing.assert_allclose(last.mean_absolute_effect, [6.0, 4.0], rtol=1e-5)
    np.testing.assert_allclose(last.spread, 0.0, atol=1e-5)
    assert out.mean_effect.units == "s"


def test_morris_ranks_ishigami_with_interaction():
    out = global_sensitivity(FactorGraph([Ishigami()]), AT, over=CIRCLE, output="y", samples=256, method="morris")
    last = out.isel(samples=-1)
    # x3 acts through x1 alone: no mean effect, a wide spread.
    assert abs(float(last.mean_effect.sel(parameter="x3"))) < 1.0
    assert float(last.spread.sel(parameter="x3")) > 3.0


def test_draws_bring_their_own_distribution():
    """A normal x1 of variance 4 beside a uniform x2 of variance 1/12: shares 9*4 and 16/12 of their sum."""
    draws = np.random.default_rng(1).normal(0.0, 2.0, 4000)
    over = {"x1": np.clip(draws, -10, 10), "x2": (0.0, 1.0)}
    expected = np.array([36.0, 16 / 12]) / (36.0 + 16 / 12)
    out = global_sensitivity(FactorGraph([Line()]), AT, over=over, output="y", samples=2048)
    np.testing.assert_allclose(out.first_order.isel(samples=-1), expected, atol=0.03)


def test_correlated_draws_stay_together():
    """With x2 = 3/4 x1 the two cancel but for noise; taken for independent they would not."""
    rng = np.random.default_rng(2)
    x1 = rng.normal(0.0, 1.0, 4096)
    over = {"x1": x1, "x2": 0.75 * x1 + rng.normal(0.0, 0.1, 4096)}
    out = global_sensitivity(FactorGraph([Line()]), AT, over=over, output="y", samples=4096, method="first")
    # y = -4 * noise: known x1 tells nothing of it, known x2 next to nothing.
    assert float(out.first_order.isel(samples=-1).max()) < 0.1


def test_constants_step_numbers_and_factors_can_be_spread(h100):
    decode = load_model("llama-3.1-8b").decode(batch=64, context=2048)
    over = {"t_host.s0": (0.0, 1e-3), "context": (1024, 3072), "eta_mem": (0.95, 1.05)}
    out = global_sensitivity(fg.step_graph(), h100, decode, over=over, samples=128)
    last = out.isel(samples=-1)
    assert str(last.first_order.idxmax().values) == "context"
    assert float(last.first_order.sum()) == pytest.approx(1.0, abs=0.1)


def test_the_same_seed_gives_the_same_result():
    once, again, other = (
        global_sensitivity(FactorGraph([Ishigami()]), AT, over=CIRCLE, output="y", samples=64, seed=seed)
        for seed in (3, 3, 4)
    )
    assert once.equals(again)
    assert not once.equals(other)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"method": "sobel"}, UnknownNameError, "did you mean 'sobol'"),
        ({"samples": 100}, FactorGraphError, "power of two"),
        ({"output": "z"}, UnknownNameError, "unknown output"),
        ({"over": {}}, FactorGraphError, "nothing to vary"),
        ({"over": {"x9": (0, 1)}}, UnknownNameError, "did you mean"),
        ({"over": {"x1": (1, 0)}}, FactorGraphError, "low before high"),
        ({"over": {"x1": 1.0}}, FactorGraphError, "range"),
        ({"over": {"y.a": (7.0, 7.0)}}, FactorGraphError, "does not vary"),
        ({"over": {"x3": (0.0, 1e-9)}, "x1": 0.0}, FactorGraphError, "does not move"),
        (
            {"method": "first", "over": {"x1": np.ones(9).cumsum(), "x2": np.ones(5).cumsum()}},
            FactorGraphError,
            "equally",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(asked, error, message):
    asked = {"over": CIRCLE, "output": "y", "samples": 64} | asked
    with pytest.raises(error, match=message):
        global_sensitivity(FactorGraph([Ishigami()]), AT, **asked)
