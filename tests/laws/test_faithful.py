"""The laws as the report and the design state them, against numbers worked out by hand or printed elsewhere."""

import math

import jax
import numpy as np
import pytest

from factorgraph.laws.attention import (
    AttentionTime,
    AttentionTraffic,
    AttentionWork,
    CacheBandwidth,
    DecodeAttention,
    PrefillAttention,
    ScoreRate,
    StreamedCache,
)
from factorgraph.laws.barrier import BarrierDuty, Epilogue, LaunchCost, Prologue, SplitReduction
from factorgraph.laws.clock import ClockLoss, ClockRatio, EnergyRoof, PowerBalance, SwitchedEnergy
from factorgraph.laws.collective import OneOrTwoShot
from factorgraph.laws.gemm import CompulsoryTraffic, GemmWork, SplitDepth
from factorgraph.laws.host import HostResidual
from factorgraph.laws.light import LaunchAndStream
from factorgraph.laws.memory import BytesInFlight, L2Reuse, LatencyBandwidth, ReuseDistance
from factorgraph.laws.peak import CountedPeak
from factorgraph.laws.tensor_core import OperandFeed, PipelinedLatency
from factorgraph.laws.total import EagerHost, OverlappedHost, SerialHost
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
        return 1e-9 / float(law(1e-9, 0.0, 0.0, 1e8, working_set, 3e12, 7e12, 50e6, 2.0))

    assert time(1e6) == pytest.approx(1e8 / 7e12, rel=1e-3)
    assert time(1e10) == pytest.approx(1e8 / 3e12, rel=1e-3)


def test_few_sms_cannot_draw_the_bandwidth():
    """Little: 10 SMs with 24 kB each on the way for 500 clocks of 1 GHz move 480 GB/s, before DRAM takes its time."""
    law = BytesInFlight(dram_share=1.0, outstanding=24e3)
    assert float(law(1e30, 1.0, 500.0, 10.0, 1e9)) == pytest.approx(480e9, rel=1e-5)
    assert float(law(480e9, 1.0, 500.0, 10.0, 1e9)) == pytest.approx(240e9, rel=1e-5)
    assert float(law(2e12, 0.875, 1e-6, 100.0, 1e9)) == pytest.approx(1.75e12, rel=1e-5)


def test_operands_bound_small_tiles_and_not_large_ones():
    law = OperandFeed()
    # BF16: an element of depth waits 500 * 2/128 clocks; at 4096 FLOP a clock a 128 x 256 tile computes 16 on it.
    assert float(law(4096.0, 4096.0, 2.0, 128.0, 256.0, 1.0, 500.0)) == pytest.approx(
        16 / math.hypot(16, 500 * 2 / 128), rel=1e-5
    )
    assert float(law(4096.0, 4096.0, 2.0, 16.0, 64.0, 1.0, 500.0)) < 0.1
    # A depth of 32 BF16 elements fills half of a step of 128 B.
    shallow, deep = (float(law(4096.0, k, 2.0, 128.0, 256.0, 1.0, 500.0)) for k in (32.0, 64.0))
    assert shallow == pytest.approx(deep / 2, rel=1e-6)


def test_asynchronous_copies_hide_latency():
    law = PipelinedLatency(latency=480.0, overlap=3.0)
    assert (float(law(0.0)), float(law(1.0))) == (480.0, pytest.approx(160.0))


def test_an_empty_main_loop_takes_a_launch():
    wait = float(LaunchCost()(1.0))
    eta = float(Epilogue()(1e-6, 0.0, 64.0, 64.0, 1e9, 1.0, 0.0, wait, 0.0))
    assert 1e-6 / eta == pytest.approx(1e-6 + wait, rel=1e-6)


def test_only_a_split_product_pays_for_its_reduction():
    law = SplitReduction(t_meet=2e-6)
    assert float(law(64.0, 64.0, 1.0, 1.0, 5e12, 3e12)) == 0.0
    # Two slices of 64 x 64 FP32 numbers in, one sum out, at the faster of L2 and DRAM.
    assert float(law(64.0, 64.0, 1.0, 2.0, 5e9, 3e9)) == pytest.approx(2e-6 + 3 * 64 * 64 * 4 / 5e9, rel=1e-5)


def test_narrow_products_are_not_split():
    assert [float(SplitDepth()(8.0, size)) for size in (2.0, 1.0, 0.5)] == [8.0, 1.0, 1.0]


