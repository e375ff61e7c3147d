"""How sure a result says it is, on laws whose limits are known."""

import jax.numpy as jnp
import pytest
from jax import Array

from factorgraph import Factor, FactorGraph, FactorGraphError, load_model, load_sku, step_graph
from factorgraph.variables import SmClock, TGemm, THost


class Fitted(Factor):
    fitted_in = {"sm_clock": (1e9, 2e9)}
    supported_in = {"sm_clock": (0.5e9, 4e9)}

    def __call__(self, sm_clock: SmClock) -> THost:
        return 1e6 / sm_clock


def test_each_point_of_a_sweep_is_judged_for_itself():
    out = FactorGraph([Fitted()]).predict(sm_clock=[0.4e9, 0.7e9, 1e9, 2e9, 2.1e9])
    assert out.validity.dims == ("sm_clock",)
    assert out.validity.values.tolist() == [2, 1, 0, 0, 1]
    assert out.validity.attrs["flag_meanings"] == "inside extrapolated unsupported"
    reasons = out.validity.attrs["reasons"].split("; ")
    assert reasons[0] == "sm_clock = 4e+08 Hz: Fitted holds in 5e+08 to 4e+09 Hz only"
    assert reasons[1].startswith("sm_clock = 4e+08 Hz: the constants of Fitted were fitted in 1e+09 to 2e+09 Hz")


def test_it_is_there_by_default_and_when_asked_for():
    graph = FactorGraph([Fitted()])
    assert "validity" in graph.predict(sm_clock=1e9)
    assert "validity" not in graph.predict(sm_clock=1e9, outputs=["t_host"])
    assert set(graph.predict(sm_clock=1e9, outputs=["t_host", "validity"]).data_vars) == {"t_host", "validity"}


def test_a_limit_on_what_is_no_input_is_refused():
    class Misnamed(Factor):
        fitted_in = {"sm_clok": (1e9, 2e9)}

        def __call__(self, sm_clock: SmClock) -> TGemm:
            return 1e6 / jnp.asarray(sm_clock) + 0.0 * self.zero

        @property
        def zero(self) -> Array:
            return jnp.zeros(())

    with pytest.raises(FactorGraphError, match="fitted_in names sm_clok, which is no input"):
        Misnamed()


def test_a_fitted_gpu_is_inside_and_a_smaller_or_strangled_one_is_not():
    graph, step = step_graph(), load_model("llama-3.1-8b").decode(batch=64, context=2048)
    out = graph.predict([load_sku("h100-sxm"), load_sku("a30")], step, power_cap=[250.0, 700.0])
    assert out.validity.sel(sku="h100-sxm").values.tolist() == [1, 0]
    assert out.validity.sel(sku="a30").values.tolist() == [1, 1]
    assert "sm_count = 56" in out.validity.attrs["reasons"]
    older = graph.predict(load_sku("h100-sxm"), step, attention_generation=1.0)
    assert int(older.validity) == 2
