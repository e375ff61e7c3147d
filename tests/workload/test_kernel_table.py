"""The kernel table of a step, against closed forms, enumeration and finite differences."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorgraph.errors import FactorGraphError
from factorgraph.labelled import Source
from factorgraph.variables import vocabulary
from factorgraph.workload import TENSOR_TYPES, list_models, load_model, mean_attended, touched_experts

LLAMA = load_model("llama-3.1-8b")


def totals(step, quantity, plate=None, kernels=None):
    """Sum of a quantity over a step's launches, in double precision."""
    return sum(
        row["launches"] * row[quantity]
        for row in step.table()
        if plate in (None, row["plate"]) and (kernels is None or row["kernel"] in kernels)
    )


def row(step, kernel):
    return next(row for row in step.table() if row["kernel"] == kernel)


def test_decode_flop_are_two_a_parameter_and_token():
    step = LLAMA.decode(batch=64, context=2048)
    multiplied = LLAMA.parameter_count - 128256 * 4096 - 65 * 4096  # embedding table and norms multiply nothing
    assert totals(step, "flop", "gemm") == pytest.approx(2 * multiplied * 64, rel=1e-6)
    assert totals(step, "flop", "attention") == pytest.approx(4 * 64 * 2048 * 32 * 128 * 32, rel=1e-6)


def test_decode_reads_every_weight_and_the_whole_cache_once():
    step = LLAMA.decode(batch=64, context=2048)
    values = step.values()
    in_matrices = (
        values["gemm_count"] * values["gemm_groups"] * values["n"] * values["k"] * values["weight_element_size"]
    )
    embedding = 2 * 128256 * 4096
    assert float(in_matrices.sum()) == pytest.approx(float(values["weight_bytes"]) - embedding, rel=1e-6)
    cache = 64 * 2048 * 131072
    queries_and_results = 64 * 32 * 2 * (32 * 128) * 2
    assert totals(step, "bytes", "attention") == pytest.approx(cache + queries_and_results, rel=1e-6)


def test_prefill_attention_is_a_triangle():
    prefill = LLAMA.prefill(batch=2, prompt=1000)
    pairs = sum(range(1, 1001))
    assert totals(prefill, "flop", "attention") == pytest.approx(4 * 2 * pairs * 32 * 128 * 32, rel=1e-6)
    cache, ends = 2 * 1000 * 2 * 8 * 128 * 2, 2 * 1000 * 2 * 32 * 128 * 2
    assert row(prefill, "attention_prefill")["bytes"] == pytest.approx(cache + ends, rel=1e-6)
    with_prefix = LLAMA.prefill(batch=2, prompt=1000, prefix=500)
    pairs = sum(range(501, 1501))
    assert totals(with_prefix, "flop", "attention") == pytest.approx(4 * 2 * pairs * 32 * 128 * 32, rel=1e-6)


def test_prompt_and_context_are_two_names_of_one_length():
    by_prompt, by_context = LLAMA.prefill(batch=64, prompt=2048), LLAMA.prefill(batch=64, context=2048)
    assert eqx.tree_equal(by_prompt, by_context)


@pytest.mark.parametrize(("new", "prefix", "window"), [*itertools.product((1, 5, 40), (0, 3, 30), (1, 8, 33, 100))])
def test_mean_attended_counts_what_a_window_leaves(new, prefix, window):
    counted = [min(prefix + position + 1, window) for position in range(new)]
    assert float(mean_attended(float(new), float(prefix), window)) == pytest.approx(np.mean(counted), rel=1e-6)


def test_a_long_prefix_costs_no_precision():
    assert float(mean_attended(jnp.float32(1), jnp.float32(100_000), 200_000)) == 100_001