def test_quantising_reads_the_activation_before_the_product():
    law = Prologue(t_quantise=(3e-6,) * 3, row=(1000.0,) * 3, element=(0.5,) * 3, passes=(5.0,) * 3)
    machine = (132.0, 1e9, 5e12, 50e6, 2.0, 3e12, 1.0)
    assert float(law(2e-6, 0.0, 0.0, 4096.0, 8192.0, *machine)) == pytest.approx(2e-6)
    rows, stream = 4096 * (1000 + 0.5 * 8192) / (132 * 1e9), 5 * 4096 * 8192 / 3e12
    assert float(law(2e-6, 1.0, 2.0, 4096.0, 8192.0, *machine)) == pytest.approx(
        5e-6 + math.hypot(rows, stream), rel=1e-3
    )


def test_accumulators_are_written_once_a_wave():
    # 2 waves of 128 x 128 tiles: 2 * 3.5 clocks for each 16 of 16384 results, at 1 GHz.
    law = Epilogue(epilogue=3.5, overlap=2.0, offload=4.0)

    def wait(async_pipeline, tensor_memory):
        return 1e-6 / float(law(1e-6, 2.0, 128.0, 128.0, 1e9, async_pipeline, tensor_memory, 0.0, 0.0)) - 1e-6

    assert wait(0.0, 0.0) == pytest.approx(2 * 3.5 * 1024e-9, rel=1e-4)
    assert wait(1.0, 0.0) == pytest.approx(2 * 3.5 * 1024e-9 / 2, rel=1e-4)
    assert wait(1.0, 2.6e5) == pytest.approx(2 * 3.5 * 1024e-9 / 4, rel=1e-4)


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
    law = EnergyRoof(usable=0.9)
    assert float(law(1e-3, 0.0, 1.8, 100.0)) == pytest.approx(1.8 / 90.0, rel=1e-5)
    assert float(law(1e-3, 0.0, 1e-6, 100.0)) == pytest.approx(1e-3, rel=1e-5)


def test_energy_is_that_of_products_clocks_and_bytes():
    law = SwitchedEnergy(e_mac=0.5e-12, e_sm=1e-9)
    # 1e12 multiply-adds of 2 B; 100 SMs for 1e6 clocks; 1 GB at 30 pJ/B; on a process that takes twice the energy.
    energy = float(law(2e12, 2.0, 100.0, 1e9, 2e9, 1.5e-3, 0.3e-3, 0.2e-3, 2.0, 30e-12, 1e9))
    assert energy == pytest.approx(2 * (0.5e-12 * 1e12 * 2 + 1e-9 * 100 * 1e6) + 0.03, rel=1e-5)


def test_the_clock_loses_what_was_locked_away_and_what_the_cap_costs():
    tiling = np.array([2e-3, 1e-3]), np.array([4e-3, 1.25e-3]), np.float32(1)
    assert float(ClockLoss()(*tiling, 1.5e9, 2e9)) == pytest.approx(0.75 * 0.8)
    assert float(ClockLoss()(*tiling, 2.5e9, 2e9)) == pytest.approx(0.8)


def test_attention_counts():
    assert float(AttentionWork()(2, 4, 4, 3, 8, 8, 1.0)) == 2 * 16 * 2 * 3 * (1 + 2 + 3 + 4)
    assert float(AttentionWork()(2, 1, 100, 3, 8, 8, 0.0)) == 2 * 16 * 2 * 3 * 100
    assert float(AttentionTraffic()(2, 1, 100, 3, 8, 8, 64)) == 2 * (100 * 64 + 2 * 3 * 16)
    assert float(StreamedCache(efficiency=0.5)(1e9, 1e12)) == pytest.approx(2e-3)


def test_a_cache_comes_from_l2_as_far_as_it_fits():
    law = CacheBandwidth(dram_share=0.9, fit=1.0)
    assert float(law(1e6, 50e6, 2.0, 7e12, 3e12, 1.0)) == pytest.approx(7e12, rel=1e-3)
    assert float(law(1e9, 50e6, 2.0, 7e12, 3e12, 0.875)) == pytest.approx(0.9 * 0.875 * 3e12, rel=1e-3)


def test_a_score_is_two_products_and_an_exponential():
    # Depth 128 on 4096 FLOP a clock: 2 * 256/4096 clocks; an exponential 0.09 beside it, half on twice the units.
    law = ScoreRate(efficiency=(0.5, 1.0, 1.0), exponential=(0.4, 0.09, 0.09), overlap=(8.0, 1.0, 1.0))
    assert float(law(128.0, 128.0, 4096.0, 16.0, 3.0)) == pytest.approx(0.125 + 0.09)
    assert float(law(128.0, 128.0, 4096.0, 32.0, 4.0)) == pytest.approx(0.125 + 0.045)
    assert float(law(128.0, 128.0, 512.0, 16.0, 2.0)) == pytest.approx(2.0, rel=1e-3)


