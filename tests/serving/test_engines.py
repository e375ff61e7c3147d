"""Engine files: what they state, what follows, and what is said of a bad one."""

import pytest

import factorgraph as fg
from factorgraph.paths import data_root
from factorgraph.serving.engine import Stated

ENGINES = fg.list_engines()


def test_the_three_engines_are_there():
    assert set(ENGINES) >= {"vllm", "sglang", "trtllm"}


@pytest.mark.parametrize("name", ENGINES)
def test_every_fact_has_a_source(name):
    engine = fg.load_engine(name)
    facts = [value for _, value in engine if isinstance(value, Stated)]
    assert len(facts) > 12
    assert all(len(fact.source) > 10 for fact in facts)


@pytest.mark.parametrize("name", ENGINES)
def test_policy_says_what_the_file_says(name):
    engine = fg.load_engine(name)
    policy = engine.policy(kv_capacity=1000)
    assert isinstance(policy, fg.Policy)
    assert policy.step_tokens == engine.step_tokens.value
    assert (policy.priority, policy.reserve, policy.kv_capacity) == (engine.priority.value, engine.reserve.value, 1000)


def test_memory_left_to_the_cache():
    h100 = fg.load_sku("h100-sxm")
    memory = 80 * 2**30
    assert fg.load_engine("vllm").kv_pool(h100, 20e9) == pytest.approx(0.9 * memory - 23e9)
    assert fg.load_engine("trtllm").kv_pool(h100, 20e9) == pytest.approx(0.9 * (memory - 23e9))
    assert fg.load_engine("vllm").kv_pool(h100, 1e12) == 0.0


def test_adding_an_engine_is_adding_a_file(tmp_path, monkeypatch):
    folder = tmp_path / "engines"
    folder.mkdir()
    text = (data_root("engines") / "vllm.toml").read_text(encoding="utf-8")
    (folder / "mine.toml").write_text(text.replace("value = 8192", "value = 2048"), encoding="utf-8")
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    assert "mine" in fg.list_engines()
    assert fg.load_engine("mine").step_tokens.value == 2048
    assert fg.load_engine("mine").name == "mine"
    assert fg.load_engine(folder / "mine.toml") == fg.load_engine("mine")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("layer_kernels", "kernels_of_a_layer", "kernels_of_a_layer|layer_kernels"),
        ("value = 8192", 'value = "many"', "step_tokens.value: input should be a valid integer"),
        ('"decode first"', '"whatever"', "priority.value: input should be 'decode first' or 'prefill first'"),
        ("memory_share = {", "memory_share = [", "is no TOML"),
        ('source = "vLLM, --gpu-memory-utilization default" }', 'source = "" }', "memory_share.source"),
    ],
)
def test_a_bad_file_is_said_in_one_sentence(tmp_path, old, new, complaint):
    text = (data_root("engines") / "vllm.toml").read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "bad.toml"
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(fg.FactorGraphError, match=complaint) as error:
        fg.load_engine(file)
    assert "bad.toml" in str(error.value)


def test_unknown_and_missing_engines(tmp_path):
    with pytest.raises(fg.UnknownNameError, match="unknown engine 'vlm'; did you mean 'vllm'"):
        fg.load_engine("vlm")
    with pytest.raises(fg.FactorGraphError, match="cannot be read"):
        fg.load_engine(tmp_path / "none.toml")


def test_a_loaded_engine_comes_back_as_it_is():
    engine = fg.load_engine("sglang")
    assert fg.load_engine(engine) is engine
