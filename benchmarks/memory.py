"""Peak memory of a sweep of ten million points written to a file, beside that of a small one."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import Line

MILLIONS, GIB = 10, 2**30


def run() -> list[Line]:
    small, _ = _peak(100)
    large, elapsed = _peak(MILLIONS * 10_000)
    rate = f"{MILLIONS * 1e6 / elapsed:,.0f} points/s"
    return [
        Line(
            f"peak memory, {MILLIONS} million points", f"{large / GIB:.2f} GiB", large / small, "peak of 10 000 points"
        ),
        Line(f"the same, against the limit of 2 GiB ({rate})", f"{large / GIB:.2f} GiB", large / (2 * GIB), "2 GiB"),
    ]


def _peak(hundreds: int) -> tuple[float, float]:
    """Peak resident bytes and seconds of a fresh process that writes a sweep of so many hundreds of points."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", str(hundreds), str(Path(folder) / "out.nc")],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return float(done.stdout), time.perf_counter() - start


def _write(hundreds: int, path: str) -> None:
    import numpy as np

    import factorgraph as fg
    from factorgraph.sweep import sweep

    sku, model = fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b")
    caps, contexts = np.linspace(300.0, 700.0, hundreds), np.linspace(128.0, 8192.0, 100)
    sweep(fg.step_graph(), sku, model, batch=64, context=contexts, power_cap=caps).write(path)
    # Linux counts in KiB.
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    _write(int(sys.argv[1]), sys.argv[2])