def test_prefill_slides_over_a_band():
    model = load_model("gpt-oss-20b")
    step = model.prefill(batch=2, prompt=1000, prefix=50)
    pairs = sum(min(position, 128) for position in range(51, 1051))
    assert row(step, "attention_prefill_sliding")["flop"] == pytest.approx(4 * 2 * pairs * 64 * 64, rel=1e-6)
    assert row(step, "attention_prefill")["flop"] == pytest.approx(4 * 2 * sum(range(51, 1051)) * 64 * 64, rel=1e-6)


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 2, 1), (4, 2, 3), (5, 1, 4), (5, 3, 2), (3, 3, 2)])
def test_touched_experts_are_the_mean_over_all_choices(experts, top_k, tokens):
    choices = list(itertools.combinations(range(experts), top_k))
    distinct = [len(set().union(*chosen)) for chosen in itertools.product(choices, repeat=tokens)]
    assert touched_experts(experts, top_k, float(tokens)) == pytest.approx(np.mean(distinct))


def test_grouped_choices_touch_as_many_experts():
    """DeepSeek's router first takes 4 of 8 groups, then 8 experts in those."""
    generator, tokens, seen = np.random.default_rng(0), 20, []
    for _ in range(2000):
        scores = generator.random((tokens, 8, 32))
        groups = np.argsort(generator.random((tokens, 8)), axis=1)[:, :4]
        kept = np.full_like(scores, -1.0)
        np.put_along_axis(kept, groups[:, :, None], np.take_along_axis(scores, groups[:, :, None], 1), 1)
        seen.append(len(np.unique(np.argsort(kept.reshape(tokens, -1), axis=1)[:, -8:])))
    assert touched_experts(256, 8, float(tokens)) == pytest.approx(np.mean(seen), abs=4 * np.std(seen) / 2000**0.5)


def test_experts_get_every_row_once_and_lie_in_memory_once():
    model = load_model("mixtral-8x7b")
    one = model.decode(batch=1, context=1).values()
    many = model.decode(batch=1000, context=1).values()
    expert = model.decode(batch=1, context=1).coords["gemm"].index("experts_down_proj")
    for values, tokens in ((one, 1), (many, 1000)):
        assert float((values["m"] * values["gemm_groups"])[expert]) == pytest.approx(2 * tokens, rel=1e-5)
    assert float(one["gemm_groups"][expert]) == pytest.approx(2, rel=1e-5)
    assert float(many["gemm_groups"][expert]) == pytest.approx(8, rel=1e-5)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-oss-120b", "gemma-3-27b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_splitting_conserves_work_and_weights(name, phase):
    model = load_model(name)
    whole, split = (getattr(model, phase)(batch=8, context=1500, tp=tp) for tp in (1, 4))
    everywhere = ("router",)
    divided = [kernel for kernel in whole.coords["gemm"] + whole.coords["attention"] if kernel not in everywhere]
    assert 4 * totals(split, "flop", kernels=divided) == pytest.approx(totals(whole, "flop", kernels=divided), rel=1e-6)
    assert whole.coords == split.coords


def test_scarce_key_value_heads_are_replicated():
    step = LLAMA.decode(batch=8, context=1000, tp=16)
    values = step.values()
    assert (float(values["kv_heads"][0]), float(values["q_heads"][0])) == (1, 2)
    assert float(values["kv_bytes_per_token"]) == 131072 / 8
    assert float(values["n"][0]) == (2 + 2) * 128


def test_a_mixed_step_multiplies_once_and_attends_twice():
    mixed = LLAMA.mixed(decode_batch=64, context=2048, chunk=512, prefix=1024)
    decode, prefill = LLAMA.decode(batch=64, context=2048), LLAMA.prefill(batch=1, prompt=512, prefix=1024)
    assert mixed.coords["gemm"] == decode.coords["gemm"]
    assert mixed.coords["attention"] == decode.coords["attention"] + prefill.coords["attention"]
    for plate in ("gemm", "attention"):
        apart = totals(decode, "flop", plate) + totals(prefill, "flop", plate)
        assert totals(mixed, "flop", plate) == pytest.approx(apart, rel=1e-6)
    # Read once, the weights are saved one of their two readings.
    weights = float(decode.values()["weight_bytes"]) - 2 * 128256 * 4096
    saved = totals(decode, "bytes", "gemm") + totals(prefill, "bytes", "gemm") - totals(mixed, "bytes", "gemm")
    assert saved == pytest.approx(weights, rel=1e-6)


