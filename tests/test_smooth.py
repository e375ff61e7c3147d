"""Smooth maxima and steps: limits, bounds, and gradients at ties and zeros."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorgraph.smooth import falling_step, rising_step, smooth_max, smooth_min

POSITIVE = st.floats(2.0**-59, 2.0**60, width=32)
SHARPNESS = st.floats(1.0, 16.0, width=32)


@given(POSITIVE, POSITIVE, SHARPNESS)
def test_smooth_max_is_at_least_the_larger_and_at_most_the_sum(a, b, p):
    value = float(smooth_max(a, b, p))
    assert max(a, b) * (1 - 1e-6) <= value <= (a + b) * (1 + 1e-6)


@given(POSITIVE, POSITIVE, SHARPNESS)
def test_smooth_min_is_the_reciprocal_of_the_max_of_reciprocals(a, b, p):
    exact = 1.0 / (np.float64(1 / a) ** p + np.float64(1 / b) ** p) ** (1 / p)
    assert float(smooth_min(a, b, p)) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1e-20, 1e-20)])
@pytest.mark.parametrize("function", [smooth_max, smooth_min])
def test_gradients_are_finite_at_ties_and_zeros(function, a, b):
    assert np.isfinite(jax.grad(function, argnums=(0, 1, 2))(a, b, 3.0)).all()


def test_the_gradient_at_a_tie_is_that_of_the_norm():
    # d/da (a^p + b^p)^(1/p) at a = b is 2^(1/p - 1).
    assert float(jax.grad(smooth_max)(1.0, 1.0, 4.0)) == pytest.approx(2 ** (1 / 4 - 1), rel=1e-5)


@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_the_step_falls_from_one_to_zero_with_finite_slope(x):
    value = float(falling_step(x, 12.0))
    exact = 1 / (1 + np.exp(np.clip(12 * np.log(x), -700, 700)))
    assert value == pytest.approx(exact, rel=1e-3, abs=2e-18)
    assert np.isfinite(float(jax.grad(falling_step)(x, 12.0)))


@pytest.mark.parametrize("sharpness", [4.0, 9.0, 12.0])
@pytest.mark.parametrize("step", [falling_step, rising_step])
def test_a_step_has_a_finite_slope_however_far_away(step, sharpness):
    for x in (1e-30, 1e-3, 1.0, 30.0, 1e3, 1e12, 1e30):
        slope = float(jax.grad(step)(x, sharpness))
        assert np.isfinite(slope)
        exact = sharpness * x ** (sharpness - 1) / (1 + x**sharpness) ** 2 if x < 1e3 else 0.0
        assert slope == pytest.approx(exact if step is rising_step else -exact, rel=1e-4, abs=1e-9)


def test_the_two_steps_add_up_to_one():
    x = np.geomspace(1e-3, 1e3, 31)
    np.testing.assert_allclose(falling_step(x, 9.0) + rising_step(x, 9.0), 1.0, rtol=1e-6)
