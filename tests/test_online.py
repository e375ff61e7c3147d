"""A stream's host constants are found and followed; a stationary one raises few alarms."""

import numpy as np
import pytest

import factorgraph as fg
from factorgraph.online import Host, calibrate, follow, read_log

TRUE, LATER = Host(2e-3, 30e-6), Host(4e-3, 30e-6)


def stream(seed, steps=4000, shift=None, noise=1e-4):
    draw = np.random.default_rng(seed)
    n = draw.integers(1, 129, steps).astype(float)
    oracle = TRUE.predict(n)
    if shift is not None:
        oracle[shift:] = LATER.predict(n[shift:])
    return n, oracle + noise * draw.standard_normal(steps), oracle


def test_a_stationary_stream_gives_its_constants_from_a_wrong_start():
    n, seconds, _ = stream(0)
    found = follow(n, seconds, start=Host(1e-3, 10e-6))
    assert found.s0[-500:].mean() == pytest.approx(TRUE.s0, rel=0.03)
    assert found.s1[-500:].mean() == pytest.approx(TRUE.s1, rel=0.03)


def test_calibration_is_the_closed_form_and_goes_into_a_graph():
    n, seconds, oracle = stream(1)
    found = calibrate(n, oracle)
    assert (found.s0, found.s1) == pytest.approx((TRUE.s0, TRUE.s1))
    # The standard error of least squares: noise over root n, larger for an intercept.
    assert calibrate(n, seconds).s0 == pytest.approx(TRUE.s0, abs=5 * 2e-4 / np.sqrt(n.size))
    assert float(found.into(fg.step_graph()).parameters["t_host.s0"]) == pytest.approx(TRUE.s0)


def test_a_shift_is_found_soon_and_followed_while_one_calibration_goes_stale():
    n, seconds, oracle = stream(2, shift=2000)
    baseline = calibrate(n[:500], seconds[:500])
    found = follow(n, seconds, start=baseline)
    assert found.shifts
    assert 2000 <= found.shifts[0] < 2020
    assert found.final.s0 == pytest.approx(LATER.s0, rel=0.05)
    stale = np.mean((seconds - baseline.predict(n)) ** 2 - (seconds - oracle) ** 2)
    assert found.regret(seconds, oracle) < 0.1 * stale


def test_regret_against_the_truth_is_small_on_a_stationary_stream():
    n, seconds, oracle = stream(3)
    found = follow(n, seconds, start=calibrate(n[:500], seconds[:500]))
    # Least mean squares at rate 0.02 adds about rate / (2 - rate) of the noise's variance for each unit of gain.
    assert found.regret(seconds, oracle) < 0.1 * 1e-4**2


def test_false_alarms_on_stationary_streams_are_rare():
    alarms = 0
    for seed in range(20):
        n, seconds, _ = stream(100 + seed)
        alarms += len(follow(n, seconds, start=calibrate(n[:500], seconds[:500])).shifts)
    # At most one in 40 000 steps, of 80 000.
    assert alarms <= 2


def test_the_gpus_time_is_taken_off_first():
    n, seconds, _ = stream(4)
    gpu = 1e-3 + 1e-5 * n
    found = calibrate(n, seconds + gpu, gpu=gpu)
    assert found.s1 == pytest.approx(TRUE.s1, rel=0.02)
    predicted = follow(n, seconds + gpu, start=found, gpu=gpu).predicted
    assert np.mean(np.abs(predicted - seconds - gpu)) < 2e-4


def test_a_log_is_read_and_a_bad_one_refused(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("N,seconds\n1,0.002\n64,0.004\n")
    n, seconds = read_log(log)
    assert n.tolist() == [1.0, 64.0]
    assert seconds.tolist() == [0.002, 0.004]
    for text, message in (
        ("n,s\n1,2\n", "no column N and seconds"),
        ("N,seconds\n1,fast\n", "line 2"),
        ("N,seconds\n1,0\n", "step time of step 0"),
    ):
        log.write_text(text)
        with pytest.raises(fg.FactorGraphError, match=message):
            read_log(log)
    with pytest.raises(fg.FactorGraphError, match="there is no log"):
        read_log(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"learning_rate": 2.0}, "at most 0.1"), ({"warm_up": 5000}, "log more steps")],
)
def test_settings_that_make_no_sense_are_refused(asked, message):
    n, seconds, _ = stream(5)
    with pytest.raises(fg.FactorGraphError, match=message):
        follow(n, seconds, start=TRUE, **asked)


def test_one_concurrency_is_not_enough():
    with pytest.raises(fg.FactorGraphError, match="two or more"):
        calibrate([4, 4, 4], [1e-3, 1e-3, 1e-3])