def test_sliding_layers_attend_to_the_window():
    model = load_model("gemma-3-27b")
    step = model.decode(batch=4, context=10_000)
    assert row(step, "attention_decode")["launches"] == 10
    assert row(step, "attention_decode_sliding")["launches"] == 52
    kv_len = dict(zip(step.coords["attention"], step.values()["kv_len"].tolist(), strict=True))
    assert kv_len == {"attention_decode": 10_000, "attention_decode_sliding": 1024}
    cache = (10 * 10_000 + 52 * 1024) * 2 * 16 * 128 * 2
    assert float(step.values()["kv_bytes_per_token"]) * 10_000 == pytest.approx(cache, rel=1e-6)


def test_latent_attention_decodes_over_the_latent_and_prefills_over_heads():
    model = load_model("deepseek-v3")
    decode = model.decode(batch=10, context=3000, kv="fp8")
    prefill = model.prefill(batch=1, prompt=1000, prefix=200)
    assert row(decode, "attention_decode")["flop"] == pytest.approx(2 * 10 * 3000 * 128 * (576 + 512), rel=1e-6)
    cache, ends = 10 * 3000 * 576 * 1, 10 * 128 * (576 + 512) * 2
    assert row(decode, "attention_decode")["bytes"] == pytest.approx(cache + ends, rel=1e-6)
    pairs = sum(range(201, 1201))
    assert row(prefill, "attention_prefill")["flop"] == pytest.approx(2 * pairs * 128 * (192 + 128), rel=1e-6)
    # Each cached token is expanded to keys and values anew.
    assert row(prefill, "kv_b_proj")["flop"] == pytest.approx(2 * 1200 * 128 * 256 * 512, rel=1e-6)
    # Absorbed, the same matrix works on queries and results of decoded tokens.
    absorbed = row(decode, "absorb_k")["flop"] + row(decode, "absorb_v")["flop"]
    assert absorbed == pytest.approx(2 * 10 * 128 * 256 * 512, rel=1e-6)
    mixed = model.mixed(decode_batch=10, context=3000, chunk=100)
    assert {"absorb_k", "absorb_v", "kv_b_proj"} <= set(mixed.coords["gemm"])


@pytest.mark.parametrize(("weights", "sizes"), [("fp8", (1.0, 1.0)), ("fp4", (0.5625, 0.5625))])
def test_router_and_head_stay_bf16(weights, sizes):
    step = load_model("qwen3-30b-a3b").decode(batch=4, context=100, weights=weights)
    values = step.values()
    for index, kernel in enumerate(step.coords["gemm"]):
        wide = kernel in ("router", "lm_head")
        assert step.gemm_dtypes[index] == ("bf16" if wide else weights)
        assert TENSOR_TYPES[int(values["gemm_type"][index])] == step.gemm_dtypes[index]
        stated = (float(values["weight_element_size"][index]), float(values["activation_element_size"][index]))
        assert stated == ((2.0, 2.0) if wide else sizes)


def test_gpt_oss_multiplies_four_bit_experts_in_bf16():
    step = load_model("gpt-oss-120b").decode(batch=4, context=100)
    sizes = dict(zip(step.coords["gemm"], step.values()["weight_element_size"].tolist(), strict=True))
    assert set(step.gemm_dtypes) == {"bf16"}
    assert (sizes["experts_down_proj"], sizes["qkv_proj"]) == (4.25 / 8, 2.0)


def test_narrow_weights_cost_two_launches_a_layer():
    wide, narrow = (LLAMA.decode(batch=4, context=100, weights=weights) for weights in ("bf16", "fp8"))
    launches = [sum(row["launches"] for row in step.table()) for step in (wide, narrow)]
    assert launches[1] - launches[0] == 2 * 32


