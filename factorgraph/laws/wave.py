"""Wave quantisation: SMs work off whole tiles in whole rounds, so some of them compute padding or wait."""

import jax.numpy as jnp

from factorgraph.factor import Factor
from factorgraph.variables import EtaWave, GemmGroups, M, N, SmCount, SplitK, TileM, TileN, Waves


def _tiles(m, n, gemm_groups, tile_m, tile_n, split_k):
    return jnp.ceil(m / tile_m) * jnp.ceil(n / tile_n) * split_k * gemm_groups


class WholeWaves(Factor):
    """Rounds as the hardware's simplest scheduler runs them: waves = ceil(tiles / sm_count).

    The derivative is zero between steps, as that of any count is; ask for a finite swing instead.
    Source: report section 3.2 (Ampere and Ada follow it; Hopper's persistent kernels do not).
    """

    monotone = {"m": +1, "n": +1, "gemm_groups": +1, "sm_count": -1}

    def __call__(
        self, m: M, n: N, gemm_groups: GemmGroups, tile_m: TileM, tile_n: TileN, split_k: SplitK, sm_count: SmCount
    ) -> Waves:
        return jnp.ceil(_tiles(m, n, gemm_groups, tile_m, tile_n, split_k) / sm_count)


class BlendedWaves(Factor):
    """Rounds of a library that sometimes balances its last wave: halfway between whole and fractional rounds.

    u = tiles / sm_count;  waves = ceil(u)/2 + max(u, 1)/2

    A wave is never shorter than one tile. The derivative is that of the fractional half.
    Source: bf16 GEMM tables of aiconfigurator-core 0.12.0, nine GPUs; the weight one half is not fitted.
    """

    monotone = {"m": +1, "n": +1, "gemm_groups": +1, "sm_count": -1}

    def __call__(
        self, m: M, n: N, gemm_groups: GemmGroups, tile_m: TileM, tile_n: TileN, split_k: SplitK, sm_count: SmCount
    ) -> Waves:
        rounds = _tiles(m, n, gemm_groups, tile_m, tile_n, split_k) / sm_count
        return 0.5 * jnp.ceil(rounds) + 0.5 * jnp.maximum(rounds, 1.0)


class WaveEfficiency(Factor):
    """Useful share of what the waves could compute: padding of tiles and idle SMs of the last wave are the loss.

    eta_wave = (m n gemm_groups split_k) / (tile_m tile_n sm_count waves)
    """

    monotone = {"waves": -1}

    def __call__(
        self,
        m: M,
        n: N,
        gemm_groups: GemmGroups,
        tile_m: TileM,
        tile_n: TileN,
        split_k: SplitK,
        sm_count: SmCount,
        waves: Waves,
    ) -> EtaWave:
        useful = (m / tile_m) * (n / tile_n) * gemm_groups * split_k
        return jnp.minimum(useful / (sm_count * waves), 1.0)
