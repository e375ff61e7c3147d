"""Run the benchmarks, or those that are named: python -m benchmarks [NAME...]."""

import sys

from rich.console import Console
from rich.table import Table

from benchmarks import gradients, memory, peer, predictions, replays, startup

BENCHMARKS = {
    "predictions": predictions,
    "gradients": gradients,
    "peer": peer,
    "replays": replays,
    "startup": startup,
    "memory": memory,
}


def main(names: list[str]) -> None:
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    table = Table("what", "figure", "ratio", "against", title="Benchmarks")
    for name in names or BENCHMARKS:
        for line in BENCHMARKS[name].run():
            table.add_row(line.what, line.value, f"{line.ratio:.3g}", line.against)
    Console(width=120).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
