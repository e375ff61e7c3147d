"""A law beside a reference: faults that are no breach of physics, only of what was meant."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from jax import Array

from factorgraph import Factor, FactorGraphError, parameter
from factorgraph.laws.gemm import CompulsoryTraffic
from factorgraph.laws.light import LaunchAndStream
from factorgraph.laws.total import OverlappedHost, SerialHost
from factorgraph.laws.wave import WholeWaves
from factorgraph.testing import LawError, check_against, check_law
from factorgraph.variables import (
    ActivationElementSize,
    DramBandwidth,
    GemmGroups,
    K,
    LightBytes,
    M,
    N,
    OutputElementSize,
    Slices,
    SmCount,
    TileM,
    TileN,
    TLight,
    Traffic,
    Waves,
    WeightElementSize,
)


class OffByOneTile(Factor):
    """floor + 1 in place of ceil: one tile too many wherever a matrix is a whole number of tiles."""

    kinks = ("m", "n", "gemm_groups", "tile_m", "tile_n", "slices", "sm_count")

    def __call__(
        self, m: M, n: N, gemm_groups: GemmGroups, tile_m: TileM, tile_n: TileN, slices: Slices, sm_count: SmCount
    ) -> Waves:
        tiles = (jnp.floor(m / tile_m) + 1.0) * (jnp.floor(n / tile_n) + 1.0) * slices * gemm_groups
        return jnp.ceil(tiles / sm_count)


class WeightsCountedTwice(Factor):
    def __call__(
        self,
        m: M,
        n: N,
        k: K,
        gemm_groups: GemmGroups,
        activation_element_size: ActivationElementSize,
        weight_element_size: WeightElementSize,
        output_element_size: OutputElementSize,
    ) -> Traffic:
        return gemm_groups * (
            m * k * activation_element_size + 2.0 * k * n * weight_element_size + m * n * output_element_size
        )


class TimeInMilliseconds(Factor):
    """The right law in the wrong unit: a slip of a thousand that no change of units shows."""

    t_launch: Array = parameter(3.5e-6, unit="s", source="test")

    def __call__(self, light_bytes: LightBytes, dram_bandwidth: DramBandwidth) -> TLight:
        return 1e3 * (self.t_launch + light_bytes / (0.6 * dram_bandwidth))


@pytest.mark.parametrize(
    ("wrong", "reference"),
    [
        (OffByOneTile(), WholeWaves()),
        (WeightsCountedTwice(), CompulsoryTraffic()),
        (TimeInMilliseconds(), LaunchAndStream()),
    ],
    ids=lambda law: law.law_name,
)
def test_a_law_that_keeps_all_physics_is_caught_beside_a_reference(wrong, reference):
    check_law(wrong, examples=5)
    with pytest.raises(LawError, match=f"law {wrong.law_name} gives .* and {reference.law_name} ") as caught:
        check_against(wrong, reference, tolerance=1e-3)
    assert "smallest example: " in str(caught.value)


def test_a_law_agrees_with_itself_and_a_better_one_within_its_tolerance():
    check_against(WholeWaves(), WholeWaves(), tolerance=0.0)
    # The larger of two times is at least half their sum, and at most all of it.
    check_against(OverlappedHost(), SerialHost(), tolerance=0.5)
    with pytest.raises(LawError, match=r"more than 0\.4 apart"):
        check_against(OverlappedHost(), SerialHost(), tolerance=0.4)


def test_a_law_of_something_else_is_no_reference():
    with pytest.raises(FactorGraphError, match="SerialHost is no reference for WholeWaves: it must give 'waves'"):
        check_against(WholeWaves(), SerialHost(), tolerance=0.1)


@pytest.fixture
def measured():
    """Times of a kernel that takes 1 us and streams at 2e12 B/s, 1 % slower each time it was looked at."""
    size = np.asarray([0.0, 2e6, 2e8, 2e9])
    return xr.Dataset(
        {"t_light": ("row", 1.01 * (1e-6 + size / 2e12)), "light_bytes": ("row", size)},
        coords={"dram_bandwidth": 2e12},
    )


def test_a_law_is_held_to_measurements_on_average(measured):
    law = LaunchAndStream(t_launch=1e-6, efficiency=1.0)
    check_against(law, measured, tolerance=0.0101)
    with pytest.raises(LawError, match=r"by 0\.0099 on average, more than 0\.005; at the worst row"):
        check_against(law, measured, tolerance=0.005)


def test_rows_that_were_not_measured_are_left_out(measured):
    law = LaunchAndStream(t_launch=1e-6, efficiency=1.0)
    measured.t_light[1] = np.nan
    check_against(law, measured, tolerance=0.0101)
    measured.t_light[:] = np.nan
    with pytest.raises(FactorGraphError, match="no row in which 't_light' was measured"):
        check_against(law, measured, tolerance=0.0101)


def test_a_dataset_without_an_input_is_told(measured):
    with pytest.raises(FactorGraphError, match="the dataset has no 'dram_bandwidth', which law LaunchAndStream needs"):
        check_against(LaunchAndStream(), measured.drop_vars("dram_bandwidth"), tolerance=0.1)
