"""Smooth stand-ins for the maximum and for a step, with finite gradients everywhere, ties and zeros included."""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

# Below any time that occurs, and large enough that its square, by which a quotient's gradient divides, is in float32.
_TINY = 1e-18


def smooth_max(a: ArrayLike, b: ArrayLike, sharpness: ArrayLike) -> Array:
    """(a^p + b^p)^(1/p): at least the larger of two non-negative numbers, and above it only where they are alike.

    Two resources that are used at once overlap imperfectly; p says how well (p -> inf: the plain maximum, p = 1: sum).
    Scaled by the larger one, so that neither tiny nor huge numbers leave the range of float32.

    Args:
        a, b: non-negative, broadcastable.
        sharpness: p >= 1.

    Examples:
        >>> float(smooth_max(3.0, 4.0, 2.0))
        5.0
    """
    larger, correction = _larger_and_correction(a, b, sharpness)
    return larger * correction


def smooth_min(a: ArrayLike, b: ArrayLike, sharpness: ArrayLike) -> Array:
    """At most the smaller of two non-negative numbers: 1/smooth_max(1/a, 1/b), and zero where one of them is.

    Examples:
        >>> float(smooth_min(1.0, 1e9, 4.0))
        1.0
    """
    _, correction = _larger_and_correction(a, b, sharpness)
    return jnp.minimum(a, b) / correction


def _larger_and_correction(a: ArrayLike, b: ArrayLike, sharpness: ArrayLike) -> tuple[Array, Array]:
    """The larger number, and (1 + (smaller/larger)^p)^(1/p)."""
    larger = jnp.maximum(jnp.maximum(a, b), _TINY)
    ratio = jnp.minimum(a, b) / larger
    return larger, _root(1.0 + _power(ratio, sharpness), sharpness)


def _power(base: Array, exponent: ArrayLike) -> Array:
    """base^p, by multiplications where p is a whole number known beforehand: there is no logarithm in them."""
    if isinstance(exponent, float) and exponent.is_integer():
        return base ** int(exponent)
    return base**exponent


def _root(base: Array, degree: ArrayLike) -> Array:
    """base^(1/p), by square roots where p is a power of two known beforehand."""
    if isinstance(degree, float) and degree in (2.0, 4.0, 8.0, 16.0):
        for _ in range(int(math.log2(degree))):
            base = jnp.sqrt(base)
        return base
    return base ** (1.0 / degree)


def falling_step(x: ArrayLike, sharpness: float) -> Array:
    """1/(1 + x^p): one for small x, zero for large, one half at x = 1.

    Examples:
        >>> float(falling_step(1.0, 12.0))
        0.5
    """
    return 1.0 / (1.0 + _bounded_power(x, sharpness))


def rising_step(x: ArrayLike, sharpness: float) -> Array:
    """1 - falling_step(x, p), without the loss of digits where that is near one.

    Examples:
        >>> f"{float(rising_step(0.01, 12.0)):.1e}"
        '1.0e-24'
    """
    power = _bounded_power(x, sharpness)
    falling = 1.0 / (1.0 + power)
    # The value of the product, which keeps its digits where the step is near zero, with the slope of one less the
    # falling step, which keeps its own where it is near one.
    fixed = jax.lax.stop_gradient(falling)
    return jax.lax.stop_gradient(power) * fixed + (fixed - falling)


def _bounded_power(x: ArrayLike, sharpness: float) -> Array:
    """x^p up to 1e18, past which a step is over: its square, by which a quotient's gradient divides, is in float32."""
    return _power(jnp.minimum(jnp.asarray(x), 10.0 ** (18.0 / sharpness)), sharpness)
