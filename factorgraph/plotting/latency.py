"""Figures of a latency over what one can set: lines over one quantity, contours over two."""

import itertools

import numpy as np
import xarray as xr
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from factorgraph.errors import FactorGraphError
from factorgraph.plotting.style import DASHES, INK, SHADES, axis_label, new_figure, scale, spread, styled

_PALE = LinearSegmentedColormap.from_list("pale", ["#ffffff", "#dfe8ec", SHADES[2]])


def latency_lines(times: xr.DataArray, *, x: str, lines: str | None = None) -> Figure:
    """Latency against one quantity, a line for each value of another: t_step over the power cap at several batches.

    Args:
        times: a time, such as `prediction.t_step`, over `x` and `lines` alone.
        x: the dimension along the axis.
        lines: the dimension told apart by lines; none for a single line.

    Raises:
        FactorGraphError: the data span other dimensions.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> out = fg.predict(fg.step_graph(), fg.load_sku("h100-sxm"), step, power_cap=[300.0, 500.0, 700.0])
        >>> latency_lines(out.t_step, x="power_cap").axes[0].get_xlabel()
        'board power limit (W)'
    """
    _hold_dims(times, [x] + ([lines] if lines else []))
    across, across_unit = _axis(times, x)
    factor, unit = scale(times.values, times.attrs.get("units", "s"))
    series = times.transpose(lines, x).values / factor if lines else times.values[None] / factor
    labels = [_tag(times, lines, value) for value in times[lines].values] if lines else [""]
    with styled():
        figure, axes = new_figure(6.4, 3.8)
        for i, (values, shade) in enumerate(zip(series, spread(len(series)), strict=True)):
            axes.plot(across, values, color=shade, linestyle=DASHES[i % len(DASHES)])
        for values, label, y in zip(series, labels, _apart(series[:, -1], 0.055 * series.max()), strict=True):
            axes.annotate(label, (across[-1], values[-1]), (across[-1] + 0.015 * np.ptp(across), y), va="center")
        axes.set_xlabel(axis_label(_long_name(times, x), across_unit))
        axes.set_ylabel(axis_label(times.attrs.get("long_name", str(times.name)), unit))
        axes.set_ylim(bottom=0.0)
        axes.margins(x=0.0)
        ratios = series.max(axis=1) / series.min(axis=1)
        where = f", most at {labels[int(np.argmax(ratios))]}" if lines else ""
        axes.set_title(f"{_long_name(times, x)}: up to {ratios.max():.2g}x in latency{where}")
        axes.grid(True, axis="y")
    return figure


def latency_contour(times: xr.DataArray, *, x: str, y: str) -> Figure:
    """Latency over two quantities at once, such as t_step over (sm_clock, working_set).

    Args:
        times: a time over `x` and `y` alone.
        x, y: the dimensions along the axes, each of at least two values.

    Raises:
        FactorGraphError: the data span other dimensions, or one of these too thinly.
    """
    _hold_dims(times, [x, y])
    if times.sizes[x] < 2 or times.sizes[y] < 2:
        raise FactorGraphError(f"contours need at least two values of {x} and of {y}")
    (across, across_unit), (up, up_unit) = _axis(times, x), _axis(times, y)
    factor, unit = scale(times.values, times.attrs.get("units", "s"))
    values = times.transpose(y, x).values / factor
    with styled():
        figure, axes = new_figure(5.8, 4.0)
        # Before the contours are labelled: a label is set into its line as the line then lies.
        for axis, points in (("x", across), ("y", up)):
            if points.min() > 0 and points.max() / points.min() > 30:
                axes.set(**{f"{axis}scale": "log"})
        shown = axes.contourf(across, up, values, levels=12, cmap=_PALE)
        lines = axes.contour(across, up, values, levels=shown.levels, colors=[INK], linewidths=0.5)
        axes.clabel(lines, np.asarray(lines.levels)[1::2], fontsize=8)
        axes.set_xlabel(axis_label(_long_name(times, x), across_unit))
        axes.set_ylabel(axis_label(_long_name(times, y), up_unit))
        name = times.attrs.get("long_name", str(times.name))
        bar = figure.colorbar(shown, ax=axes, pad=0.02)
        bar.set_label(axis_label(name, unit))
        axes.set_title(f"{name}: {values.min():.3g} to {values.max():.3g} {unit}")
    return figure


def _apart(heights: np.ndarray, least: float) -> np.ndarray:
    """The same heights, moved up where needed so that texts at them do not touch."""
    placed = np.array(heights, dtype=float)
    order = np.argsort(placed)
    for below, above in itertools.pairwise(order):
        placed[above] = max(placed[above], placed[below] + least)
    return placed


def _axis(times: xr.DataArray, dim: str) -> tuple[np.ndarray, str]:
    points = np.asarray(times[dim].values, dtype=float)
    factor, unit = scale(points, times[dim].attrs.get("units", "1"))
    return points / factor, unit


def _long_name(times: xr.DataArray, dim: str) -> str:
    return times[dim].attrs.get("long_name", dim).split(":")[0]


def _tag(times: xr.DataArray, dim: str, value) -> str:
    if isinstance(value, str):
        return value
    factor, unit = scale(times[dim].values, times[dim].attrs.get("units", "1"))
    return f"{dim} {value / factor:g} {unit}".strip()


def _hold_dims(times: xr.DataArray, wanted: list[str]) -> None:
    if set(times.dims) != set(wanted):
        spans = ", ".join(map(str, times.dims)) or "nothing"
        raise FactorGraphError(
            f"this figure spans {', '.join(wanted)}, and the data span {spans}; select the rest away"
        )
