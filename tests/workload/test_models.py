"""Sizes of models, against what their makers publish."""

import json

import pytest

import factorgraph.workload.loading as loading
from factorgraph.workload import list_models, load_model

# Parameters in billions: total, and active where the source says; each from the model card unless named otherwise.
PUBLISHED = {
    "llama-2-7b": 6.74,
    "llama-3.1-8b": 8.03,
    "llama-3.1-70b": 70.6,
    "llama-3.1-405b": 405.0,
    "llama-3.2-1b": 1.23,
    "llama-3.3-70b": 70.6,
    "mistral-7b-v0.3": 7.25,
    "mistral-nemo": 12.2,
    "mixtral-8x7b": 46.7,  # arXiv:2401.04088
    "mixtral-8x22b": 141.0,  # Mistral AI, "Cheaper, better, faster, stronger"
    "qwen2.5-0.5b": 0.494,
    "qwen2.5-7b": 7.61,
    "qwen3-8b": 8.2,
    "qwen3-32b": 32.8,
    "qwen3-30b-a3b": 30.5,
    "qwen3-235b-a22b": 235.0,
    "gemma-2-9b": 0.918 + 8.324,  # arXiv:2408.00118, table 2
    "gemma-3-27b": 1.416 + 25.600,  # arXiv:2503.19786, table 1, vision tower aside
    "phi-3-mini": 3.82,
    "phi-4": 14.7,
    "deepseek-v2-lite": 15.7,
    "deepseek-v3": 671.0,
    "deepseek-r1": 671.0,
    "kimi-k2": 1030.0,
    "gpt-oss-20b": 20.91,  # arXiv:2508.10925, table 1
    "gpt-oss-120b": 116.83,
    "minimax-m2.5": 229.0,
}

# Active parameters; the sources differ on whether the embedding table, of which a token uses one row, is among them.
PUBLISHED_ACTIVE = {
    "mixtral-8x7b": (12.9, "with embedding"),
    "mixtral-8x22b": (39.0, "with embedding"),
    "qwen3-30b-a3b": (3.3, "with embedding"),
    "qwen3-235b-a22b": (22.0, "with embedding"),
    "deepseek-v2-lite": (2.4, "without embedding"),
    "deepseek-v3": (37.0, "without embedding"),
    "kimi-k2": (32.0, "without embedding"),
    "gpt-oss-20b": (3.61, "without embedding"),
    "gpt-oss-120b": (5.13, "without embedding"),
}

# Bytes of KV cache a token in BF16, arXiv:2505.09343, table 1.
PUBLISHED_KV = {"deepseek-v3": 70_272, "llama-3.1-405b": 516_096}


def test_every_bundled_model_has_a_published_size():
    assert set(list_models()) >= PUBLISHED.keys()
    bundled = {file.stem for file in loading.search_path("models").__next__().glob("*.json")}
    assert bundled == PUBLISHED.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_is_the_published_one(name):
    model = load_model(name)
    assert model.parameter_count == pytest.approx(PUBLISHED[name] * 1e9, rel=0.01)
    assert model.unread_fields == ()


@pytest.mark.parametrize("name", PUBLISHED_ACTIVE)
def test_active_parameter_count_is_the_published_one(name):
    model = load_model(name)
    published, convention = PUBLISHED_ACTIVE[name]
    embedding = model.vocab_size * model.hidden_size if convention == "without embedding" else 0
    assert model.active_parameter_count - embedding == pytest.approx(published * 1e9, rel=0.025)


def test_dense_models_use_all_their_parameters():
    model = load_model("llama-3.1-8b")
    assert model.active_parameter_count == model.parameter_count


@pytest.mark.parametrize("name", PUBLISHED_KV)
def test_kv_bytes_a_token_are_the_published_ones(name):
    step = load_model(name).decode(batch=1, context=1000, tp=1)
    assert float(step.values()["kv_bytes_per_token"]) == PUBLISHED_KV[name]


@pytest.mark.parametrize(("name", "gibibytes"), [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)])
def test_weight_bytes_are_the_published_checkpoint_size(name, gibibytes):
    # arXiv:2508.10925, table 1
    assert load_model(name).weight_bytes() == pytest.approx(gibibytes * 2**30, rel=0.01)


def test_weight_bytes_shrink_with_the_format_but_not_in_embedding_and_head():
    model = load_model("llama-3.1-8b")
    tables = 2 * model.vocab_size * model.hidden_size
    matrices = model.parameter_count - tables - 65 * 4096
    assert model.weight_bytes(weights="bf16") == 2 * (matrices + tables)
    assert model.weight_bytes(weights="fp8") == matrices + 2 * tables
    assert model.weight_bytes(weights="fp4") == 0.5625 * matrices + 2 * tables
    assert model.weight_bytes(weights="fp8", tp=8) == model.weight_bytes(weights="fp8") / 8


def test_sliding_layers_follow_the_papers():
    gemma3, gemma2, gpt_oss = map(load_model, ("gemma-3-27b", "gemma-2-9b", "gpt-oss-120b"))
    assert (gemma3.sliding_layers, gemma3.sliding_window) == (62 - 10, 1024)  # five local layers to one global
    assert (gemma2.sliding_layers, gemma2.sliding_window) == (21, 4096)
    assert (gpt_oss.sliding_layers, gpt_oss.sliding_window) == (18, 128)


def test_bundled_files_name_their_source():
    for folder in loading.search_path("models"):
        for file in folder.glob("*.json"):
            assert json.loads(file.read_text())["_source"].startswith("config.json of huggingface.co/")
