"""Deliberately wrong laws are caught by the check that names their fault; right ones pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from factorgraph import Factor, FactorGraphError, UnknownNameError, parameter
from factorgraph.laws.host import HostResidual
from factorgraph.testing import CHECKS, LawError, check_law, judge, load_law
from factorgraph.variables import DramBandwidth, EtaClock, LightBytes, PowerCap, Sequences, SmClock, THost, TLight

RIGHT = dict.fromkeys(CHECKS, True)


class Streaming(Factor):
    t_launch: Array = parameter(1e-6, unit="s", source="test")
    monotone = {"light_bytes": +1, "dram_bandwidth": -1}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return self.t_launch + light_bytes / dram_bandwidth


class HidesAUnit(Factor):
    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return 1e-6 + light_bytes / dram_bandwidth


class JustAboveOne(Factor):
    def __call__(self, power_cap: PowerCap) -> EtaClock:
        return 1.0001 * power_cap / power_cap


class Negative(Factor):
    def __call__(self, sequences: Sequences) -> THost:
        return 1e-3 - 1e-5 * sequences


class NotANumberAtOnePoint(Factor):
    def __call__(self, sm_clock: SmClock) -> EtaClock:
        return jnp.where(sm_clock == 1e8, jnp.nan, 0.5)


class InfiniteSlope(Factor):
    def __call__(self, light_bytes: LightBytes) -> TLight:
        return 1e-6 + jnp.sqrt(light_bytes)


class SlopeOfAnInvalidBranch(Factor):
    def __call__(self, light_bytes: LightBytes) -> TLight:
        return 1e-6 + jnp.where(light_bytes > 0, jnp.log(light_bytes) ** 2, 0.0)


class WrongSign(Factor):
    monotone = {"dram_bandwidth": +1}

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return 1e-6 + light_bytes / dram_bandwidth


class BumpInANarrowBand(Factor):
    monotone = {"sequences": +1}

    def __call__(self, sequences: Sequences) -> THost:
        return 1e-3 * sequences * (1.0 - 0.3 * jnp.exp(-((jnp.log(sequences / 50.0) / 0.05) ** 2)))


class FallsAtAStep(Factor):
    monotone = {"sequences": +1}

    def __call__(self, sequences: Sequences) -> THost:
        return 1e-6 * (sequences % 64.0) + 1e-6


class RemembersItsCalls(Factor):
    def __call__(self, sequences: Sequences) -> THost:
        calls.append(1)
        return 1e-3 + 1e-6 * len(calls) + 0.0 * sequences


class BranchesOnItsInput(Factor):
    def __call__(self, sequences: Sequences) -> THost:
        return 1e-3 * sequences if sequences > 8 else 1e-3 + 0.0 * sequences


class DiffersWhenCompiled(Factor):
    def __call__(self, sequences: Sequences) -> THost:
        return (2e-3 if isinstance(sequences, jax.core.Tracer) else 1e-3) * sequences


class LosesSmallDifferences(Factor):
    def __call__(self, sm_clock: SmClock) -> THost:
        return (sm_clock + 1.0) - sm_clock + 0.5


class StaticConstant(Factor):
    scale: float = 1e-3

    def __call__(self, sequences: Sequences) -> THost:
        return self.scale * sequences


class GivesAList(Factor):
    def __call__(self, sequences: Sequences) -> THost:
        return jnp.stack([sequences, sequences])


class FlatInWhatItMustRiseWith(Factor):
    offset: Array = parameter(1.0, unit="s", source="test")

    def __call__(self, sequences: Sequences) -> THost:
        return self.offset / jnp.floor(sequences / 1e5)


calls: list[int] = []

ZOO = [
    (JustAboveOne, "domain"),
    (Negative, "domain"),
    (NotANumberAtOnePoint, "domain"),
    (InfiniteSlope, "gradient"),
    (SlopeOfAnInvalidBranch, "gradient"),
    (WrongSign, "monotone"),
    (BumpInANarrowBand, "monotone"),
    (FallsAtAStep, "monotone"),
    (RemembersItsCalls, "stateless"),
    (BranchesOnItsInput, "jit"),
    (DiffersWhenCompiled, "jit"),
    (LosesSmallDifferences, "precision"),
    (GivesAList, "signature"),
    (HidesAUnit, "units"),
    (FlatInWhatItMustRiseWith, "domain"),
]


@pytest.mark.parametrize(("law", "check"), ZOO, ids=lambda item: getattr(item, "__name__", item))
def test_a_wrong_law_is_caught_by_the_check_that_names_its_fault(law, check):
    with pytest.raises(LawError, match=f"law {law.__name__} fails '{check}'"):
        check_law(law(), checks=[check])


def test_a_report_names_law_check_example_and_numbers():
    with pytest.raises(LawError) as caught:
        check_law(WrongSign(), checks=["monotone"])
    message = str(caught.value)
    assert "law WrongSign fails 'monotone': t_light falls from" in message
    assert "though monotone declares +1" in message
    assert "dram_bandwidth = " in message
    assert "B/s" in message


@pytest.mark.parametrize("law", [Streaming, HostResidual])
def test_a_right_law_passes_every_check(law):
    assert {verdict.check: verdict.passed for verdict in judge(law())} == RIGHT


def test_an_unknown_check_is_named():
    with pytest.raises(UnknownNameError, match="unknown check 'monotonic'"):
        check_law(Streaming(), checks=["monotonic"])


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
