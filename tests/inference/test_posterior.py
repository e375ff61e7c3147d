"""Spreads and intervals against closed forms, and against how often they hold."""

import json

import jax
import numpy as np
import pytest
import xarray as xr
from small import exponential, made

import factorgraph as fg
from factorgraph.inference import Prior, coverage, interval_for, leave_one_out, predict_interval

LOAD = np.linspace(0.1, 3.0, 40)
FREE = ["took.a", "took.b"]


def simulated(seed, shifts=(0.0,), noise=0.05):
    draw = np.random.default_rng(seed)
    load = np.tile(LOAD, (len(shifts), 1))
    took = np.exp(1.0 + load + np.asarray(shifts)[:, None] + noise * draw.standard_normal(load.shape))
    return made(took, load, tuple(f"gpu{i}" for i in range(len(shifts))))


def test_the_covariance_is_that_of_a_linear_gaussian_law():
    priors = {path: Prior(1.0, 0.5, "normal") for path in FREE}
    found = fg.fit(exponential(), simulated(0), free=FREE, priors=priors, robust=None, noise=0.05)
    design = np.stack([np.ones_like(LOAD), LOAD], axis=1)
    expected = np.linalg.inv(design.T @ design / 0.05**2 + np.eye(2) / 0.5**2)
    np.testing.assert_allclose(found.posterior.natural_covariance, expected, rtol=2e-3)
    mean = expected @ (design.T @ np.log(np.asarray(simulated(0).measured)[0]) / 0.05**2 + 1.0 / 0.5**2)
    assert [found.constants[path] for path in FREE] == pytest.approx(mean.tolist(), abs=2e-3)


def test_draws_spread_as_the_standard_errors_say_and_stay_in_bounds():
    posterior = fg.fit(exponential(), simulated(1), free=FREE).posterior
    drawn = posterior.sample(4000, jax.random.key(0))
    for path in FREE:
        values = np.asarray(drawn[path])
        assert values.shape == (4000,)
        assert values.std() == pytest.approx(posterior.standard_errors[path], rel=0.1)
        assert (values > -10).all()
        assert (values < 10).all()


def test_intervals_hold_new_rows_of_a_gpu_that_was_seen_as_often_as_they_say():
    posterior = fg.fit(exponential(), simulated(2), free=FREE).posterior
    graph = exponential().with_parameters({"took.a": 1.0, "took.b": 1.0})
    card = {"load": np.full(2000, 1.5)}
    out = predict_interval(graph, posterior, card, outputs=["took"], draws=1000)
    new = np.exp(1.0 + 1.5 + 0.05 * np.random.default_rng(3).standard_normal(2000))
    for level in (0.5, 0.8, 0.95):
        low, high = (out["took"].sel(quantile=0.5 + s * level / 2, method="nearest").values for s in (-1, 1))
        share = np.mean((new >= low) & (new <= high))
        # Forty residuals make the interval, so that it is itself uncertain by about sqrt(level (1 - level) / 40).
        assert abs(share - level) < 3 * np.sqrt(level * (1 - level) * (1 / 2000 + 1 / 40))


def test_the_spread_between_gpus_and_within_them_come_apart():
    posterior = fg.fit(exponential(), simulated(4, shifts=(-0.3, 0.0, 0.3), noise=0.02), free=FREE).posterior
    assert posterior.between == pytest.approx(0.3, abs=0.03)
    assert posterior.within == pytest.approx(0.02, abs=0.008)


def test_leaving_one_gpu_out_widens_the_interval_of_one_that_was_not_seen():
    shifts = tuple(0.15 * np.random.default_rng(5).standard_normal(4))
    data, settings = simulated(6, shifts, noise=0.03), {"free": FREE}
    posterior = fg.fit(exponential(), data, **settings).posterior
    held_out = leave_one_out(exponential(), data, **settings)
    case = {"load": [1.0, 2.0]}
    inside, outside = (
        predict_interval(exponential(), posterior, case, held_out=h).took.sel(quantile=[0.1, 0.9])
        for h in (None, held_out)
    )
    width = [np.log(out.values[1] / out.values[0]).mean() for out in (inside, outside)]
    assert width[1] > width[0]
    table = coverage(held_out, held_out)
    assert table.sizes == {"sku": 4, "level": 3}
    # Of GPUs that differ by more than they scatter, the least and the greatest lie outside what the others say.
    assert table.sel(level=0.95).mean() == pytest.approx(2 / 4, abs=0.1)


def test_coverage_of_a_gpu_by_its_own_other_rows_is_the_level_within_binomial_error():
    draw = np.random.default_rng(7)
    first, second = ({f"gpu{i}": 0.1 * i + draw.standard_normal(3000) for i in range(3)} for _ in range(2))
    found = coverage(second, first, home=True)
    for level in (0.5, 0.8, 0.95):
        assert np.abs(found.sel(level=level) - level).max() < 4 * np.sqrt(2 * level * (1 - level) / 3000)


def test_far_from_the_data_there_is_no_interval_and_a_reason():
    posterior = fg.fit(exponential(), simulated(8), free=FREE).posterior
    out = predict_interval(exponential(), posterior, {"load": [1.0, 9.0]})
    assert np.isfinite(out.took.values[:, 0]).all()
    assert np.isnan(out.took.values[:, 1]).all()
    assert out.attrs["abstained"] == "load = 9 is far from the 0.1 to 3 that was measured"


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"levels": (1.5,)}, "lies between 0 and 1"), ({"outputs": ["tok"]}, "gives no 'tok'")],
)
def test_an_interval_that_makes_no_sense_is_refused(asked, message):
    posterior = fg.fit(exponential(), simulated(9), free=FREE).posterior
    with pytest.raises(fg.FactorGraphError, match=message):
        predict_interval(exponential(), posterior, {"load": [1.0]}, **asked)


def test_two_gpus_are_too_few_to_leave_one_out():
    with pytest.raises(fg.FactorGraphError, match="at least three"):
        leave_one_out(exponential(), simulated(0, (0.0, 0.1)), free=FREE)


def test_a_step_has_the_interval_that_the_file_says(tmp_path):
    file = tmp_path / "fitted.json"
    out = xr.Dataset({"t_step": 3.0, "t_gemm_total": 2.0, "t_attention_total": 1.0})
    file.write_text(json.dumps({"gemm": {"fits": {}}}))
    assert interval_for("per-kernel", out, file=file) is None
    file.write_text(json.dumps({"gemm": {"residuals": {"0.1": -np.log(1.2), "0.9": -np.log(0.8)}}}))
    assert interval_for("per-kernel", out, file=file) == pytest.approx((3.0 - 0.4, 3.0 + 0.4))
    assert interval_for("base", out, file=file) is None
