"""Figures of where the peak goes: the waterfall, the pull-down of several cards, the roofline."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.plotting.style import (
    ACCENT,
    FAINT,
    INK,
    LEFT,
    SHADES,
    axis_label,
    dark,
    new_figure,
    require,
    scale,
    styled,
)

NAMES = {
    "eta_clock": "clock",
    "eta_wave": "waves",
    "eta_tc": "tensor core",
    "eta_barrier": "barriers",
    "eta_mem": "memory",
}


def waterfall(falls: xr.Dataset, *, gemm: str | None = None) -> Figure:
    """From peak down to what is achieved, one factor after the other.

    Args:
        falls: from [`waterfall`][factorgraph.attribution.waterfall], selected down to one card.
        gemm: the GEMM shown; all of the step together, by time, if left out.

    Raises:
        UnknownNameError: no GEMM has that name.
        FactorGraphError: more than one card is left.

    Examples:
        >>> import factorgraph as fg
        >>> step = fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)
        >>> falls = fg.waterfall(fg.step_graph(), fg.load_sku("h100-sxm"), step)
        >>> waterfall(falls, gemm="down_proj").axes[0].get_ylabel()
        'share of peak FLOP/s (%)'
    """
    one = _one_gemm(falls, gemm)
    _hold_to(one, ())
    after = 100.0 * one["efficiency"].values
    before = np.concatenate([[100.0], after[:-1]])
    lost = before - after
    labels = ["peak", *(NAMES.get(str(name), str(name)) for name in one["factor"].values), "achieved"]
    worst = int(np.argmax(lost))
    with styled():
        figure, axes = new_figure()
        axes.bar(0, 100.0, color=LEFT, edgecolor=FAINT, width=0.66)
        for i, (top, bottom) in enumerate(zip(before, after, strict=True), start=1):
            axes.bar(i, top - bottom, bottom=bottom, width=0.66, color=ACCENT if i - 1 == worst else SHADES[1])
            axes.text(i, bottom - 1.5, _points(top - bottom), ha="center", va="top")
            axes.plot([i - 1 + 0.33, i + 0.33], [top, top], color=FAINT, linewidth=0.8)
        end = len(labels) - 1
        axes.plot([end - 1 + 0.33, end + 0.33], [after[-1]] * 2, color=FAINT, linewidth=0.8)
        axes.bar(end, after[-1], color=SHADES[0], width=0.66)
        axes.text(end, after[-1] + 1.5, f"{after[-1]:.1f} %", ha="center", va="bottom", fontweight="bold")
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylim(min(0.0, after[-1] - 8.0), 104.0)
        axes.set_ylabel("share of peak FLOP/s (%)")
        what = gemm if gemm is not None else "all GEMMs of the step"
        axes.set_title(f"{what}: {labels[worst + 1]} takes {lost[worst]:.0f} of the {lost.sum():.0f} points lost")
        axes.tick_params(axis="x", length=0)
    return figure


def pull_down(falls: xr.Dataset, *, gemm: str | None = None) -> Figure:
    """What is left of peak on each card, and what each factor took.

    Args:
        falls: from [`waterfall`][factorgraph.attribution.waterfall] for a list of cards.
        gemm: the GEMM shown; all of the step together, by time, if left out.

    Raises:
        UnknownNameError: no GEMM has that name.
        FactorGraphError: the data do not span cards, or span more than cards.
    """
    one = _one_gemm(falls, gemm)
    _hold_to(one, ("sku",))
    left = 100.0 * one["efficiency"].isel(factor=-1)
    one, left = one.sortby(left), left.sortby(left)
    cards, factors = [str(name) for name in one["sku"].values], list(one["factor"].values)
    with styled():
        figure, axes = new_figure(6.8, 1.3 + 0.42 * len(cards))
        edge = left.values.copy()
        axes.barh(cards, edge, color=LEFT, edgecolor=FAINT, height=0.68)
        for y, value in enumerate(edge):
            axes.text(value / 2, y, f"{value:.0f}", ha="center", va="center", fontweight="bold")
        # From what is left up to the peak, the last factor first: the order of a fall, read backwards.
        for factor, shade in zip(reversed(factors), reversed(_shades(len(factors))), strict=True):
            lost = one["points_lost"].sel(factor=factor).values
            label = NAMES.get(str(factor), str(factor))
            axes.barh(cards, lost, left=edge, color=shade, height=0.68, label=label, edgecolor="white", linewidth=0.6)
            for y, (start, points) in enumerate(zip(edge, lost, strict=True)):
                if points >= 4.0:
                    colour = "white" if dark(shade) else INK
                    axes.text(start + points / 2, y, f"{points:.0f}", ha="center", va="center", color=colour)
            edge = edge + lost
        axes.set_xlim(0.0, 100.0)
        axes.set_xlabel("left of peak, and taken by each factor (percentage points)")
        what = gemm if gemm is not None else "all GEMMs of the step"
        low, high = left.values[0], left.values[-1]
        axes.set_title(f"{what}: {low:.0f} to {high:.0f} % of peak is left")
        axes.tick_params(axis="y", length=0)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(factors), reverse=True)
    return figure


def roofline(prediction: xr.Dataset) -> Figure:
    """Each GEMM and attention kernel under the roof of its card: how much work a byte brings, and how fast it goes.

    The size of a mark is the kernel's share of the time shown.

    Args:
        prediction: from [`predict`][factorgraph.labelled.predict], selected down to one card and step.

    Raises:
        FactorGraphError: more than one card or step is left, or no GEMM is there.
    """
    require(prediction, "t_gemm", "traffic", "gemm_flop", "peak_flops", "dram_bandwidth", maker="predict")
    if "gemm" not in prediction.dims or prediction["t_gemm"].dims != ("gemm",):
        raise FactorGraphError("a roofline shows the kernels of one card and one step; select one with .sel(...)")
    kernels = _roofline_points(prediction)
    bandwidth, peaks = float(prediction["dram_bandwidth"]), np.unique(prediction["peak_flops"].values)
    total = sum(kernel[3] for kernel in kernels)
    with styled():
        figure, axes = new_figure(6.4, 4.2)
        intensities = np.array([kernel[1] for kernel in kernels])
        ridge = peaks.max() / bandwidth
        x = np.geomspace(min(intensities.min(), ridge) / 4, max(intensities.max(), ridge) * 4, 200)
        factor, unit = scale(peaks, "FLOP/s")
        for peak in peaks:
            axes.plot(x, np.minimum(peak, x * bandwidth) / factor, color=INK, linewidth=1.4)
            axes.text(x[-1], peak / factor * 1.08, f"{peak / factor:,.0f} {unit}", ha="right", va="bottom")
        slope = (x[30], x[30] * bandwidth / factor)
        axes.annotate(f"{bandwidth / 1e12:.2f} TB/s", slope, (-5, 5), textcoords="offset points", ha="right")
        for kind, marker, shade in (("gemm", "o", SHADES[1]), ("attention", "D", SHADES[3])):
            some = [kernel for kernel in kernels if kernel[4] == kind]
            if some:
                sizes = [18.0 + 500.0 * kernel[3] / total for kernel in some]
                xs, ys = [k[1] for k in some], [k[2] / factor for k in some]
                label = {"gemm": "GEMM", "attention": "attention"}[kind]
                axes.scatter(xs, ys, sizes, marker=marker, c=shade, edgecolors="white", linewidths=0.8, label=label)
        for group in _crowds(kernels):
            xs, ys = group[0][1], min(k[2] for k in group) / factor
            axes.annotate(
                "\n".join(k[0] for k in group), (xs, ys), (10, -6), textcoords="offset points", va="top", fontsize=8
            )
        axes.set(xscale="log", yscale="log", xlim=(x[0], x[-1]))
        lowest = min(min(k[2] for k in kernels), x[0] * bandwidth) / factor
        axes.set_ylim(lowest / 2.5, peaks.max() / factor * 2)
        axes.set_xlabel("arithmetic intensity (FLOP/B of compulsory traffic)")
        axes.set_ylabel(axis_label("achieved rate", unit))
        bound = sum(k[3] for k in kernels if k[1] < ridge) / total
        axes.set_title(f"{100 * bound:.0f} % of kernel time lies under the memory slope")
        axes.grid(True, which="major")
        axes.legend(loc="upper left", markerscale=0.7)
    return figure


def _roofline_points(prediction: xr.Dataset) -> list[tuple[str, float, float, float, str]]:
    """Name, FLOP/B, FLOP/s, seconds in the step and kind of each kernel that multiplies."""
    points = []
    columns = {"gemm": ("gemm_flop", "traffic", "t_gemm", "gemm_count")}
    columns["attention"] = ("attention_flop", "attention_bytes", "t_attention", "attention_count")
    for kind, (flop, traffic, time, count) in columns.items():
        for i in range(prediction.sizes.get(kind, 0)):
            one = prediction.isel({kind: i})
            name = str(one[kind].values) if kind in prediction.coords else f"{kind} {i}"
            work, duration = float(one[flop]), float(one[time])
            seconds = float(one[count]) * duration
            points.append((name, work / float(one[traffic]), work / duration, seconds, kind))
    return points


def _crowds(kernels: list[tuple]) -> list[list[tuple]]:
    """Kernels whose marks lie so close together that one text must name them all."""
    groups: list[list[tuple]] = []
    for kernel in sorted(kernels, key=lambda k: (k[1], -k[2])):
        last = groups[-1][0] if groups else None
        if last and kernel[1] < last[1] * 1.6 and 0.4 < kernel[2] / last[2] < 2.5:
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups


def _one_gemm(falls: xr.Dataset, gemm: str | None) -> xr.Dataset:
    """Efficiency and points of one GEMM, or of the step's GEMMs together, under the same names."""
    require(falls, "efficiency", "points_lost", "total_efficiency", "total_points_lost", maker="waterfall")
    if gemm is None:
        return falls[["total_efficiency", "total_points_lost"]].rename(
            total_efficiency="efficiency", total_points_lost="points_lost"
        )
    names = [str(name) for name in falls["gemm"].values]
    if gemm not in names:
        raise UnknownNameError("GEMM", gemm, names)
    return falls[["efficiency", "points_lost"]].sel(gemm=gemm)


def _hold_to(falls: xr.Dataset, dims: tuple[str, ...]) -> None:
    outer = [str(d) for d in falls["efficiency"].dims if d != "factor"]
    if tuple(outer) != dims:
        wanted = f"exactly the dimension {dims[0]}" if dims else "one card and one point"
        raise FactorGraphError(f"this figure shows {wanted}, and the data span {', '.join(outer) or 'nothing'}")


def _shades(count: int) -> list[str]:
    return [SHADES[i % len(SHADES)] for i in range(count)]


def _points(value: float) -> str:
    return f"−{value:.1f}" if value >= 0.05 else "0"
