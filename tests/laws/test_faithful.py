"""The laws as the report and the design state them, against numbers worked out by hand or printed elsewhere."""

import math

import jax
import numpy as np
import pytest

from factorgraph.laws.attention import AttentionTraffic, AttentionWork, ScoresAndCache, StreamedCache
from factorgraph.laws.barrier import BarrierDuty, Epilogue, LaunchCost, SplitReduction
from factorgraph.laws.clock import ClockRatio, EnergyRoof, PowerBalance
from factorgraph.laws.collective import OneOrTwoShot
from factorgraph.laws.gemm import CompulsoryTraffic, GemmWork
from factorgraph.laws.host import HostResidual
from factorgraph.laws.light import LaunchAndStream
from factorgraph.laws.memory import L2Reuse, LatencyBandwidth, ReuseDistance
from factorgraph.laws.peak import CountedPeak
from factorgraph.laws.tensor_core import OperandFeed
from factorgraph.laws.total import OverlappedHost, SerialHost
from factorgraph.laws.wave import ScheduledWaves, WaveEfficiency, WholeWaves


@pytest.mark.parametrize(
    ("sms", "flop", "clock", "printed"),
    [(132, 4096, 1.83e9, 989.4e12), (108, 2048, 1.41e9, 312e12), (128, 512, 2.52e9, 165.2e12)],  # datasheets
)
def test_the_peak_multiplies_out_to_the_printed_one(sms, flop, clock, printed):
    assert float(CountedPeak()(sms, flop, clock)) == pytest.approx(printed, rel=2e-3)


def test_work_and_traffic_are_counts():
    assert float(GemmWork()(3, 5, 7, 2)) == 2 * 3 * 5 * 7 * 2
    assert float(CompulsoryTraffic()(3, 5, 7, 2, 2, 1, 4)) == 2 * (3 * 7 * 2 + 7 * 5 * 1 + 3 * 5 * 4)


def test_whole_waves_are_the_textbook_count():
    # 1024 x 4096 in tiles of 128 x 256: 8 * 16 = 128 tiles on 132 SMs are one wave, 133 would be two.
    assert float(WholeWaves()(1024.0, 4096.0, 1.0, 128.0, 256.0, 1.0, 132.0)) == 1.0
    assert float(WholeWaves()(1152.0, 4096.0, 1.0, 128.0, 256.0, 1.0, 132.0)) == 2.0
    assert float(WaveEfficiency()(1024.0, 4096.0, 1.0, 128.0, 256.0, 1.0, 132.0, 1.0)) == pytest.approx(128 / 132)


def test_waves_are_whole_unless_kernels_persist():
    arguments = (1152.0, 4096.0, 1.0, 128.0, 256.0, 1.0, 132.0)  # 144 tiles: 1.0909 rounds
    assert float(ScheduledWaves()(*arguments, 0.0)) == 2.0
    assert float(ScheduledWaves()(*arguments, 1.0)) == pytest.approx(144 / 132)
    assert float(ScheduledWaves()(1.0, 64.0, 1.0, 128.0, 256.0, 1.0, 132.0, 1.0)) == 1.0


def test_the_l2_law_gives_half_its_ceiling_at_x_half():
    """eta = 0.90 x/(x + 0.477): at x = 0.477 the share is 0.45. Traffic then takes 1/0.45 of its ideal time."""
    law, bandwidth, traffic = L2Reuse(), 1e12, 1e9
    eta = float(law(1e-6, traffic, 0.477 * 50e6, 50e6, bandwidth))
    assert eta == pytest.approx(1e-6 / (traffic / bandwidth / 0.45), rel=1e-5)


def test_the_l2_law_is_the_latency_bandwidth_product_in_disguise():
    """t = t0 + bytes/BW is bytes/(BW x/(x + x_half)) with x_half = t0 BW / L2 when the set is what is streamed."""
    bandwidth, capacity, t0 = 2e12, 40e6, 1.3e-6
    law = L2Reuse(eta_max=1.0, x_half=t0 * bandwidth / capacity)
    for size in (1e6, 1e7, 1e8):
        eta = float(law(1e-12, size, size, capacity, bandwidth))
        assert 1e-12 / eta == pytest.approx(t0 + size / bandwidth, rel=1e-4)


