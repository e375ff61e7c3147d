"""Measure, fit, predict, compare: on numbers that are made up, and on this machine."""

import dataclasses

import numpy as np
import pytest

import factorgraph as fg
from factorgraph.hardware import Fact
from factorgraph.measuring import (
    Effort,
    cpu_graph,
    fit_half,
    measure_cases,
    product_observations,
    this_machine,
    write_card,
)
from factorgraph.measuring.cases import gemm_case
from factorgraph.measuring.tables import as_dataset


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """Of a CPU of 4 cores, 32 FLOP a clock, 2 GHz, 20 GB/s, 32 MiB of cache."""
    number = {
        "sm_count": Fact(4, "SM", "made up"),
        "flop_per_clock_per_sm.fp32": Fact(32, "FLOP", "made up"),
        "dram_bandwidth": Fact(20e9, "B/s", "made up"),
        "l2_capacity": Fact(32 * 2**20, "B", "made up"),
        "dram_capacity": Fact(8e9, "B", "made up"),
        "nvlink_bandwidth": Fact(0, "B/s", "made up"),
        "nvlink_domain": Fact(1, "1", "made up"),
        "pcie_bandwidth": Fact(20e9, "B/s", "made up"),
    }
    number |= dict.fromkeys(("boost_clock", "max_clock"), Fact(2e9, "Hz", "made up"))
    number |= dict.fromkeys(("tdp", "power_cap_max"), Fact(40, "W", "made up"))
    return write_card(tmp_path_factory.mktemp("card") / "example-cpu.toml", number, "Example CPU")


def made_up(latency, sku="example-cpu", kind="gemm", dtype="fp32"):
    """Every product of a few sides, warm and with four copies, that takes `latency(m, n, k, copies)`."""
    shapes = [(m, n, k, c) for m in (1, 8, 64, 512) for n in (256, 1024, 4096) for k in (512, 2048) for c in (1, 4)]
    rows = [
        {"m": m, "n": n, "k": k, "cache_copies": c, "cache_state": "rotating", "latency": latency(m, n, k, c)}
        for m, n, k, c in shapes
    ]
    said = ("title", "engine", "engine_version", "kernel_source", "statistic", "source", "date")
    return as_dataset(kind, rows, dict.fromkeys(said, "unknown") | {"sku": sku, "dtype": dtype})


def roofline(m, n, k, copies):
    """Written out by hand: 5 us a call, 60 % of 256 GFLOP/s at many rows, half of that at 6, 90 % of 20 GB/s, 3 times
    that from the cache."""
    arithmetic = 2.0 * m * n * k * (1.0 + 6.0 / m) / (0.6 * 4 * 32 * 2e9)
    set_over_cache = 4.0 * (m * k + copies * k * n + m * n) / (32 * 2**20)
    faster = 1.0 + 2.0 / (1.0 + set_over_cache**4)
    stream = 4.0 * (m * k + k * n + m * n) / (20e9 * 0.9 * faster)
    return 5e-6 + (arithmetic**2 + stream**2) ** 0.5


def test_constants_come_back_from_times_that_they_made(card):
    result = fit_half(made_up(roofline), card)
    true = {"t_arithmetic.reached": 0.6, "t_arithmetic.m_half": 6.0, "t_stream.share": 0.9, "t_stream.gain": 2.0,
            "t_gemm.t_call": 5e-6}  # fmt: skip
    assert result.fit.result == "successful"
    for name, value in true.items():
        assert result.fit.constants[name] == pytest.approx(value, rel=0.03), name
    assert result.error < 0.01 < result.error_of_mean


def test_the_halves_share_no_shape_and_the_seed_draws_them(card):
    dataset = made_up(roofline)
    one, same, other = (fit_half(dataset, card, seed=seed) for seed in (1, 1, 2))
    assert one.fitted + one.held_out == dataset.sizes["row"]
    assert one.fitted == one.held_out == dataset.sizes["row"] // 2
    assert one.error == same.error != other.error


def test_the_graph_gives_the_written_out_time(card):
    dataset = made_up(roofline)
    constants = {"t_arithmetic.reached": 0.6, "t_arithmetic.m_half": 6.0, "t_stream.share": 0.9,
                 "t_stream.gain": 2.0, "t_gemm.t_call": 5e-6, "t_gemm.overlap": 2.0}  # fmt: skip
    graph = cpu_graph().with_parameters(constants)
    seen = product_observations(dataset, card)
    predicted = graph.evaluate({name: value[0] for name, value in seen.values.items()})["t_gemm"]
    np.testing.assert_allclose(predicted, dataset.latency, rtol=2e-5)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sku": "other-cpu"}, "the dataset is of 'other-cpu', the card of 'example-cpu'; give those of one machine"),
        ({"dtype": "fp8"}, "products in fp8 cannot be used"),
        ({"dtype": "bf16"}, "do not multiply in bf16; they do in fp32"),
    ],
)
def test_data_that_do_not_fit_the_card(change, complaint, card):
    with pytest.raises(fg.FactorGraphError, match=complaint):
        product_observations(made_up(roofline, **change), card)


def test_a_dataset_of_another_kind(card):
    with pytest.raises(fg.FactorGraphError, match="give one of `measure gemm`"):
        product_observations(fg.load_dataset("attention-decode"), card)


def test_too_few_shapes(card):
    with pytest.raises(fg.FactorGraphError, match="2 shapes are too few"):
        fit_half(made_up(roofline).isel(row=slice(0, 4)), card)


def test_the_chain_on_this_machine(card, tmp_path):
    """Tiny products whose times differ a hundredfold: a fitted graph says more of them than their mean does."""
    machine = dataclasses.replace(this_machine(), device=card.title)
    cases = [gemm_case(m, n, k, machine, 1) for m in (1, 16, 256) for n in (64, 512) for k in (64, 512)]
    measure_cases("gemm", cases, machine, tmp_path / "gemm.nc", Effort(least=2e-3, repeats=9))
    dataset = fg.load_dataset(tmp_path / "gemm.nc")
    result = fit_half(dataset, card)
    assert result.fitted + result.held_out == dataset.sizes["row"]
    assert result.error < result.error_of_mean
