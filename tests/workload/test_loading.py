"""Reading `config.json`: what is understood, and one clear sentence for all the rest."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factorgraph.errors import FactorGraphError
from factorgraph.paths import data_root
from factorgraph.workload import list_models, load_model

BUNDLED = {file.stem: json.loads(file.read_text()) for file in sorted(data_root("models").glob("*.json"))}


def written(folder: Path, config) -> Path:
    file = folder / "config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return file


def changed(name: str, **fields) -> dict:
    return {key: value for key, value in (BUNDLED[name] | fields).items() if value != "drop"}


def test_a_model_comes_by_name_file_folder_or_itself(tmp_path):
    by_name = load_model("llama-3.1-8b")
    file = written(tmp_path, BUNDLED["llama-3.1-8b"])
    assert load_model(file).name == load_model(str(tmp_path)).name == tmp_path.name
    assert load_model(file).parameter_count == by_name.parameter_count
    assert load_model(by_name) is by_name


def test_a_users_own_model_is_found_first(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.json").write_text(json.dumps(changed("llama-3.1-8b", num_hidden_layers=2)))
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    assert "mine" in list_models()
    assert load_model("mine").layers == 2


def test_a_byte_order_mark_does_no_harm(tmp_path):
    file = written(tmp_path, "\ufeff" + json.dumps(BUNDLED["qwen3-8b"]))
    assert load_model(file).layers == 36


def test_the_decoder_inside_a_vision_model_is_read_and_the_tower_named(tmp_path):
    decoder = changed("gemma-3-27b", vocab_size="drop", max_position_embeddings="drop", sliding_window_pattern="drop")
    file = written(
        tmp_path, {"model_type": "gemma3", "text_config": decoder, "vision_config": {"depth": 27}, "eos_token_id": 1}
    )
    model = load_model(file)
    assert model.parameter_count == load_model("gemma-3-27b").parameter_count
    assert model.ignored == ("vision_config: vision tower",)
    assert model.unread_fields == ()


def test_unread_fields_are_named(tmp_path):
    model = load_model(written(tmp_path, changed("llama-3.1-8b", novel_trick=3, rope_theta=5e5)))
    assert model.unread_fields == ("novel_trick",)


def test_heads_are_one_to_one_where_llama_does_not_say(tmp_path):
    model = load_model(written(tmp_path, changed("llama-2-7b", num_key_value_heads="drop")))
    assert model.parameter_count == load_model("llama-2-7b").parameter_count


def test_listed_layer_types_go_before_the_familys_habit(tmp_path):
    kinds = ["full_attention"] * 23 + ["sliding_attention"]
    model = load_model(written(tmp_path, changed("gpt-oss-20b", layer_types=kinds)))
    assert model.sliding_layers == 1


def test_dense_layers_stand_where_experts_do_not(tmp_path):
    step = load_model("deepseek-v3").decode(batch=1, context=1)
    counts = {row["kernel"]: row["launches"] for row in step.table()}
    assert (counts["gate_up_proj"], counts["experts_gate_up_proj"], counts["shared_down_proj"]) == (3, 58, 58)
    every_other = load_model(written(tmp_path, changed("qwen3-30b-a3b", decoder_sparse_step=2, mlp_only_layers=[1])))
    assert [part.layers for part in every_other.feedforwards] == [25, 23]


@pytest.mark.parametrize(
    ("quantization", "weights"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "fp4"),
        (None, "bf16"),
    ],
)
def test_weights_are_the_checkpoints_unless_stated(tmp_path, quantization, weights):
    model = load_model(written(tmp_path, changed("llama-3.1-8b", quantization_config=quantization)))
    assert model.decode(batch=1, context=1).weights == weights
    assert model.decode(batch=1, context=1, weights="bf16").weights == "bf16"
    assert bool(model.ignored) == bool(quantization and "ignore" in quantization)


def test_quantisation_stated_in_a_file_beside_is_read(tmp_path):
    written(tmp_path, BUNDLED["llama-3.1-70b"])
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    assert load_model(tmp_path).checkpoint_weights == "fp8"


def test_weights_without_a_kernel_must_be_stated_anew(tmp_path):
    model = load_model(written(tmp_path, changed("llama-3.1-8b", quantization_config={"quant_method": "awq"})))
    with pytest.raises(FactorGraphError, match=r"stores weights as awq.*state weights="):
        model.decode(batch=1, context=1)
    assert model.decode(batch=1, context=1, weights="fp8").weights == "fp8"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "no JSON text"),
        ("[]", "holds a JSON list"),
        ("[" * 100_000, "nested too deeply"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "no JSON text"),
        ("{}", "field model_type.*missing"),
        (changed("llama-3.1-8b", model_type="lama"), "unknown model_type 'lama'; did you mean 'llama'"),
        (changed("llama-3.1-8b", model_type=3), "field model_type.*no text"),
        (changed("llama-3.1-8b", hidden_size="drop"), "field hidden_size is missing"),
        (changed("llama-3.1-8b", hidden_size=-4096), "field hidden_size is -4096: .*greater than 0"),
        (changed("llama-3.1-8b", hidden_size=float("nan")), "field hidden_size is nan"),
        (changed("llama-3.1-8b", hidden_size="4096"), "field hidden_size is '4096'"),
        (changed("llama-3.1-8b", num_hidden_layers=10**9), "field num_hidden_layers"),
        (changed("llama-3.1-8b", num_attention_heads=48), "hidden_size 4096 is no multiple"),
        (changed("llama-3.1-8b", num_key_value_heads=5), "32 query heads cannot be shared among 5"),
        (changed("llama-3.1-8b", num_local_experts=8), "num_local_experts means experts"),
        (changed("llama-3.1-8b", is_encoder_decoder=True), "is_encoder_decoder means an encoder"),
        (changed("deepseek-v3", index_topk=2048), "index_topk means sparse attention"),
        (changed("mixtral-8x7b", num_experts_per_tok=9), "cannot be sent to 9 of 8 experts"),
        (changed("gpt-oss-20b", layer_types=["linear_attention"] * 24), "layer_types names 'linear_attention'"),
        (changed("gpt-oss-20b", layer_types=["full_attention"]), "layer_types has 1 entries for 24 layers"),
        (changed("gpt-oss-20b", layer_types=["sliding_attention"] * 24, sliding_window=None), "sliding_window is not"),
        (changed("minimax-m2.5", attn_type_list=[0] * 62), "field attn_type_list.0 is 0"),
        ({"model_type": "gemma3"}, "field text_config"),
    ],
)
def test_a_faulty_file_is_answered_in_one_sentence(tmp_path, config, sentence):
    with pytest.raises(FactorGraphError, match=sentence) as error:
        load_model(written(tmp_path, config))
    assert str(tmp_path) in str(error.value)


def test_what_is_no_model_is_answered_in_one_sentence(tmp_path):
    for given_model, sentence in [
        ("llama-3.1-8", "unknown model 'llama-3.1-8'; did you mean 'llama-3.1-8b'"),
        ("meta-llama/Llama-3.1-8B", "did you mean 'llama-3.1-8b'"),
        (tmp_path, "holds no config.json"),
        (tmp_path / "none", "there is no file"),
        ("none.json", "there is no file"),
        (3, "not int"),
        (None, "not NoneType"),
    ]:
        with pytest.raises(FactorGraphError, match=sentence):
            load_model(given_model)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(FactorGraphError, match="no JSON text"):
        load_model(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_mutated_file_loads_or_is_refused(tmp_path_factory, data):
    config = dict(data.draw(st.sampled_from(list(BUNDLED.values()))))
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=3, unique=True)):
        if data.draw(st.booleans()):
            del config[key]
        else:
            config[key] = data.draw(json_values)
    config |= data.draw(st.dictionaries(st.text(max_size=8), json_values, max_size=2))
    file = written(tmp_path_factory.getbasetemp(), config)
    try:
        model = load_model(file)
        assert 0 < model.active_parameter_count <= model.parameter_count
        assert model.weight_bytes(weights="bf16") > 0
    except FactorGraphError:
        pass