def test_latency_is_paid_once():
    eta = float(LatencyBandwidth(t_latency=1e-6)(1e-9, 1e6, 1e12))
    assert 1e-9 / eta == pytest.approx(2e-6, rel=1e-4)


def test_traffic_within_l2_is_charged_to_l2_and_beyond_it_to_dram():
    law = ReuseDistance()

    def time(working_set):
        eta = law(1e-9, 0.0, 0.0, 1e8, working_set, 10.0, 132.0, 1.83e9, 3.35e12, 1.0, 50e6, 2.0)
        return 1e-9 / float(eta)

    l2_rate = float(law.l2_width) * 2 * 132 * 1.83e9
    dram_rate = 1 / (1 / (3.35e12 * float(law.dram_share)) + 1 / (132 * float(law.in_flight)))
    assert time(1e6) == pytest.approx(1e8 / l2_rate, rel=1e-3)
    assert time(1e10) == pytest.approx(1e8 / dram_rate, rel=1e-3)


def test_operands_bound_small_tiles_and_not_large_ones():
    law = OperandFeed()
    assert float(law(4096.0, 128.0, 256.0, 1.0)) == pytest.approx(
        1 / math.hypot(1, float(law.latency) / float(law.overlap) / 64 / (2 * 128 * 256 / 4096)), rel=1e-5
    )
    assert float(law(4096.0, 16.0, 64.0, 0.0)) < 0.1


def test_an_empty_main_loop_takes_a_launch():
    wait = float(LaunchCost()(1.0))
    eta = float(Epilogue()(1e-6, 0.0, 64.0, 64.0, 1e9, 1.0, 0.0, wait, 0.0))
    assert 1e-6 / eta == pytest.approx(1e-6 + wait, rel=1e-6)


def test_only_a_split_product_pays_for_its_reduction():
    law = SplitReduction()
    assert float(law(64.0, 64.0, 1.0, 1.0, 132.0, 1.8e9, 2.0)) == 0.0
    assert float(law(64.0, 64.0, 1.0, 2.0, 132.0, 1.8e9, 1.0)) > float(law.t_meet)
    assert float(law(64.0, 64.0, 1.0, 2.0, 132.0, 1.8e9, 2.0)) > float(law(64.0, 64.0, 1.0, 2.0, 132.0, 1.8e9, 1.0))


def test_accumulators_are_written_once_a_wave():
    # 2 waves of 128 x 128 tiles: 2 * 3.95 clocks for each of 1024 lines of 64 B, at 1 GHz, on a GPU that hides nothing.
    eta = float(Epilogue(epilogue=3.95)(1e-6, 2.0, 128.0, 128.0, 1e9, 0.0, 0.0, 0.0, 0.0))
    assert 1e-6 / eta == pytest.approx(1e-6 + 2 * 3.95 * 1024e-9, rel=1e-5)


def test_the_barrier_duty_is_the_reports():
    # Report E1.5 on H100: 0.46 in all after a clock of 0.70, with the gate_up product's whole waves and 0.99.
    tiles = (4096 / 128) * (28672 / 256)
    wave = tiles / (132 * math.ceil(tiles / 132))
    assert 0.70 * wave * 0.99 * float(BarrierDuty()(1e-3)) == pytest.approx(0.46, abs=0.01)


def power_of(law, ratio):
    """The balance's own equation in float64, as its docstring states it, for a GEMM that only computes."""
    floor, slope = float(law.v_floor), float(law.v_slope)
    voltage = (floor**16 + max(1 - slope * (1 - ratio), 0) ** 16) ** (1 / 16)
    return float(law.idle) + float(law.dynamic) * ratio * voltage**2