def test_light_kernels_move_what_they_read_and_write():
    step = LLAMA.decode(batch=64, context=2048, tp=2)
    assert row(step, "norm") | {"plate": 0} == {
        "plate": 0, "kernel": "norm", "launches": 65.0, "flop": 0.0, "bytes": 4.0 * 64 * 4096 * 2,
    }  # fmt: skip
    assert row(step, "activation")["bytes"] == 3 * 64 * 7168 * 2
    assert row(step, "kv_write")["bytes"] == 2 * 64 * 2 * 4 * 128 * 2


def test_collectives_stand_still_on_one_gpu():
    alone, four = LLAMA.decode(batch=64, context=2048).values(), LLAMA.decode(batch=64, context=2048, tp=4).values()
    assert alone["collective_count"].tolist() == [0, 0]
    assert four["collective_count"].tolist() == [2 * 32 + 1, 1]
    assert four["ranks"].tolist() == [4, 4]
    assert four["message_bytes"].tolist() == [64 * 4096 * 2, 64 * 128256]


def total_flop(batch, context):
    values = LLAMA.decode(batch=batch, context=context).values()
    gemm = 2 * values["gemm_count"] * values["gemm_groups"] * values["m"] * values["n"] * values["k"]
    heads = values["attention_count"] * values["attn_batch"] * values["q_heads"] * values["q_len"] * values["kv_len"]
    return gemm.sum() + (2 * heads * (values["head_dim"] + values["v_head_dim"])).sum()


def test_derivatives_are_finite_differences():
    by_batch, by_context = jax.grad(total_flop, argnums=(0, 1))(64.0, 2048.0)
    steps = {
        key: LLAMA.decode(batch=key[0], context=key[1]) for key in [(60, 2048), (68, 2048), (64, 2044), (64, 2052)]
    }
    flop = {key: totals(step, "flop") for key, step in steps.items()}
    assert float(by_batch) == pytest.approx((flop[68, 2048] - flop[60, 2048]) / 8, rel=1e-5)
    assert float(by_context) == pytest.approx((flop[64, 2052] - flop[64, 2044]) / 8, rel=1e-4)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "gemma-2-9b"])
def test_every_derivative_is_finite(name):
    def summed(batch, length, prefix):
        model = load_model(name)
        steps = (
            model.decode(batch=batch, context=length),
            model.prefill(batch=batch, prompt=length, prefix=prefix),
            model.mixed(decode_batch=batch, context=length, chunk=length, prefix=prefix),
        )
        return sum(value.sum() for step in steps for value in step.values().values())

    for point in ((1.0, 1.0, 0.0), (64.0, 128.0, 100.0), (500.0, 3000.0, 1000.0)):
        assert all(np.isfinite(jax.grad(summed, argnums=(0, 1, 2))(*point)))


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_rounding_leaves_no_expert_without_a_row(name):
    for batch in range(1, 6):
        values = load_model(name).decode(batch=batch, context=10).values()
        assert float(values["m"].min()) >= 1


def test_steps_are_told_apart_by_their_label():
    steps = [LLAMA.decode(batch=b, context=c, tp=t) for b, c, t in [(1, 9, 1), (2, 9, 1), (1, 8, 1), (1, 9, 2)]]
    steps += [LLAMA.prefill(batch=1, prompt=9), LLAMA.mixed(decode_batch=1, context=9, chunk=9)]
    assert len({step.label for step in steps}) == len(steps)
    assert all(isinstance(step, Source) for step in steps)


def test_numbers_change_without_a_retrace():
    traces = []

    @eqx.filter_jit
    def values(step):
        traces.append(1)
        return step.values()

    small, large = (LLAMA.decode(batch=batch, context=context) for batch, context in ((1, 1), (256, 8192)))
    assert values(small)["m"].tolist() == [1] * 5
    assert values(large)["m"].tolist() == [256] * 5
    assert len(traces) == 1


