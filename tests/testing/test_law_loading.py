"""A law named on a command line is found, or the reason why not is said in one sentence."""

import numpy as np
import pytest

from factorgraph import FactorGraphError
from factorgraph.testing import load_law


def test_laws_are_loaded_by_module_and_by_file(tmp_path):
    assert load_law("factorgraph.laws.host:HostResidual").law_name == "HostResidual"
    file = tmp_path / "mine.py"
    file.write_text(
        "from factorgraph import Factor\nfrom factorgraph.variables import Sequences, THost\n"
        "class Mine(Factor):\n    def __call__(self, sequences: Sequences) -> THost:\n        return 1e-3 * sequences\n"
    )
    law = load_law(f"{file}:Mine")
    np.testing.assert_allclose(law(2.0), 2e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("HostResidual", "names no law; write package.module:Class"),
        ("factorgraph.laws.host:HostResidul", "did you mean|known: HostResidual"),
        ("factorgraph.laws.nothing:Law", "cannot be imported"),
        ("nothing.py:Law", "there is no file nothing.py"),
        ("factorgraph.laws.host:parameter", "is no law; subclass"),
    ],
)
def test_what_names_no_law_is_said(words, message):
    with pytest.raises(FactorGraphError, match=message):
        load_law(words)


def test_a_file_that_cannot_run_is_said(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(FactorGraphError, match=r"broken\.py cannot be run: ZeroDivisionError"):
        load_law(f"{tmp_path / 'broken.py'}:Law")
