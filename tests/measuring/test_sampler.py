"""Reading a GPU's state, from a library that is made up."""

import math
import sys

import pytest
from machines import FakeNvml, FakeSampler

from factorgraph.measuring import NvmlSampler, find_sampler
from factorgraph.measuring.sampler import Watch, watching


def test_readings_are_in_si_and_reasons_in_words():
    assert NvmlSampler(FakeNvml()).read() == {
        "sm_clock": 1.41e9,
        "power": 399.5,
        "power_cap": 400.0,
        "temperature": 333.15,
        "throttle_reasons": "SwPowerCap",
    }


def test_a_sensor_that_a_gpu_lacks_is_absent_and_the_others_are_read():
    class Partly(FakeNvml):
        def nvmlDeviceGetPowerUsage(self, handle):
            raise RuntimeError("Not Supported")

    reading = NvmlSampler(Partly()).read()
    assert math.isnan(reading["power"])
    assert reading["sm_clock"] == 1.41e9


@pytest.mark.parametrize(("visible", "asked"), [("", 0), ("3,1", 3), ("GPU-7d1c, 2", "GPU-7d1c")])
def test_the_gpu_that_is_read_is_the_one_that_computes(visible, asked, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml = FakeNvml()
    NvmlSampler(nvml)
    assert nvml.asked_for == asked


def test_a_run_too_short_for_the_period_is_read_once_all_the_same():
    watch = Watch()
    with watching(FakeSampler(), watch):
        pass
    assert watch.summary()["power"] == 300.0


def test_a_cpu_is_not_read():
    assert find_sampler("cpu") == (None, "")
    watch = Watch()
    with watching(None, watch):
        pass
    assert watch.summary() == {}


def test_without_the_library_a_note_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    sampler, note = find_sampler("gpu")
    assert sampler is None
    assert "install the extra 'nvml'" in note


def test_a_driver_that_does_not_answer_is_a_note(monkeypatch):
    class Silent(FakeNvml):
        def nvmlInit(self):
            raise RuntimeError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", Silent())
    sampler, note = find_sampler("gpu")
    assert sampler is None
    assert "the driver does not answer (Driver Not Loaded)" in note
