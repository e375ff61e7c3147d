"""Every built-in law is held to its physics over the whole of its declared domain."""

import importlib
import inspect
import pkgutil

import pytest

import factorgraph.laws
from factorgraph import Factor
from factorgraph.testing import check_law


def built_in_laws() -> list[type[Factor]]:
    found = []
    for entry in pkgutil.iter_modules(factorgraph.laws.__path__):
        module = importlib.import_module(f"factorgraph.laws.{entry.name}")
        for law in vars(module).values():
            if inspect.isclass(law) and issubclass(law, Factor) and law.__module__ == module.__name__:
                found.append(law)
    return found


LAWS = built_in_laws()


def test_there_are_laws_and_each_is_final():
    assert len(LAWS) > 30
    for law in LAWS:
        assert law.__bases__ == (Factor,), f"{law.__name__} must subclass Factor alone"
        assert law.__doc__


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_law_keeps_its_physics(law):
    check_law(law(), examples=15)


@pytest.mark.nightly
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_law_keeps_its_physics_at_length(law):
    check_law(law(), examples=150)
