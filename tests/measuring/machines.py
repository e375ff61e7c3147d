"""Machines, cases and readings that are made up."""

import pytest

from factorgraph.measuring import Effort, Machine
from factorgraph.measuring.cases import Case

MACHINE = Machine("Example CPU", "cpu", "0.0", 2, 2.0**20, "made up", 2.0**33)
EFFORT = Effort(least=1e-4, repeats=3)


class FakeClock:
    """Moved by the runs alone."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = FakeClock()


def counting_cases(measured: list[int], count: int = 6) -> list[Case]:
    """Products whose run only moves the clock, and says which was prepared."""

    def run(rounds: int) -> None:
        CLOCK.now += 1e-4 * rounds

    def case(i: int) -> Case:
        def prepare(draw):
            measured.append(i)
            return run

        row = {"m": i + 1, "n": 8, "k": 8, "cache_copies": 1, "cache_state": "warm"}
        return Case(row, 1, 0.0, prepare)

    return [case(i) for i in range(count)]


class FakeSampler:
    """A GPU that gets warmer with each reading."""

    def __init__(self):
        self.read_so_far = 0

    def read(self):
        self.read_so_far += 1
        reason = "SwPowerCap" if self.read_so_far > 2 else "none"
        return {
            "sm_clock": 1.5e9,
            "power": 300.0,
            "power_cap": 400.0,
            "temperature": 320.0 + self.read_so_far,
            "throttle_reasons": reason,
        }


class FakeNvml:
    """What `pynvml` answers for a GPU that its power limit slows down; setting anything is an error."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    nvmlClocksThrottleReasonSwPowerCap = 4
    nvmlClocksThrottleReasonHwSlowdown = 8
    nvmlClocksThrottleReasonAll = 12

    def __init__(self):
        self.asked_for = None

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByIndex(self, index):
        self.asked_for = index

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked_for = uuid

    def nvmlDeviceGetClockInfo(self, handle, which):
        return 1410

    def nvmlDeviceGetPowerUsage(self, handle):
        return 399_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 400_000

    def nvmlDeviceGetTemperature(self, handle, which):
        return 60

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 4

    def __getattr__(self, name):
        pytest.fail(f"{name} was asked of NVML, which may only be read")
