"""Figures of what matters: the tornado and the map of elasticities."""

import numpy as np
import xarray as xr
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.plotting.style import (
    ACCENT,
    DASHES,
    FAINT,
    INK,
    SHADES,
    axis_label,
    dark,
    new_figure,
    require,
    spread,
    styled,
)

_SIGNED = LinearSegmentedColormap.from_list("signed", [SHADES[0], SHADES[2], "#ffffff", "#e8b48e", ACCENT])


def tornado(swings: xr.Dataset, *, output: str = "t_step") -> Figure:
    """How far each quantity moves the output between its two values, the widest on top.

    Args:
        swings: from [`swing`][factorgraph.sensitivity.swing], selected down to one card.
        output: the output shown.

    Raises:
        FactorGraphError: more than one card is left.
    """
    require(swings, "low", "high", "baseline", "change", maker="swing")
    one = swings.sel(output=_among(swings, output))
    if one["low"].dims != ("parameter",):
        raise FactorGraphError("a tornado shows one card and one point; select one with .sel(...)")
    one = one.sortby(abs(one["change"]))
    baseline = float(one["baseline"])
    ends = 100.0 * (np.stack([one["low"].values, one["high"].values]) / baseline - 1.0)
    names = [str(name) for name in one["parameter"].values]
    with styled():
        figure, axes = new_figure(6.4, 1.3 + 0.38 * len(names))
        reach = max(float(np.abs(ends).max()), 1e-6)
        for y in range(len(names)):
            for end, value, shade in ((0, one["start"], SHADES[0]), (1, one["stop"], SHADES[3])):
                change = ends[end, y]
                axes.barh(y, change, color=shade, height=0.6)
                side = "left" if change > 0 else "right"
                text = _number(str(value.values[y]))
                if abs(change) > 0.002 * reach:
                    offset = (4 if change > 0 else -4, 0)
                    axes.annotate(text, (change, y), offset, textcoords="offset points", ha=side, va="center")
        axes.axvline(0.0, color=INK, linewidth=0.9)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlim(-1.25 * max(-ends.min(), 0.15 * reach), 1.25 * max(ends.max(), 0.15 * reach))
        axes.set_xlabel(f"change of {output} against the case as given (%)")
        axes.set_title(f"{names[-1]} moves {output} most: {np.ptp(ends[:, -1]):.0f} % between its two values")
        axes.tick_params(axis="y", length=0)
        axes.grid(True, axis="x")
        for end, shade in (("first value", SHADES[0]), ("second value", SHADES[3])):
            axes.barh(0, 0, color=shade, label=end)
        axes.legend(loc="lower right")
    return figure


def elasticity_map(sensitivities: xr.Dataset, *, output: str = "t_step") -> Figure:
    """Elasticity of an output by each parameter on each card: which per cent matters where.

    Args:
        sensitivities: from [`sensitivity`][factorgraph.sensitivity.sensitivity] for a list of cards.
        output: the output shown.

    Raises:
        FactorGraphError: the data do not span cards and parameters alone.
    """
    require(sensitivities, "elasticity", maker="sensitivity")
    one = sensitivities["elasticity"].sel(output=_among(sensitivities, output))
    if set(one.dims) != {"sku", "parameter"}:
        raise FactorGraphError(f"a map spans cards and parameters; these data span {', '.join(map(str, one.dims))}")
    one = one.transpose("parameter", "sku")
    one = one.isel(parameter=np.argsort(-abs(one).max("sku").values))
    values, names, cards = one.values, list(map(str, one["parameter"].values)), list(map(str, one["sku"].values))
    reach = max(float(np.abs(values).max()), 1e-6)
    with styled():
        figure, axes = new_figure(2.4 + 0.85 * len(cards), 1.5 + 0.36 * len(names))
        image = axes.imshow(values, cmap=_SIGNED, vmin=-reach, vmax=reach, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if dark(_SIGNED(0.5 + 0.5 * value / reach)) else INK
            shown = f"{value:+.2f}".replace("-", "−") if abs(value) >= 0.005 else "0"
            axes.text(column, row, shown, ha="center", va="center", color=colour)
        axes.set_xticks(range(len(cards)), cards, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{names[0]} matters most for {output}")
        bar = figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02)
        bar.set_label(f"elasticity: % of {output} per % of parameter")
        bar.outline.set_edgecolor(FAINT)
    return figure


def convergence(shares: xr.Dataset, *, estimate: str = "first_order") -> Figure:
    """How an estimate settles as samples are added, with its 95 % intervals.

    Args:
        shares: from [`global_sensitivity`][factorgraph.global_sensitivity.global_sensitivity].
        estimate: a variable of it that has an interval.

    Raises:
        UnknownNameError: there is no such estimate.
    """
    with_interval = [str(name) for name in shares.data_vars if f"{name}_interval" in shares]
    if estimate not in with_interval:
        raise UnknownNameError("estimate", estimate, with_interval)
    values, half = shares[estimate], shares[f"{estimate}_interval"]
    names = [str(name) for name in values["parameter"].values]
    samples = values["samples"].values.astype(float)
    with styled():
        figure, axes = new_figure(6.4, 3.8)
        for i, (name, shade) in enumerate(zip(names, spread(len(names)), strict=True)):
            one, bars = values.sel(parameter=name).values, half.sel(parameter=name).values
            # Side by side, so that no interval hides another.
            at = samples * 1.06 ** (i - (len(names) - 1) / 2)
            axes.errorbar(at, one, bars, color=shade, linestyle=DASHES[i % len(DASHES)], marker="o", ms=4, label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(samples, [f"{size:.0f}" for size in samples])
        axes.minorticks_off()
        axes.set_xlabel("samples")
        unit = values.attrs.get("units", "1")
        axes.set_ylabel(axis_label(estimate.replace("_", " "), "" if unit == "1" else unit))
        widest = float(half.isel(samples=-1).max())
        axes.set_title(f"settled to ±{widest:.2g} with {samples[-1]:.0f} samples")
        axes.grid(True, axis="y")
        figure.legend(loc="outside right upper")
    return figure


def _among(data: xr.Dataset, output: str) -> str:
    outputs = [str(name) for name in data["output"].values]
    if output not in outputs:
        raise UnknownNameError("output", output, outputs)
    return output


def _number(text: str) -> str:
    """1830000000.0 as 1.83e+09, 132 as 132, fp8 as fp8."""
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
