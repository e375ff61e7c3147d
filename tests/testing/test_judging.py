"""What a verdict says, and how the kit is asked for one."""

import pytest
from zoo import ReachesItsLimits, WrongSign

from factorgraph import Factor, UnknownNameError
from factorgraph.testing import CHECKS, LawError, check_law, judge
from factorgraph.variables import DramBandwidth, LightBytes, TLight


class MentionsAStranger(Factor):
    kinks = ("m",)

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return light_bytes / dram_bandwidth


class Raises(Factor):
    def __call__(self, light_bytes: LightBytes) -> TLight:
        raise KeyError("no such table")


def complaint(law, check, **how):
    with pytest.raises(LawError) as caught:
        check_law(law, checks=[check], **how)
    return str(caught.value)


def test_a_report_names_law_check_example_and_both_numbers_with_units():
    """t = bytes/bandwidth: from 1 B at 1e9 B/s, the smallest of the domain, the next bandwidth takes less time."""
    first, second = complaint(WrongSign(), "monotone").splitlines()
    assert first.startswith("law WrongSign fails 'monotone': t_light falls from 1e-09 s to ")
    assert "as dram_bandwidth goes from 1e+09 B/s to " in first
    assert first.endswith("though monotone declares +1")
    assert second == "  smallest example: light_bytes = 1 B, dram_bandwidth = 1e+09 B/s"


def test_the_same_seed_finds_the_same_example():
    assert complaint(WrongSign(), "monotone", seed=3) == complaint(WrongSign(), "monotone", seed=3)


def test_every_check_is_judged_and_the_first_that_fails_is_raised():
    verdicts = judge(WrongSign(), examples=5)
    assert [verdict.check for verdict in verdicts] == list(CHECKS)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    assert "monotone" in [verdict.check for verdict in failed]
    with pytest.raises(LawError) as caught:
        check_law(WrongSign(), examples=5)
    assert str(caught.value) == failed[0].message
    assert all(verdict.message == "" for verdict in verdicts if verdict.passed)


def test_a_right_law_passes_every_check():
    assert all(verdict.passed for verdict in judge(ReachesItsLimits(), examples=5))


def test_an_unknown_check_is_named():
    with pytest.raises(UnknownNameError, match="unknown check 'monoton'; did you mean 'monotone'"):
        check_law(WrongSign(), checks=["monoton"])


def test_a_claim_about_something_that_is_no_input_is_told():
    assert "kinks names 'm', which is no input; the inputs are light_bytes" in complaint(MentionsAStranger(), "domain")


def test_whatever_a_law_raises_is_told_in_one_sentence():
    assert "it cannot be run (KeyError: 'no such table')" in complaint(Raises(), "signature")


def test_every_check_says_what_it_holds_a_law_to():
    assert all(check.__doc__ for check in CHECKS.values())
