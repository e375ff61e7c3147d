"""Mutilated files: the same numbers, or one clear sentence; never another outcome.

Of foreign text nobody can tell whether a digit was changed, so that the numbers are compared where the mutation keeps
them or only takes rows away; everywhere the result must be valid and every row accounted for. Files of our own carry a
digest and are held to the whole promise.
"""

import zlib
from collections import Counter

import numpy as np
import pytest
import samples
import xarray as xr
from mutations import HARMS, HARMS_TABLE, KEEPS, KEEPS_TABLE, bytes_lost, cut, flipped_bit, junk_inside, lost_cell

import factorgraph as fg
from factorgraph.datasets import conform, import_file, load_dataset, write_csv, write_netcdf

# By name: the content, whether it is a table, the format, the options.
FOREIGN = {
    "plain": (samples.PLAIN, True, "csv", {"kind": "gemm", "columns": samples.PLAIN_COLUMNS}),
    "vidur-layer": (samples.VIDUR_MLP, True, "vidur", {}),
    "vidur-light": (samples.VIDUR_MLP, True, "vidur", {"part": "light"}),
    "vidur-attention": (samples.VIDUR_ATTENTION, True, "vidur", {}),
    "vidur-host": (samples.VIDUR_HOST, True, "vidur", {}),
    "vidur-network": (samples.VIDUR_NETWORK, True, "vidur", {}),
    "silicon": (samples.SILICON, True, "silicon-sample", {}),
    "gpu-benches": (samples.GPU_L2_CACHE, False, "gpu-benches", {}),
    "um-stream": (samples.UM_STREAM, False, "gpu-benches", {}),
    "serve": (samples.VLLM_SERVE + "\n", False, "vllm-bench", {}),
    "latency": (samples.VLLM_LATENCY + "\n", False, "vllm-bench", {"batch": 1, "input_len": 2, "output_len": 3}),
    "mlperf": (samples.MLPERF, False, "mlperf", {}),
    "nsys": (samples.NSYS, False, "nsys", {}),
    "trace": (samples.TORCH_TRACE + "\n", False, "torch-trace", {}),
}
# How often each harm is done to each file; the nightly run does it more often.
ROUNDS = [12, pytest.param(120, marks=pytest.mark.nightly)]


def outcome(load, path) -> xr.Dataset | None:
    """What was loaded, or None where it was refused as documented."""
    try:
        return load(path)
    except fg.FactorGraphError as error:
        text = str(error)
        assert text
        assert "\n" not in text.replace(str(path), "")
        assert len(text) < 4000
        return None


def numbers(dataset: xr.Dataset) -> Counter:
    """Every row as a tuple, with how often it occurs."""
    columns = sorted(name for name in dataset.variables if name not in ("source", "repeats_earlier"))
    return Counter(zip(*(dataset[name].values.tolist() for name in columns), strict=True))


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files(tmp_path, name, rounds):
    content, is_table, format, options = FOREIGN[name]
    random = np.random.default_rng(zlib.crc32(name.encode()))
    path = tmp_path / "file.csv"

    def load(path):
        imported = import_file(path, format, **options)
        assert set(imported.counts.values()) <= set(range(1, len(imported.rejected) + 1))
        assert sum(imported.counts.values()) == len(imported.rejected)
        return conform(imported.dataset)

    path.write_bytes(content.encode())
    whole = numbers(load(path))
    for mutation in KEEPS + KEEPS_TABLE * is_table:
        for _ in range(2):
            path.write_bytes(mutation(content.encode(), random))
            assert numbers(load(path)) == whole, mutation
    for mutation in HARMS + HARMS_TABLE * is_table:
        for _ in range(rounds):
            path.write_bytes(mutation(content.encode(), random))
            loaded = outcome(load, path)
            if loaded is not None and mutation is lost_cell:
                assert not numbers(loaded) - whole


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("name", ["data.nc", "data.csv", "data.csv.gz"])
def test_files_of_our_own(tmp_path, name, rounds):
    random = np.random.default_rng(zlib.crc32(name.encode()))
    whole = load_dataset("power-caps").isel(row=slice(0, 4))
    path = tmp_path / name
    content = (write_netcdf if name == "data.nc" else write_csv)(whole, path).read_bytes()
    refused = 0
    for mutation in (cut, flipped_bit, junk_inside, bytes_lost):
        for _ in range(5 * rounds):
            path.write_bytes(mutation(content, random))
            loaded = outcome(load_dataset, path)
            refused += loaded is None
            if loaded is not None:
                xr.testing.assert_identical(loaded, whole)
    assert refused > 5 * rounds
