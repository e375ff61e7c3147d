"""Settings that every test runs under, and the numbers of one small step for tests that need no card."""

import hypothesis
import pytest

# JAX compiles inside examples, so a time limit for each would measure the compiler.
hypothesis.settings.register_profile("factorgraph", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("factorgraph")


@pytest.fixture
def h100():
    """H100 SXM from its datasheet, as bare values."""
    return {
        "sm_count": 132.0,
        "boost_clock": 1.83e9,
        "sm_clock": 1.83e9,
        "power_cap": 700.0,
        "tdp": 700.0,
        "dram_bandwidth": 3.35e12,
        "l2_capacity": 50 * 2.0**20,
        "l2_partitions": 2.0,
        "ecc_factor": 1.0,
        "async_pipeline": 1.0,
        "launch_class": 1.35,
        "link_latency": 1.0,
        "tensor_memory_per_sm": 0.0,
        "process_energy": 1.0,
        "dram_energy": 30e-12,
        "attention_generation": 3.0,
        "exponentials_per_clock": 16.0,
        "bf16_flop_per_clock": 4096.0,
        "type_rates": [4096.0, 8192.0, 0.0],
        "link_bandwidth": 450e9,
        "link_is_pcie": 0.0,
    }


@pytest.fixture
def small_step():
    """Two GEMMs, one attention, one light kernel, one collective: the shape of a Llama-3.1-8B decode step."""
    return {
        "m": [64.0, 64.0],
        "n": [6144.0, 28672.0],
        "k": [4096.0, 4096.0],
        "gemm_groups": [1.0, 1.0],
        "gemm_count": [32.0, 32.0],
        "gemm_type": [0.0, 0.0],
        "weight_element_size": [2.0, 2.0],
        "activation_element_size": [2.0, 2.0],
        "output_element_size": [2.0, 2.0],
        "quantises": [0.0, 0.0],
        "quantise_library": [0.0, 0.0],
        "attn_batch": [64.0],
        "q_len": [1.0],
        "kv_len": [2048.0],
        "q_heads": [32.0],
        "head_dim": [128.0],
        "v_head_dim": [128.0],
        "kv_token_bytes": [4096.0],
        "kv_heads": [8.0],
        "causal": [0.0],
        "windowed": [0.0],
        "writes_cache": [0.0],
        "attention_count": [32.0],
        "light_bytes": [1e6],
        "light_count": [320.0],
        "message_bytes": [0.0],
        "ranks": [1.0],
        "collective_library": [0.0],
        "collective_count": [0.0],
        "weight_bytes": 16e9,
        "sequences": 64.0,
    }
