"""Smooth stand-ins for the maximum and for a step, with finite gradients everywhere, ties and zeros included."""

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
    return larger, (1.0 + ratio**sharpness) ** (1.0 / sharpness)


def falling_step(x: ArrayLike, sharpness: ArrayLike) -> Array:
    """1/(1 + x^p): one for small x, zero for large, one half at x = 1.

    Examples:
        >>> float(falling_step(1.0, 12.0))
        0.5
    """
    # Past e^60 the result is zero in float32, and clipping there keeps the power and its gradient finite.
    return 1.0 / (1.0 + jnp.exp(jnp.clip(sharpness * jnp.log(jnp.maximum(x, _TINY)), -60.0, 60.0)))
