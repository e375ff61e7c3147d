"""The look of every figure, and how it is saved: ink on white, told apart by lightness before hue."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from factorgraph.errors import FactorGraphError

INK = "#22303c"
FAINT = "#8a949c"
PAPER = "#ffffff"
ACCENT = "#b5432f"
# Each lighter than the one before, so that a grey print keeps their order.
SHADES = ("#173753", "#2f6690", "#5b92a8", "#d19c4c", "#eed9a4")
LEFT = "#e9ecee"
DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (1, 1)))

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "text.color": INK,
    "grid.color": "#e3e7ea",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    # A fixed salt: the same figure is the same file.
    "svg.hashsalt": "factorgraph",
}

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_SCALABLE = ("s", "B", "Hz", "FLOP", "FLOP/s", "B/s")


def styled() -> Any:
    """A context in which figures get this look."""
    return matplotlib.rc_context(_RC)


def new_figure(width: float = 6.4, height: float = 3.6) -> tuple[Figure, Axes]:
    """An empty figure, in inches, bound to no window and to no global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def save(figure: Figure, stem: str | os.PathLike) -> tuple[Path, Path]:
    """Write a figure as SVG and PNG, the same bytes for the same figure.

    Args:
        figure: from any function of this package.
        stem: path without a suffix; its folder is made if need be.

    Returns:
        The paths of the two files.

    Raises:
        FactorGraphError: the stem names a folder.

    Examples:
        >>> import tempfile
        >>> figure, axes = new_figure()
        >>> [path.name for path in save(figure, tempfile.mkdtemp() + "/empty")]
        ['empty.svg', 'empty.png']
    """
    stem = Path(stem)
    if stem.is_dir():
        raise FactorGraphError(f"{stem} is a folder; name the figure, such as {stem / 'waterfall'}")
    stem.parent.mkdir(parents=True, exist_ok=True)
    svg, png = (stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png"))
    with styled():
        figure.savefig(svg, metadata={"Date": None, "Creator": None}, facecolor=PAPER)
        figure.savefig(png, dpi=200, metadata={"Software": None}, facecolor=PAPER)
    return svg, png


def scale(values: Any, unit: str) -> tuple[float, str]:
    """What to divide values by, and the unit they are then in: seconds of 0.012 read as ms.

    Examples:
        >>> scale([0.010, 0.014], "s")
        (0.001, 'ms')
        >>> scale([300.0, 700.0], "W")
        (1.0, 'W')
    """
    largest = float(np.max(np.abs(np.asarray(values, dtype=float))))
    if unit not in _SCALABLE or largest == 0.0:
        return 1.0, "" if unit == "1" else unit
    factor, prefix = next((one for one in _PREFIXES if largest >= one[0]), _PREFIXES[-1])
    return factor, prefix + unit


def require(data: xr.Dataset, *names: str, maker: str) -> None:
    """Refuse a dataset that some other function made.

    Raises:
        FactorGraphError: a variable is missing.
    """
    missing = [name for name in names if name not in data]
    if missing:
        raise FactorGraphError(f"this figure needs '{missing[0]}', which the data lack; pass what {maker} returns")


def axis_label(text: str, unit: str) -> str:
    return f"{text} ({unit})" if unit else text


def spread(count: int, shades: Iterable[str] = SHADES) -> list[str]:
    """As many shades as are needed, evenly over those there are, the lightest left out unless it is needed."""
    shades = list(shades)
    if count <= 1:
        return shades[:1]
    top = len(shades) - 1 if count >= len(shades) else len(shades) - 2
    picks = np.linspace(0, top, count)
    rgb = np.array([to_rgb(shade) for shade in shades])
    blends = np.stack([np.interp(picks, range(len(shades)), channel) for channel in rgb.T], axis=1)
    return [to_hex((red, green, blue)) for red, green, blue in blends]


def lightness(colour: Any) -> float:
    """How light a grey print shows a colour, 0 to 1."""
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def dark(colour: Any) -> bool:
    """Whether text on a colour must be white."""
    return lightness(colour) < 0.55
