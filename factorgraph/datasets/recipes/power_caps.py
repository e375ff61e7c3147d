"""The bundled dataset power-caps."""

from factorgraph.datasets.importers import Imported, import_file
from factorgraph.paths import data_root

_TEXT = ("sku", "workload", "dtype", "operand_values", "clock_state", "power_state", "source", "licence")
_COLUMNS = {name: name for name in _TEXT} | {
    "power_cap": "power_cap_w:W",
    "clock_lock": "clock_lock_mhz:MHz",
    "sm_clock": "sm_clock_mhz:MHz",
    "throughput": "throughput_tflops:TFLOP/s",
    "bandwidth": "bandwidth_gbs:GB/s",
    "token_rate": "token_rate:1/s",
}


def build() -> Imported:
    """Published points of clock, throughput and bandwidth under power caps and clock locks."""
    return import_file(
        data_root("datasets") / "power-caps" / "source.csv",
        "csv",
        kind="clock_power",
        columns=_COLUMNS,
        facts={
            "title": "Clock, throughput and bandwidth under power caps and clock locks, published points",
            "cache_state": "unknown",
            "statistic": "as published",
        },
    )
