"""Wave quantisation: SMs work off whole tiles in whole rounds, so some of them compute padding or wait."""

import jax.numpy as jnp

from factorgraph.factor import Factor
from factorgraph.variables import (
    AsyncPipeline,
    BusySms,
    EtaWave,
    GemmGroups,
    M,
    N,
    Slices,
    SmCount,
    TileM,
    TileN,
    Waves,
)


def _tiles(m, n, gemm_groups, tile_m, tile_n, slices):
    return jnp.ceil(m / tile_m) * jnp.ceil(n / tile_n) * slices * gemm_groups


class WholeWaves(Factor):
    """Rounds as the hardware's simplest scheduler runs them: waves = ceil(tiles / sm_count).

    The derivative is zero between steps, as that of any count is; ask for a finite swing instead.
    Source: report section 3.2 (Ampere and Ada follow it; Hopper's persistent kernels do not).
    """

    kinks = ("m", "n", "gemm_groups", "tile_m", "tile_n", "slices", "sm_count")
    monotone = {"m": +1, "n": +1, "gemm_groups": +1, "sm_count": -1}

    def __call__(
        self, m: M, n: N, gemm_groups: GemmGroups, tile_m: TileM, tile_n: TileN, slices: Slices, sm_count: SmCount
    ) -> Waves:
        return jnp.ceil(_tiles(m, n, gemm_groups, tile_m, tile_n, slices) / sm_count)


class ScheduledWaves(Factor):
    """Rounds as a generation schedules them: whole ones, or fractional ones where persistent kernels share the last.

    u = tiles / sm_count;  waves = ceil(u) on GPUs without asynchronous pipelines, max(u, 1) on those with them

    A wave is never shorter than one tile. Between steps the derivative of whole rounds is zero.
    Source: no constant. Ampere, Ada and sm_120 show the steps of whole rounds in their GEMM tables, Hopper and sm_100
    hardly any: as the report found, wave quantisation does not transfer to Hopper (study `wave`).
    """

    kinks = ("m", "n", "gemm_groups", "tile_m", "tile_n", "slices", "sm_count")
    monotone = {"m": +1, "n": +1, "gemm_groups": +1, "sm_count": -1}

    def __call__(
        self,
        m: M,
        n: N,
        gemm_groups: GemmGroups,
        tile_m: TileM,
        tile_n: TileN,
        slices: Slices,
        sm_count: SmCount,
        async_pipeline: AsyncPipeline,
    ) -> Waves:
        rounds = _tiles(m, n, gemm_groups, tile_m, tile_n, slices) / sm_count
        return (1.0 - async_pipeline) * jnp.ceil(rounds) + async_pipeline * jnp.maximum(rounds, 1.0)


class OccupiedSms(Factor):
    """SMs that have a tile to work on: busy_sms = min(tiles, sm_count)."""

    kinks = ("m", "n", "gemm_groups", "tile_m", "tile_n", "slices", "sm_count")
    monotone = {"m": +1, "n": +1, "gemm_groups": +1, "sm_count": +1}

    # Beyond the tables' 65,536 columns a product only adds waves like those before.
    fitted_in = {"m": (1, 32768), "n": (1, 262144), "sm_count": (108, 188)}

    def __call__(
        self, m: M, n: N, gemm_groups: GemmGroups, tile_m: TileM, tile_n: TileN, slices: Slices, sm_count: SmCount
    ) -> BusySms:
        return jnp.minimum(_tiles(m, n, gemm_groups, tile_m, tile_n, slices), sm_count)


class WaveEfficiency(Factor):
    """Useful share of what the waves could compute: padding of tiles and idle SMs of the last wave are the loss.

    eta_wave = (m n gemm_groups slices) / (tile_m tile_n sm_count waves)
    """

    monotone = {"waves": -1}

    def __call__(
        self,
        m: M,
        n: N,
        gemm_groups: GemmGroups,
        tile_m: TileM,
        tile_n: TileN,
        slices: Slices,
        sm_count: SmCount,
        waves: Waves,
    ) -> EtaWave:
        useful = (m / tile_m) * (n / tile_n) * gemm_groups * slices
        return jnp.minimum(useful / (sm_count * waves), 1.0)
