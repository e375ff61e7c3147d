"""Constants come back from what was made with them; what cannot be fitted is refused in one sentence."""

import dataclasses

import jax
import numpy as np
import optimistix
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import Product, exponential, made

import factorgraph as fg
from factorgraph.inference import Prior, log_density

LOAD = np.linspace(0.1, 3.0, 40)


@settings(max_examples=8)
@given(a=st.floats(0.3, 4.0), b=st.floats(0.3, 2.0), seed=st.integers(0, 99))
def test_constants_come_back_from_simulated_data(a, b, seed):
    noise = 0.02 * np.random.default_rng(seed).standard_normal(LOAD.size)
    found = fg.fit(exponential(), made(np.exp(a + b * LOAD + noise), LOAD), free=["took.a", "took.b"], noise=0.02)
    errors = found.posterior.standard_errors
    assert found.convergence == optimistix.RESULTS.successful
    for path, true in (("took.a", a), ("took.b", b)):
        # The weak default prior pulls a little, on top of four standard errors.
        assert abs(found.constants[path] - true) < 5 * errors[path]


def test_adam_comes_to_where_levenberg_marquardt_does():
    data = made(np.exp(2.0 + 0.5 * LOAD), LOAD)
    by = {m: fg.fit(exponential(), data, free=["took.a", "took.b"], method=m, steps=3000) for m in ("lm", "adam")}
    for path in ("took.a", "took.b"):
        assert by["adam"].constants[path] == pytest.approx(by["lm"].constants[path], abs=0.02)


def test_an_outlier_moves_a_robust_fit_less():
    took = np.exp(1.0 + 1.0 * LOAD)
    took[::10] *= 5.0
    robust, plain = (fg.fit(exponential(), made(took, LOAD), free=["took.a"], robust=r) for r in (0.02, None))
    assert abs(robust.constants["took.a"] - 1.0) < 0.1 < abs(plain.constants["took.a"] - 1.0)


def test_a_strong_prior_outweighs_the_data_and_a_weak_one_does_not():
    data = made(np.exp(2.0 + 1.0 * LOAD), LOAD)
    strong, weak = (
        fg.fit(exponential(), data, free=["took.a"], priors={"took.a": Prior(1.0, width, "normal")}, noise=0.1)
        for width in (1e-3, 5.0)
    )
    assert strong.constants["took.a"] == pytest.approx(1.0, abs=0.01)
    assert weak.constants["took.a"] == pytest.approx(2.0, abs=0.01)


def test_a_product_of_two_constants_is_named():
    data = made(6.0 * (1.0 + LOAD), LOAD)
    found = fg.fit(fg.FactorGraph([Product()]), data, free=["took.p", "took.q", "took.idle"])
    assert "took.idle does not show in these data" in found.uncertain
    assert any("took.p" in said and "took.q" in said and "cannot be told apart" in said for said in found.uncertain)
    assert found.constants["took.p"] * found.constants["took.q"] == pytest.approx(6.0, rel=0.01)


def test_residuals_are_told_by_group():
    load = np.stack([LOAD, LOAD])
    took = np.exp(1.0 + load) * np.asarray([[1.0], [1.5]])
    found = fg.fit(exponential(), made(took, load, ("one", "two")), free=["took.a"], robust=None)
    table = found.by("group")
    assert table["one"][0] == LOAD.size
    assert table["one"][1] - table["two"][1] == pytest.approx(np.log(1.5), abs=1e-4)
    with pytest.raises(fg.FactorGraphError, match="no regimes"):
        found.by("regime")


def test_the_log_density_is_what_a_fit_maximises():
    data = made(np.exp(2.0 + 0.5 * LOAD), LOAD)
    found = fg.fit(exponential(), data, free=["took.a", "took.b"])
    density, start = log_density(exponential(), data, free=["took.a", "took.b"])
    at = jax.numpy.asarray(found.posterior.position)
    assert density(at) > density(start)
    assert np.abs(jax.grad(density)(at)).max() < 1e-2 * np.abs(jax.grad(density)(start)).max()


def gemms(**attrs):
    return fg.load_dataset("gemm-bf16").isel(shape=slice(0, 4)).assign_attrs(attrs)


def in_unit(unit):
    made = gemms()
    made["latency"] = made["latency"].assign_attrs(units=unit)
    return made


def of_sku(name):
    made = gemms().isel(sku=[0])
    return made.assign_coords(sku=[name])


GOOD = made(np.exp(1.0 + LOAD), LOAD)
NONE = dataclasses.replace(GOOD, measured=GOOD.measured[:, :0])


@pytest.mark.parametrize(
    ("data", "asked", "message"),
    [
        (GOOD, {"free": ["took.c"]}, "unknown parameter 'took.c'"),
        (GOOD, {"free": []}, "nothing to fit"),
        (NONE, {}, "no measurement of took"),
        (made(np.full(3, np.nan), LOAD[:3]), {}, "all measurements of took on one are NaN"),
        (made(np.asarray([1.0, -1.0]), LOAD[:2]), {}, "is not above zero"),
        (GOOD, {"priors": {"took.a": Prior(20.0, 1.0, "normal")}}, "outside the bounds of its law"),
        (GOOD, {"priors": {"took.b": (1.0, 0.1)}}, "which is not free"),
        (GOOD, {"method": "newton"}, "by 'lm' or 'adam'"),
        ("a file", {}, "a str is neither"),
    ],
)
def test_bad_fits_are_refused_in_one_sentence(data, asked, message):
    with pytest.raises(fg.FactorGraphError, match=message):
        fg.fit(exponential(), data, **({"free": ["took.a"]} | asked))


@pytest.mark.parametrize(
    ("data", "asked", "message"),
    [
        (gemms(kind="attention"), {}, "of kind 'attention' cannot be fitted"),
        (gemms(dtype="int8"), {}, "no law for products of 'int8'"),
        (in_unit("W"), {}, "latency"),
        (gemms(), {}, "say which with engine="),
        (gemms(), {"engine": "vllm", "free": ["t_host.s0"]}, "'t_host.s0' does not reach t_gemm"),
        (of_sku("h100-smx"), {"engine": "vllm"}, "did you mean 'h100-sxm'"),
    ],
)
def test_datasets_that_do_not_match_are_refused(data, asked, message):
    with pytest.raises(fg.FactorGraphError, match=message):
        fg.fit(fg.step_graph(), data, **({"free": ["t_launch.t0"]} | asked))
