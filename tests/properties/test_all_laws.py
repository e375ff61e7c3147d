"""Every law that comes with the package is held to the kit, over its inputs' whole domains."""

import pytest

from factorgraph import Factor
from factorgraph.testing import built_in_laws, check_law

LAWS = built_in_laws()


def name(law):
    return law.law_name


def test_there_are_laws_and_each_is_final_and_documented():
    assert len(LAWS) > 30
    for law in LAWS:
        assert type(law).__bases__ == (Factor,), f"{law.law_name} must subclass Factor alone"
        assert type(law).__doc__


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_a_law_keeps_its_physics(law):
    check_law(law, examples=15)


@pytest.mark.nightly
@pytest.mark.parametrize("law", LAWS, ids=name)
def test_a_law_keeps_its_physics_at_length(law):
    check_law(law, examples=150, seed=1)