# Llama-3.1-8B on an H100: 32 query heads, 8 KV heads of depth 128.
H100_HEADS = {"q_heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0, "v_head_dim": 128.0}
H100_CHIP = {"sm_count": 132.0, "sm_clock": 1.83e9, "attention_generation": 3.0}


def test_decode_attention_streams_its_cache():
    cache = 64 * 8192 * 4096.0
    law = DecodeAttention(t_launch=(1e-8,) * 3, launch_clocks=1.0)
    time = float(
        law(
            attn_batch=64.0,
            kv_len=8192.0,
            windowed=0.0,
            attention_bytes=cache,
            score_clocks=0.01,
            attention_bandwidth=3e12,
            l2_bandwidth=7e12,
            **H100_HEADS,
            **H100_CHIP,
        )
    )
    assert cache / 3e12 <= time < 1.1 * cache / 3e12


@pytest.mark.parametrize("generation", [2.0, 3.0, 4.0])
def test_decode_attention_is_never_faster_with_more_to_attend_to(generation):
    law, chip = DecodeAttention(), {**H100_CHIP, "attention_generation": generation}

    def time(batch, keys):
        size = batch * keys * 4096.0
        rates = {"score_clocks": 0.2, "attention_bandwidth": 3e12, "l2_bandwidth": 7e12}
        return law(attn_batch=batch, kv_len=keys, windowed=0.0, attention_bytes=size, **rates, **H100_HEADS, **chip)

    grid = np.geomspace(1, 4096, 97)
    assert (np.diff([time(batch, 700.0) for batch in grid]) >= -1e-9).all()
    assert (np.diff([time(3.0, 16 * keys) for keys in grid]) >= -1e-9).all()


def test_a_long_prompt_computes_all_its_scores():
    """A 32k prompt, causal: half of 32k^2 pairs for 32 heads at 0.2 clocks each on 132 SMs, and little else."""
    law, tokens = PrefillAttention(), 32768.0
    time = float(
        law(
            attn_batch=1.0,
            q_len=tokens,
            kv_len=tokens,
            causal=1.0,
            kv_token_bytes=4096.0,
            writes_cache=0.0,
            attention_bytes=tokens * (4096.0 + 4 * 32 * 128),
            score_clocks=0.2,
            attention_bandwidth=3e12,
            bf16_flop_per_clock=4096.0,
            process_energy=1.0,
            power_cap=1e5,
            **H100_HEADS,
            **H100_CHIP,
        )
    )
    ideal = 32 * tokens**2 / 2 * 0.2 / (132 * 1.83e9)
    assert ideal < time < 1.15 * ideal


def test_one_query_takes_the_decode_kernel():
    assert float(AttentionTime()(1.0, 2.0, 3.0)) == 2.0
    assert float(AttentionTime()(2.0, 2.0, 3.0)) == 3.0


def test_an_all_reduce_on_one_rank_costs_nothing_and_more_ranks_never_make_it_free():
    law = OneOrTwoShot()
    assert float(law(1e9, 1.0, 450e9, 1.0, 0.0, 0.0)) == 0.0
    for pcie in (0.0, 1.0):
        times = [float(law(1e7, ranks, 450e9, 1.0, pcie, 0.0)) for ranks in (2.0, 4.0, 8.0, 64.0)]
        ring = [2 * (n - 1) / n * 1e7 / 450e9 for n in (2, 4, 8, 64)]
        assert all(time > bound for time, bound in zip(times, ring, strict=True))
    assert np.isfinite(float(jax.grad(lambda v: law(v, 1.0, 450e9, 1.0, 0.0, 0.0))(1e6)))


def test_host_and_light_are_lines():
    assert float(HostResidual(s0=1e-3, s1=1e-5)(64.0)) == pytest.approx(1e-3 + 64e-5)
    assert float(LaunchAndStream(t_launch=1e-6, efficiency=0.5)(1e6, 1e12)) == pytest.approx(3e-6)


def test_host_time_adds_or_hides():
    assert float(SerialHost()(3e-3, 1e-3)) == pytest.approx(4e-3)
    assert 3e-3 <= float(OverlappedHost()(3e-3, 1e-3)) < 3.01e-3


def test_an_eager_host_issues_every_kernel():
    law = EagerHost(t_issue=20e-6)
    launches = [np.array([32.0, 1.0]), np.array([32.0]), np.array([300.0, 1.0]), np.array([0.0])]
    assert float(law(1e-4, 1e-3, *launches)) == pytest.approx(1e-3 + 366 * 20e-6, rel=1e-4)
    assert float(law(1.0, 1e-3, *launches)) == pytest.approx(1.001, rel=1e-4)
