"""What the bundled studies find, held to routes that do not go through them."""

import functools

import numpy as np
import pytest

from factorgraph.studies import Findings, bootstrap_mean, list_studies


@functools.cache
def findings(study: str) -> Findings:
    return next(one for one in list_studies() if one.id == study).run()


def test_a_random_forest_does_not_know_a_faster_gpu():
    mape = findings("E2.1").result["mape"].sel(kind="gemm")
    # The H100 has 1.65 times the bandwidth and 3.2 times the peak of the A100: its times taken over are that far off.
    assert 65.0 < float(mape.sel(sku="h100-sxm", by="forest verbatim")) < 220.0
    assert (mape.sel(by="laws left out") < mape.sel(by="forest scaled")).all()


def test_the_reuse_law_is_a_latency_in_disguise():
    result = findings("E1.3c").result
    # A straight line of time has x_half = t0 BW / L2: with 1.3 to 4 us of launch, 3.35 TB/s and 50 MB.
    t0 = float(result["per_gpu"].sel(sku="h100-sxm", constant="x_half")) * 50e6 / 3.35e12
    assert 1.3e-6 < t0 < 4e-6
    # DRAM alone cannot deliver more than its bandwidth; copies that stay in the L40S's large L2 can.
    assert float(result["share_at_a_tenth"].sel(sku="l40s", source="measured")) > 1.0


def test_a_tie_counts_as_right_and_costs_little():
    share = findings("E2.6").result["share"]
    for kind in ("gemm", "decode", "prefill"):
        one = share.sel(kind=kind)
        assert float(one.sel(measure="strict accuracy")) <= float(one.sel(measure="tie-aware accuracy"))
        assert float(one.sel(measure="chance")) >= 100.0 / 6.0


@pytest.mark.parametrize("study", ["E2.1", "E1.3c", "E2.6", "E1.9", "wave", "E1.15", "E1.1c", "E2.9", "E1.10", "E1.19"])
def test_every_number_is_finite_and_in_its_interval(study):
    for one in findings(study).numbers:
        assert np.isfinite(one.value)
        if one.interval is not None:
            assert one.interval[0] <= one.value <= one.interval[1]


def test_the_mean_of_a_normal_sample_has_the_textbook_interval():
    values = np.random.default_rng(1).normal(5.0, 2.0, 400)
    mean, low, high = bootstrap_mean(values, resamples=2000)
    half = 1.96 * values.std() / 20.0
    assert mean == pytest.approx(values.mean())
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.03)


def test_whole_waves_weigh_less_where_kernels_are_persistent():
    weight = findings("wave").result["weight"]
    assert float(weight.sel(sku=["h100-sxm", "h200-sxm"]).max()) < float(
        weight.sel(sku=["a100-sxm4-80gb", "l40s"]).min()
    )


def test_the_clock_of_a_capped_b300_follows_its_cap():
    result = findings("E1.9").result
    # From the published points: 450 W at 926 MHz and 900 W at 1935 MHz.
    ends = np.log(1935 / 926) / np.log(2.0)
    assert float(result["relation"].sel(sku="b300", of="cap-clock slope")) == pytest.approx(ends, abs=0.05)
    assert float(result["operands"]) == pytest.approx(100.0 * (1.0 - 257.0 / 295.0))


def test_a_share_of_the_printed_peak_stays_below_one():
    share = findings("E1.15").result["share"]
    assert ((share > 0.3) & (share < 1.0)).all()
    # The report's 0.425 cannot be a factor of kernels that reach more than that.
    assert float(share.sel(sku="l40s")) > 0.425


def test_an_oracle_never_chooses_a_slower_budget_than_one_that_also_meets_the_limit():
    result = findings("E2.9").result
    tpot, rate = (result[name].sel(graph="per-kernel") for name in ("tpot", "rate"))
    for slo in result["slo"].values:
        within = rate.where(tpot <= float(slo.removesuffix(" ms")) / 1e3)
        chosen = result["chosen"].sel(chooser="oracle", slo=slo)
        if within.notnull().any():
            assert float(rate.sel(budget=chosen)) == float(within.max())


def test_a_host_that_slows_by_half_costs_the_old_constants_a_third_for_half_the_time():
    once = findings("E1.19").result["regret"].sel(stream="shifted", way="once")
    # 1 - 1/1.5 on 2,000 of the 3,800 steps that are scored, less the noise of 3 %, whose mean is 2.4 %.
    assert float(once) == pytest.approx(100.0 * (1.0 / 3.0 - 0.024) * 2000 / 3800, rel=0.05)
