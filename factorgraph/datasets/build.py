"""Build the bundled datasets from their sources, byte for byte: `python -m factorgraph.datasets.build FOLDER`."""

import hashlib
import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.errors import FactorGraphError
from factorgraph.results import write

SOURCE = "aiconfigurator-core 0.12.0, systems/data/<system>/gemm/<engine>/<version>/gemm_perf.parquet"
# Its names of systems, and ours of GPUs.
SYSTEMS = {
    "a100_sxm": "a100-sxm4-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
    "b200_sxm": "b200",
    "gb200": "gb200",
    "b300_sxm": "b300",
    "gb300": "gb300",
}
ENGINES = ("vllm", "trtllm", "sglang")
_MILLISECOND = 1e-3


def build_gemm(folder: Path, *, source_type: str = "bfloat16") -> Path:
    """Gather one type's GEMM tables of all systems and engines, newest version each, into one labelled file.

    Raises:
        FactorGraphError: the package that holds the tables is not installed.
    """
    tables, versions, kernels = [], {}, {}
    for system, sku in SYSTEMS.items():
        for engine in ENGINES:
            file = _newest(_systems() / "data" / system / "gemm" / engine)
            table = pd.read_parquet(file)
            table = table[table.gemm_dtype == source_type]
            versions[sku, engine] = file.parent.name
            kernels[sku, engine] = ", ".join(sorted(table.kernel_source.unique()))
            tables.append(table.assign(sku=sku, engine=engine)[["sku", "engine", "m", "n", "k", "latency"]])
    rows: pd.DataFrame = pd.concat(tables)
    key = ["sku", "engine", "m", "n", "k"]
    duplicates = int(rows.duplicated(key).sum())
    valid = np.isfinite(rows.latency) & (rows.latency > 0)
    rows = rows.loc[valid].drop_duplicates(key)
    by_table = [[versions[sku, engine] for engine in ENGINES] for sku in SYSTEMS.values()]
    by_kernel = [[kernels[sku, engine] for engine in ENGINES] for sku in SYSTEMS.values()]
    dataset = _dense(rows).assign_coords(
        engine_version=(("sku", "engine"), np.array(by_table)), kernel_source=(("sku", "engine"), np.array(by_kernel))
    )
    dataset.attrs = {
        "kind": "gemm",
        "title": f"Measured {source_type} GEMM latency on nine GPUs by three engines",
        "dtype": "bf16",
        "source": SOURCE,
        "licence": "Apache-2.0",
        "attribution": "derived from aiconfigurator-core, Copyright (c) NVIDIA CORPORATION & AFFILIATES",
        "cache_state": "rotating: the vLLM collector cycles 6 copies of the weight; others unknown",
        "operand_values": "vLLM: unset; TensorRT-LLM and SGLang: random",
        "clock_state": "unknown",
        "power_state": "unknown",
        "statistic": "as tabulated by the source",
        "rejected_duplicates": duplicates,
        "rejected_not_positive": int((~valid).sum()),
    }
    folder.mkdir(parents=True, exist_ok=True)
    return write(dataset, folder / "data.nc")


def _dense(rows: pd.DataFrame) -> xr.Dataset:
    """Latency in seconds over (sku, engine, shape), NaN where a table lacks a shape."""
    shapes = rows.loc[:, ["m", "n", "k"]].drop_duplicates().sort_values(["m", "n", "k"]).reset_index(drop=True)
    place = {shape: i for i, shape in enumerate(shapes.itertuples(index=False, name=None))}
    latency = np.full((len(SYSTEMS), len(ENGINES), len(shapes)), np.nan, np.float32)
    for i, sku in enumerate(SYSTEMS.values()):
        for j, engine in enumerate(ENGINES):
            table = rows.loc[(rows.sku == sku) & (rows.engine == engine)]
            at = [place[shape] for shape in table[["m", "n", "k"]].itertuples(index=False, name=None)]
            latency[i, j, at] = table.latency.to_numpy() * _MILLISECOND
    dims = ("sku", "engine", "shape")
    dataset = xr.Dataset(
        {"latency": (dims, latency, {"units": "s", "long_name": "GEMM latency"})},
        coords={"sku": list(SYSTEMS.values()), "engine": list(ENGINES)}
        | {n: ("shape", shapes[n].to_numpy(np.int32), {"units": "1"}) for n in ("m", "n", "k")},
    )
    dataset["latency"].encoding = {"zlib": True, "complevel": 9, "shuffle": True}
    return dataset


def _systems() -> Path:
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or found.origin is None:
        raise FactorGraphError("aiconfigurator-core is not installed; install factorgraph with the extra 'silicon'")
    return Path(found.origin).parent / "systems"


def _newest(folder: Path) -> Path:
    """The table of the highest version in a folder of versions."""
    files = sorted(
        folder.glob("*/gemm_perf.parquet"), key=lambda f: [int(n) for n in re.findall(r"\d+", f.parent.name)]
    )
    return files[-1]


def main() -> None:
    """Build the dataset that a folder is named after, and its about.json."""
    folder = Path(sys.argv[1])
    file = build_gemm(folder)
    about = {
        "kind": "gemm",
        "title": "BF16 GEMM latency, nine GPUs, three engines",
        "licence": "Apache-2.0",
        "source": SOURCE,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