def test_a_sweep_is_the_loop():
    batches = jnp.array([1.0, 8.0, 64.0])
    swept = jax.vmap(lambda batch: LLAMA.decode(batch=batch, context=2048).values())(batches)
    for index, batch in enumerate((1, 8, 64)):
        one = LLAMA.decode(batch=batch, context=2048).values()
        assert all(np.allclose(swept[name][index], value) for name, value in one.items())
    along = LLAMA.decode(batch=np.array([1, 8, 64]), context=2048).values()
    assert along["m"].shape == (3, 5)


@pytest.mark.parametrize("name", list_models())
def test_values_fit_the_vocabulary(name):
    known, model = vocabulary(), load_model(name)
    lengths = {"context": 100, "tp": 2}
    for step in (model.decode(batch=4, **lengths), model.prefill(**lengths), model.mixed(decode_batch=4, **lengths)):
        coords = step.coords
        for variable, value in step.values().items():
            if variable in known:
                plates = known[variable].plates
                assert value.shape == tuple(len(coords[plate]) for plate in plates), variable
                assert all(map(known[variable].domain.contains, np.ravel(value))), variable
            assert np.isfinite(value).all(), variable
        assert len(step.gemm_dtypes) == len(coords["gemm"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"batch": 0}, "batch is 0; it must be finite and 1 or more"),
        ({"batch": 2.5}, "batch is 2.5; it must be a whole number"),
        ({"batch": True}, "batch is True; it must be a number"),
        ({"batch": "64"}, "batch is '64'; it must be a number"),
        ({"batch": None}, "batch is None"),
        ({"batch": 10**400}, "it must be a number"),
        ({"batch": float("nan")}, "batch is nan"),
        ({"batch": np.array([1, 0])}, "batch is array"),
        ({"batch": jnp.array(-1.0)}, "batch is Array"),
        ({"context": 0}, "context is 0"),
        ({"context": 131_073}, "context is 131073 tokens; model 'llama-3.1-8b' has 131072 positions"),
        ({"tp": 0}, "tp is 0"),
        ({"tp": 2.0}, "tp is 2.0"),
        ({"tp": 3}, "tp=3 does not divide 32 query heads"),
        ({"tp": 64}, "tp=64 does not divide 32 query heads"),
        ({"weights": "fp6"}, "unknown weight format 'fp6'"),
        ({"weights": "mxfp4"}, "quantises experts, and model 'llama-3.1-8b' has none"),
        ({"kv": "fp4"}, "unknown KV cache format 'fp4'"),
    ],
)
def test_impossible_steps_are_answered_in_one_sentence(arguments, sentence):
    with pytest.raises(FactorGraphError, match=sentence):
        LLAMA.decode(**({"batch": 64, "context": 2048} | arguments))


def test_impossible_prompts_and_chunks_are_answered_in_one_sentence():
    for call, sentence in [
        (lambda: LLAMA.prefill(batch=1), "prompt length once"),
        (lambda: LLAMA.prefill(batch=1, prompt=5, context=5), "prompt length once"),
        (lambda: LLAMA.prefill(prompt=100, prefix=-1), "prefix is -1"),
        (lambda: LLAMA.prefill(prompt=100_000, prefix=100_000), "prefix and prompt together is 200000 tokens"),
        (lambda: LLAMA.mixed(decode_batch=1, context=5, chunk=0), "chunk is 0"),
        (lambda: load_model("mixtral-8x7b").decode(batch=1, context=1, tp=64), "tp=64 does not divide 32"),
        (lambda: load_model("deepseek-v3").decode(batch=1, context=1, tp=3), "tp=3 does not divide 128"),
        (lambda: load_model("phi-4").decode(batch=1, context=1, tp=8), "neither divides 10 key-value heads"),
    ]:
        with pytest.raises(FactorGraphError, match=sentence):
            call()