@pytest.mark.parametrize("cap", [200.0, 300.0, 400.0, 500.0])
def test_the_sustained_clock_draws_the_cap(cap):
    law = PowerBalance()
    # A product so deep that memory does not matter, on a GPU whose free clock is far above.
    clock = float(law(1e18, 1.0, 1e15, 3e12, 1e9, 4e9, cap, 700.0))
    assert power_of(law, clock / 1e9) == pytest.approx(cap / 700.0, rel=2e-3)


def test_the_clock_falls_slower_than_the_cap_where_voltage_falls_too():
    law = PowerBalance()
    caps = np.array([400.0, 600.0])
    clocks = [float(law(1e18, 1.0, 1e15, 3e12, 1e9, 4e9, cap, 700.0)) for cap in caps]
    exponent = np.log(clocks[1] / clocks[0]) / np.log(caps[1] / caps[0])
    assert 0.3 < exponent < 1.2


def test_a_locked_clock_below_the_power_limit_is_the_clock():
    clock = float(PowerBalance()(1e12, 1e9, 1e15, 3e12, 1.83e9, 1.0e9, 700.0, 700.0))
    assert clock == pytest.approx(1.0e9, rel=1e-3)
    assert float(ClockRatio()(2e9, 1.83e9)) == 1.0


def test_a_gemm_takes_no_less_than_its_energy():
    law = EnergyRoof()
    eta = float(law(1e-9, 1e15, 4096.0, 1.0, 100.0, 1e9, 1e9))
    energy = (float(law.e_operand) + float(law.e_issue) / 4) * 1e15
    assert 1e-9 / eta == pytest.approx(energy / 100.0, rel=1e-5)


def test_attention_counts():
    assert float(AttentionWork()(2, 4, 4, 3, 8, 8, 1.0)) == 2 * 16 * 2 * 3 * (1 + 2 + 3 + 4)
    assert float(AttentionWork()(2, 1, 100, 3, 8, 8, 0.0)) == 2 * 16 * 2 * 3 * 100
    assert float(AttentionTraffic()(2, 1, 100, 3, 8, 8, 64)) == 2 * (100 * 64 + 2 * 3 * 16)
    assert float(StreamedCache(efficiency=0.5)(1e9, 1e12)) == pytest.approx(2e-3)


def test_decode_attention_streams_its_cache():
    law = ScoresAndCache(t_launch=1e-7)
    time = float(law(64.0, 1.0, 8192.0, 32.0, 128.0, 128.0, 0.0, 2.1e9, 4096.0, 132.0, 1.83e9, 3.35e12))
    assert time == pytest.approx(2.1e9 / 3.35e12 / float(law.dram_share), rel=0.02)


def test_an_all_reduce_on_one_rank_costs_nothing_and_more_ranks_never_make_it_free():
    law = OneOrTwoShot()
    assert float(law(1e9, 1.0, 450e9, 0.0)) == 0.0
    times = [float(law(1e7, ranks, 450e9, 0.0)) for ranks in (2.0, 4.0, 8.0, 64.0)]
    ring = [2 * (n - 1) / n * 1e7 / 450e9 for n in (2, 4, 8, 64)]
    assert all(time > bound for time, bound in zip(times, ring, strict=True))
    assert np.isfinite(float(jax.grad(lambda v: law(v, 1.0, 450e9, 0.0))(1e6)))


def test_host_and_light_are_lines():
    assert float(HostResidual(s0=1e-3, s1=1e-5)(64.0)) == pytest.approx(1e-3 + 64e-5)
    assert float(LaunchAndStream(t_launch=1e-6, efficiency=0.5)(1e6, 1e12)) == pytest.approx(3e-6)


def test_host_time_adds_or_hides():
    assert float(SerialHost()(3e-3, 1e-3)) == pytest.approx(4e-3)
    assert 3e-3 <= float(OverlappedHost()(3e-3, 1e-3)) < 3.01e-3
