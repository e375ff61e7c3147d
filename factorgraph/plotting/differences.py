"""The figure of why two predictions differ."""

import itertools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from factorgraph.plotting.style import ACCENT, FAINT, INK, SHADES, axis_label, new_figure, require, scale, styled


def difference(why: xr.Dataset, *, before: str = "before", after: str = "after", shown: int = 8) -> Figure:
    """From one step time to another, one cause after the other.

    Args:
        why: from [`explain_difference`][factorgraph.difference.explain_difference].
        before, after: what the two cases are called.
        shown: causes drawn one by one; the smallest ones are drawn together.

    Examples:
        >>> import factorgraph as fg
        >>> from factorgraph.difference import explain_difference
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> cases = (fg.load_sku("h100-sxm"), step), (fg.load_sku("h200-sxm"), step)
        >>> figure = difference(explain_difference(fg.step_graph(), *cases), before="H100", after="H200")
        >>> figure.axes[0].get_xlabel()
        'step time (ms)'
    """
    require(why, "seconds", "before", "after", maker="explain_difference")
    names, seconds = [str(name) for name in why["cause"].values], why["seconds"].values
    # Below a thousandth of the step a bar is thinner than its outline.
    kept = [i for i in range(len(names)) if abs(seconds[i]) > 1e-3 * float(why["before"])][:shown]
    rest = float(seconds.sum() - seconds[kept].sum())
    labels, changes = [names[i] for i in kept], [float(seconds[i]) for i in kept]
    if abs(rest) > 1e-3 * float(why["before"]):
        labels, changes = [*labels, "all else"], [*changes, rest]
    start, end = float(why["before"]), float(why["after"])
    factor, unit = scale([start, end], "s")
    stops = np.cumsum([start, *changes]) / factor
    with styled():
        figure, axes = new_figure(6.4, 1.4 + 0.36 * (len(labels) + 2))
        rows = [before, *labels, after]
        axes.barh(0, start / factor, color=SHADES[0], height=0.62)
        axes.barh(len(rows) - 1, end / factor, color=SHADES[0], height=0.62)
        reach = max(start, end, *(stops * factor)) / factor
        for row, (low, high) in enumerate(itertools.pairwise(stops), start=1):
            axes.barh(row, high - low, left=low, color=ACCENT if high > low else SHADES[2], height=0.62)
            text = f"{high - low:+.3g}".replace("-", "−")
            axes.text(max(low, high) + 0.012 * reach, row, text, va="center")
            axes.plot([low, low], [row - 1 + 0.31, row + 0.31], color=FAINT, linewidth=0.8)
        for row, value in ((0, start), (len(rows) - 1, end)):
            axes.text(value / factor + 0.012 * reach, row, f"{value / factor:.3g}", va="center", color=INK)
        axes.set_yticks(range(len(rows)), rows)
        axes.invert_yaxis()
        axes.set_xlim(0.0, 1.12 * reach)
        axes.set_xlabel(axis_label("step time", unit))
        axes.tick_params(axis="y", length=0)
        ratio = f"{start / end:.2f}x faster" if start >= end else f"{end / start:.2f}x slower"
        axes.set_title(
            f"{after} is {ratio} than {before}, most of it by {labels[0]}" if labels else f"{after} is alike"
        )
    return figure
