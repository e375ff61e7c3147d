"""Figures of a loaded engine: latency against concurrency, and the limit it must keep."""

import xarray as xr
from matplotlib.figure import Figure

from factorgraph.errors import FactorGraphError
from factorgraph.plotting.style import DASHES, INK, axis_label, new_figure, spread, styled
from factorgraph.serving import most_clients_within

_MS = 1e3


def latency_against_concurrency(served: xr.Dataset, *, slo_tpot: float | None = None) -> Figure:
    """TPOT against the number of clients, a line for each card, and the limit (SLO) that is to be kept.

    Args:
        served: from `serve`, with at least two numbers of clients.
        slo_tpot: the limit, s.

    Raises:
        FactorGraphError: there is one number of clients only, or the limit is not positive.

    Examples:
        >>> import factorgraph as fg
        >>> out = fg.serve(fg.engine_step_graph(), ["h100-sxm", "h200-sxm"], "llama-3.1-8b", engine="vllm",
        ...                requests=[1, 16, 64], input=1024, output=512)
        >>> latency_against_concurrency(out, slo_tpot=0.02).axes[0].get_xlabel()
        'clients'
    """
    if slo_tpot is not None and not slo_tpot > 0:
        raise FactorGraphError(f"slo_tpot is {slo_tpot!r}; it must be a time above 0 s")
    if served.sizes["requests"] < 2:
        raise FactorGraphError("a line needs at least two numbers of clients; give serve several requests")
    if "sku" not in served.dims:
        served = served.expand_dims(sku=[""])
    clients = served["requests"].values
    with styled():
        figure, axes = new_figure(6.4, 3.8)
        for i, (sku, shade) in enumerate(zip(served["sku"].values, spread(served.sizes["sku"]), strict=True)):
            times = served["tpot"].sel(sku=sku).values * _MS
            axes.plot(clients, times, color=shade, linestyle=DASHES[i % len(DASHES)], marker=".", label=str(sku))
        if slo_tpot is not None:
            axes.axhline(slo_tpot * _MS, color=INK, linewidth=0.8)
            axes.annotate(f"SLO {slo_tpot * _MS:g} ms", (clients[0], slo_tpot * _MS), va="bottom")
        axes.set_xscale("log", base=2)
        axes.set_xticks(clients, [f"{one:g}" for one in clients])
        axes.set_xlabel("clients")
        axes.set_ylabel(axis_label("time per output token", "ms"))
        axes.set_ylim(bottom=0.0)
        axes.grid(True, axis="y")
        if served.sizes["sku"] > 1:
            axes.legend(frameon=False)
        axes.set_title(_headline(served, slo_tpot))
    return figure


def _headline(served: xr.Dataset, slo_tpot: float | None) -> str:
    if slo_tpot is None:
        low, high = served["tpot"].values.min() * _MS, served["tpot"].values.max() * _MS
        return f"TPOT from {low:.3g} to {high:.3g} ms"
    counts = zip(served["sku"].values, most_clients_within(served, slo_tpot), strict=True)
    return "Within the SLO: " + ", ".join(f"{sku} {'no load' if n is None else f'{n:g}'}".strip() for sku, n in counts)
