"""Time to the first answer of the command, beside that of importing JAX alone."""

import itertools
import subprocess
import sys
import time

from benchmarks.measuring import Line

QUESTION = {"--sku": "h200-sxm", "--model": "llama-3.1-8b", "--batch": "64", "--context": "2048"}


def run() -> list[Line]:
    jax = _shortest([sys.executable, "-c", "import jax"])
    imported = _shortest([sys.executable, "-c", "import factorgraph"])
    predicted = _shortest([sys.executable, "-m", "factorgraph", "predict", *itertools.chain(*QUESTION.items())])
    against = "time of importing JAX"
    return [
        Line("import factorgraph", f"{imported:.2f} s", imported / jax, against),
        Line("factorgraph predict, first result", f"{predicted:.2f} s", predicted / jax, against),
    ]


def _shortest(command: list[str]) -> float:
    """The best of four, the first of which warms the file cache and is not counted."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times[1:])
