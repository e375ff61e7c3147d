"""What was put into the forward model comes out of the conditioned one."""

import numpy as np
import pytest
from small import exponential

import factorgraph as fg
from factorgraph.inference import condition


@pytest.fixture(scope="module")
def graph():
    return fg.step_graph()


@pytest.fixture(scope="module")
def gemm():
    from factorgraph.observations import gemm_values

    return gemm_values(np.asarray([4096.0]), np.asarray([8192.0]), np.asarray([4096.0]), "bf16")


def test_the_clock_follows_from_a_time(graph, gemm):
    card, part = fg.load_sku("h100-sxm"), graph.subgraph("t_gemm")
    took = float(part.predict(card, gemm, sm_clock=1.2e9)["t_gemm"][0])
    found = condition(part, card, gemm, given={"t_gemm": took}, infer=["sm_clock"], sigma={"t_gemm": 0.01 * took})
    assert [one["sm_clock"] for one in found.solutions] == pytest.approx([1.2e9], rel=1e-3)
    # Time goes nearly as one over the clock here, so that one per cent of it is about one per cent of the clock.
    assert 0.005 < found.errors[0]["sm_clock"] / 1.2e9 < 0.03


def test_the_cap_follows_from_the_clock(graph, gemm):
    card, part = fg.load_sku("h100-sxm"), graph.subgraph("sustained_clock")
    clock = float(part.predict(card, gemm, power_cap=300.0)["sustained_clock"][0])
    found = condition(
        part, card, gemm, given={"sustained_clock": clock}, infer=["power_cap"], between={"power_cap": (150.0, 700.0)}
    )
    assert [one["power_cap"] for one in found.solutions] == pytest.approx([300.0], rel=2e-3)


def test_no_solution_names_the_nearest():
    from test_inverse import Valley

    graph = fg.FactorGraph([Valley()])
    found = condition(graph, given={"t_step": 0.5}, infer=["level"], between={"level": (0.0, 10.0)})
    assert not found.exists
    assert str(found) == "no value agrees with what was measured; the nearest is level = 5, off by 100 %"


def test_both_sides_of_a_valley_are_solutions():
    from test_inverse import Valley

    found = condition(
        fg.FactorGraph([Valley()]),
        given={"t_step": 3.0},
        infer=["level"],
        between={"level": (0.0, 10.0)},
        sigma={"t_step": 0.1},
    )
    assert [one["level"] for one in found.solutions] == pytest.approx([5 - np.sqrt(2), 5 + np.sqrt(2)], rel=1e-4)
    # d t_step / d level = 2 (level - 5) = 2 sqrt(2).
    assert [one["level"] for one in found.errors] == pytest.approx([0.1 / (2 * np.sqrt(2))] * 2, rel=1e-3)
    assert " or " in str(found)


def test_two_quantities_follow_from_two_measurements(graph, gemm):
    card = fg.load_sku("h100-sxm")
    part = graph.subgraph("peak_flops", "flop_per_clock", "traffic")
    measured = part.predict(card, gemm, boost_clock=1.5e9, m=2048.0, outputs=["peak_flops", "traffic"])
    given = {name: float(measured[name][0]) for name in ("peak_flops", "traffic")}
    without = {name: value for name, value in gemm.items() if name != "working_set"}
    found = condition(
        part,
        card,
        without,
        given=given,
        infer=["boost_clock", "sm_count"],
        between={"boost_clock": (1e9, 3e9), "sm_count": (1.0, 400.0)},
    )
    # Only the product of the two is measured: whatever is found has it.
    for one in found.solutions:
        assert one["boost_clock"] * one["sm_count"] == pytest.approx(1.5e9 * 132, rel=1e-2)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"infer": ["lod"]}, "did you mean 'load'"),
        ({"given": {"tok": 1.0}}, "did you mean 'took'"),
        ({"infer": []}, "at least one"),
        ({"infer": ["took.a", "took.b"]}, "cannot follow from 1 measurements"),
        ({"given": {"took": -1.0}}, "above zero"),
        ({"sigma": {"took": 0.0}}, "must be above zero"),
        ({"given": {"took": 1.0, "load": 1.0}, "infer": ["load"]}, "both measured and asked for"),
    ],
)
def test_what_cannot_follow_is_refused(asked, message):
    asked = {"given": {"took": 5.0}, "infer": ["took.a"]} | asked
    with pytest.raises(fg.FactorGraphError, match=message):
        condition(exponential(), {"load": [1.0]}, **asked)


def test_a_constant_of_a_law_is_inferred_in_closed_form():
    found = condition(exponential(), {"load": [2.0]}, given={"took": np.exp(5.0)}, infer=["took.a"])
    assert [one["took.a"] for one in found.solutions] == pytest.approx([3.0], abs=1e-2)
