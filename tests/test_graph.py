"""Composition, replacement, evaluation and drawing of factor graphs."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import Array

from factorgraph import Domain, Factor, FactorGraph, FactorGraphError, Given, UnknownNameError, Variable, parameter

A = Annotated[Array, Variable("a", "s", Domain(0, 10))]
B = Annotated[Array, Variable("b", "s", Domain(0, 10))]
C = Annotated[Array, Variable("c", "s", Domain(0, 10))]
BInMetres = Annotated[Array, Variable("b", "m", Domain(0, 10))]
BOnPlate = Annotated[Array, Variable("b", "s", Domain(0, 10), ("gemm",))]
X = Annotated[Array, Variable("x", "1", plates=("gemm",))]
Y = Annotated[Array, Variable("y", "1", plates=("tiling",))]
XY = Annotated[Array, Variable("xy", "1", plates=("gemm", "tiling"))]
Best = Annotated[Array, Variable("best", "1", plates=("gemm",))]
Total = Annotated[Array, Variable("total", "1")]


class Double(Factor):
    factor: Array = parameter(2.0, source="test")

    def __call__(self, a: A) -> B:
        return self.factor * a


class Triple(Factor):
    def __call__(self, a: A) -> B:
        return 3.0 * a


class Square(Factor):
    def __call__(self, b: B) -> C:
        return b * b


class Back(Factor):
    def __call__(self, c: C) -> A:
        return c


class ReadsMetres(Factor):
    def __call__(self, b: BInMetres) -> C:
        return b


class ReadsPlate(Factor):
    def __call__(self, b: BOnPlate) -> C:
        return jnp.sum(b)


class Outer(Factor):
    def __call__(self, x: X, y: Y) -> XY:
        return x * y


class Smallest(Factor):
    def __call__(self, xy: XY) -> Best:
        return jnp.min(xy)


class Sum(Factor):
    def __call__(self, best: Best) -> Total:
        return jnp.sum(best)


class Constant(Factor):
    def __call__(self, a: A) -> XY:
        return a


def test_laws_are_wired_by_name_in_any_order():
    graph = FactorGraph([Square(), Double()])
    assert [f.law_name for f in graph.factors] == ["Double", "Square"]
    assert graph.input_names == ("a",)
    assert float(graph.evaluate({"a": 3.0})["c"]) == 36.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FactorGraph([Double(), Triple()]), "laws Double and Triple both give 'b'; keep one, or use graph.rep"),
        (
            lambda: FactorGraph([Square()], inputs=["a"]),
            "law Square reads 'b', which no law gives and no input supplies",
        ),
        (lambda: FactorGraph([Double(), Square(), Back()]), r"feed each other in a circle .*a.*break it"),
        (
            lambda: FactorGraph([Double(), ReadsMetres()]),
            "Double and ReadsMetres disagree on the unit of 'b': s against m",
        ),
        (lambda: FactorGraph([Double(), ReadsPlate()]), "disagree on the plates of 'b': none against"),
        (lambda: FactorGraph([Double]), "is no law; subclass factorgraph.Factor and pass an instance"),
    ],
)
def test_composition_errors_name_law_variable_and_mend(build, message):
    with pytest.raises(FactorGraphError, match=message):
        build()


def test_replace_swaps_one_law_and_leaves_the_old_graph():
    graph = FactorGraph([Double(), Square()])
    assert float(graph.replace(b=Triple()).evaluate({"a": 1.0})["c"]) == 9.0
    assert float(graph.evaluate({"a": 1.0})["c"]) == 4.0


def test_replacing_what_is_not_there_names_the_near_miss():
    with pytest.raises(UnknownNameError, match=r"unknown law 'bb'; did you mean 'b'"):
        FactorGraph([Double()]).replace(bb=Triple())


def test_a_replacement_must_give_the_variable_it_replaces():
    with pytest.raises(FactorGraphError, match="law Square gives 'c', not 'b'"):
        FactorGraph([Double()]).replace(b=Square())


def test_a_replacement_may_not_bring_an_unsupplied_input_unless_declared():
    class FromC(Factor):
        def __call__(self, c: C) -> B:
            return c

    with pytest.raises(FactorGraphError, match="reads 'c', which no law gives"):
        FactorGraph([Double()]).replace(b=FromC())
    assert FactorGraph([Double()]).replace(b=FromC(), inputs=[C]).input_names == ("c",)


def test_subgraph_keeps_only_ancestors():
    graph = FactorGraph([Double(), Square()])
    assert [f.output.name for f in graph.subgraph("b").factors] == ["b"]
    with pytest.raises(UnknownNameError, match="unknown law 'd'"):
        graph.subgraph("d")


def test_subgraph_and_whole_agree():
    graph = FactorGraph([Double(), Square()])
    assert float(graph.subgraph("b").evaluate({"a": 2.0})["b"]) == float(graph.evaluate({"a": 2.0})["b"])


def test_a_value_for_a_computed_variable_is_an_intervention():
    assert float(FactorGraph([Double(), Square()]).evaluate({"b": 5.0})["c"]) == 25.0


def test_a_missing_value_is_named_with_its_unit():
    with pytest.raises(FactorGraphError, match="'a' has no value and law Double needs it; pass a= in s"):
        FactorGraph([Double()]).evaluate({})


def test_an_unknown_value_is_named():
    with pytest.raises(UnknownNameError, match="unknown variable 'aa'"):
        FactorGraph([Double()]).evaluate({"aa": 1.0})


def test_plates_map_where_shared_and_reduce_where_not():
    graph = FactorGraph([Outer(), Smallest(), Sum(), Given(Y, [3.0, 2.0])])
    values = graph.evaluate({"x": jnp.array([1.0, 10.0, 100.0])})
    assert values["xy"].tolist() == [[3, 2], [30, 20], [300, 200]]
    assert values["best"].tolist() == [2, 20, 200]
    assert float(values["total"]) == 222.0


def test_an_output_plate_that_no_input_has_is_repeated():
    graph = FactorGraph([Constant(), Smallest(), Given(Y, [3.0, 2.0]), Sum()])
    values = graph.evaluate({"a": 7.0, "y": jnp.array([1.0, 1.0]), "xy": jnp.ones((4, 2))})
    assert values["best"].shape == (4,)
    assert FactorGraph([Constant(), Given(Y, [3.0, 2.0])]).evaluate({"a": 7.0})["xy"].shape == (1, 2)


def test_plates_of_unequal_length_are_refused():
    class Both(Factor):
        def __call__(self, x: X, best: Best) -> Total:
            return jnp.sum(x * best)

    with pytest.raises(FactorGraphError, match="'best' has 2 entries on plate 'gemm' and 'x' has 3"):
        FactorGraph([Both()]).evaluate({"x": jnp.ones(3), "best": jnp.ones(2)})


def test_a_value_with_the_wrong_axes_is_refused():
    with pytest.raises(FactorGraphError, match="'x' needs gemm, and the value given has 0 axes"):
        FactorGraph([Outer(), Given(Y, [1.0])]).evaluate({"x": 1.0})


def test_parameters_are_named_by_variable_and_field():
    graph = FactorGraph([Double(), Square()])
    assert {path: float(v) for path, v in graph.parameters.items()} == {"b.factor": 2.0}
    changed = graph.with_parameters({"b.factor": 5.0})
    assert float(changed.evaluate({"a": 1.0})["b"]) == 5.0
    assert float(graph.parameters["b.factor"]) == 2.0
    assert graph.parameter_info("b.factor").source == "test"
    with pytest.raises(UnknownNameError, match=r"unknown parameter 'b\.facto'; did you mean 'b\.factor'"):
        graph.with_parameters({"b.facto": 1.0})


def test_the_graph_is_differentiable_by_values_and_constants():
    graph = FactorGraph([Double(), Square()])
    by_a = jax.grad(lambda a: graph.evaluate({"a": a})["c"])(3.0)
    by_factor = jax.grad(lambda f: graph.with_parameters({"b.factor": f}).evaluate({"a": 3.0})["c"])(2.0)
    assert float(by_a) == pytest.approx(2 * 2 * 2 * 3)  # d(2a)^2/da = 8a
    assert float(by_factor) == pytest.approx(2 * 2 * 9)  # d(fa)^2/df = 2 f a^2


def test_graphs_are_pytrees_that_jit_once_for_all_values():
    traces = []

    @eqx.filter_jit
    def run(graph, a):
        traces.append(1)
        return graph.evaluate({"a": a})["c"]

    graph = FactorGraph([Double(), Square()])
    for factor, a in ((2.0, 1.0), (3.0, 2.0), (4.0, 5.0)):
        result = run(graph.with_parameters({"b.factor": factor}), jnp.asarray(a))
        assert float(result) == (factor * a) ** 2
    assert len(traces) == 1


def test_drawings_name_every_law_and_variable():
    graph = FactorGraph([Double(), Square()])
    mermaid, dot = graph.draw("mermaid"), graph.draw("dot", values={"a": 3.0})
    assert mermaid.splitlines()[0] == "flowchart LR"
    assert "a --> law_b" in mermaid
    assert "law_b --> b" in mermaid
    assert 'label="a = 3 s"' in dot
    assert dot.count("->") == 4
    assert graph.draw("text") == "b = Double(a)\nc = Square(b)"
    assert "<td>Double</td>" in graph._repr_html_()
    with pytest.raises(UnknownNameError, match="unknown graph format 'svg'"):
        graph.draw("svg")
