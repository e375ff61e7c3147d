"""Units are read, told apart and converted."""

import pytest

from factorgraph import FactorGraphError
from factorgraph.units import parse, to_unit


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [
        (1830.0, "MHz", "Hz", 1.83e9),
        (3.35, "TB/s", "B/s", 3.35e12),
        (50.0, "MiB", "B", 50 * 2.0**20),
        (50.0, "MB", "B", 50e6),
        (989.4, "TFLOP/s", "FLOP/s", 989.4e12),
        (8.0, "Gbit/s", "B/s", 1e9),
        (2.5, "µs", "s", 2.5e-6),
        (12.5, "%", "1", 0.125),
        (3.0, "percentage_point", "1", 0.03),
        (1.2, "pJ/FLOP", "J/FLOP", 1.2e-12),
    ],
)
def test_conversions_are_the_textbooks(value, given, wanted, expected):
    assert to_unit(value, given, wanted) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("1", "B"), ("Hz", "B/s"), ("FLOP", "1"), ("W", "J"), ("FLOP/s", "Hz"), ("B", "FLOP"), ("s", "B")],
)
def test_what_measures_something_else_is_refused(given, wanted):
    with pytest.raises(FactorGraphError, match=f"what is in '{given}', which cannot be read as '{wanted}'"):
        to_unit(1.0, given, wanted, what="what")


def test_a_unit_that_is_none_is_refused():
    with pytest.raises(FactorGraphError, match="'gigahurts' is not a unit"):
        parse("gigahurts")
