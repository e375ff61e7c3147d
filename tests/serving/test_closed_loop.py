"""Serving in closed form: the known traps, each with its right value from a second route."""

import numpy as np
import pytest
import xarray as xr

import factorgraph as fg
from factorgraph.serving.deployment import Deployment, deploy

GRAPH = fg.engine_step_graph()
H100, H200, B200 = (fg.load_sku(name) for name in ("h100-sxm", "h200-sxm", "b200"))
LLAMA_8B, LLAMA_70B = fg.load_model("llama-3.1-8b"), fg.load_model("llama-3.1-70b")
VLLM, SGLANG = fg.load_engine("vllm"), fg.load_engine("sglang")


def run(one: Deployment, step, *outputs: str) -> list[float]:
    found = fg.predict(GRAPH, one.sku, step, outputs=outputs or ("t_step",))
    return [float(found[name]) for name in outputs or ("t_step",)]


def decode(one: Deployment, batch: int, context: float) -> float:
    return run(one, one.decode(batch=batch, context=context))[0]


def serve(sku=H100, model=LLAMA_8B, *, requests=64, input=1024, output=512, engine=VLLM, **settings) -> xr.Dataset:
    return fg.serve(GRAPH, sku, model, engine=engine, requests=requests, input=input, output=output, **settings)


# --- the step ---


def test_a_mixed_step_is_one_set_of_products_over_all_its_tokens():
    one = deploy(H100, LLAMA_8B, VLLM)
    mixed = one.mixed(decode_batch=64, context=1024, chunk=512, prefix=0)
    values = mixed.values()
    layers = [name for name in mixed.coords["gemm"] if name != "lm_head"]
    rows = dict(zip(mixed.coords["gemm"], values["m"], strict=True))
    assert all(rows[name] == 64 + 512 for name in layers)
    alone = one.decode(batch=64, context=1024)
    assert values["launches"] == alone.values()["launches"]
    # The weights of 32 layers are read once, not twice: the sum of both steps is above by at least that.
    prefill = run(one, one.mixed(decode_batch=1, context=1, chunk=512, prefix=0))[0]
    weights = 2 * (LLAMA_8B.parameter_count - 2 * 128256 * 4096)
    assert decode(one, 64, 1024) + prefill - run(one, mixed)[0] > 0.5 * weights / H100.dram_bandwidth


def test_a_mixed_step_costs_more_than_its_decodes_and_its_prompt_at_peak():
    one = deploy(H100, LLAMA_8B, VLLM)
    both = run(one, one.mixed(decode_batch=64, context=1024, chunk=4096, prefix=0))[0]
    flop = 2 * 4096 * (LLAMA_8B.parameter_count - 2 * 128256 * 4096)
    assert both > decode(one, 64, 1024)
    assert both > flop / H100.peak_flops("bf16")


@pytest.mark.parametrize("sku", [H100, H200, B200], ids=lambda sku: sku.name)
def test_decode_at_long_context_is_bound_by_the_cache(sku):
    one = deploy(sku, LLAMA_8B, VLLM)
    cache = 16 * 100_000 * 32 * 2 * 8 * 128 * 2  # sequences, tokens, layers, keys and values, heads, dim, BF16
    t_step, t_attention = run(one, one.decode(batch=16, context=100_000), "t_step", "t_attention_total")
    assert t_attention >= cache / sku.dram_bandwidth
    assert t_attention < 1.5 * cache / sku.dram_bandwidth
    assert t_attention > 0.5 * t_step


def test_a_small_prefill_has_a_floor():
    one = deploy(H100, LLAMA_8B, VLLM)
    few, more = (run(one, one.mixed(decode_batch=1, context=512, chunk=tokens, prefix=0))[0] for tokens in (8, 64))
    weights = 2 * (LLAMA_8B.parameter_count - 2 * 128256 * 4096)
    assert few > weights / H100.dram_bandwidth
    assert more < 1.1 * few
    added = few - decode(one, 1, 512)
    assert added > float(GRAPH.parameters["t_host.per_chunk"])


@pytest.mark.parametrize("context", [512, 8192, 65536])
@pytest.mark.parametrize("model", [LLAMA_8B, LLAMA_70B], ids=lambda model: model.name)
def test_h200_is_never_slower_than_h100_at_decode(model, context):
    batches = np.array([1.0, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    times = []
    for sku in (H100, H200):
        one = deploy(sku, model, VLLM, tp=4)
        steps = [one.decode(batch=int(batch), context=context) for batch in batches]
        times.append(fg.predict(GRAPH, sku, steps, outputs=["t_step"]).t_step.values)
    assert (times[1] < times[0]).all()


def test_more_gpus_do_not_take_the_collectives_to_nothing():
    totals = []
    for tp in (1, 2, 4, 8):
        one = deploy(H100, LLAMA_8B, VLLM, tp=tp)
        totals.append(run(one, one.decode(batch=16, context=1024), "t_collective_total")[0])
    assert totals[0] == 0.0
    assert totals == sorted(totals)
    # After attention and after the feed-forward layer, 32 times, GPUs wait for each other.
    assert totals[3] > 2 * 32 * 1e-6


def test_blocks_of_fp4_are_quantised_by_kernels_of_their_own():
    narrow, wide = (deploy(B200, LLAMA_70B, VLLM, tp=2, weights=weights) for weights in ("fp4", "fp8"))
    assert narrow.launches - wide.launches == 2 * 80


def test_distinct_experts_bound_what_a_mixture_reads():
    model = fg.load_model("mixtral-8x7b")
    one = deploy(H100, model, VLLM, tp=4)
    expert = 3 * 4096 * 14336 * 2 / 4
    for batch in (1, 64):
        step = one.decode(batch=batch, context=512)
        names, values = step.coords["gemm"], step.values()
        read = sum(
            values["gemm_groups"][i] * values["n"][i] * values["k"][i] * values["weight_element_size"][i]
            for i, name in enumerate(names)
            if name.startswith("experts_")
        )
        assert read / expert == pytest.approx(8 * (1 - 0.75**batch), rel=1e-5)


def test_whole_experts_read_as_much_and_move_less():
    model = fg.load_model("deepseek-r1")
    split = Deployment(H200, model, SGLANG, 8, "fp8", "bf16")
    whole = Deployment(H200, model, SGLANG, 8, "fp8", "bf16", expert_parallel=8)
    one, other = (deployment.decode(batch=64, context=1024).values() for deployment in (split, whole))
    flop = [2 * v["m"] * v["n"] * v["k"] * v["gemm_groups"] for v in (one, other)]
    np.testing.assert_allclose(flop[0], flop[1], rtol=1e-5)
    assert (other["light_bytes"] <= one["light_bytes"]).all()
    assert other["light_bytes"].sum() < one["light_bytes"].sum()


# --- the loop ---


def test_one_client_waits_for_nobody():
    one = deploy(H100, LLAMA_8B, VLLM)
    out = serve(requests=1)
    context = 1024 + 256
    assert float(out.tpot[0]) == pytest.approx(decode(one, 1, context), rel=1e-5)
    added = run(one, one.mixed(decode_batch=1, context=context, chunk=1024, prefix=0))[0] - decode(one, 1, context)
    assert float(out.t_prefill[0]) == pytest.approx(added, rel=1e-4)
    assert float(out.t_queue[0]) == 0.0


@pytest.mark.parametrize("engine", fg.list_engines())
@pytest.mark.parametrize("requests", [1, 16, 256, 4096])
def test_work_is_conserved(engine, requests):
    """Little's law: clients = throughput x time of a request, for lengths that do not cluster."""
    inputs = np.random.default_rng(0).integers(512, 1536, 200)
    out = serve(H100, LLAMA_8B, engine=engine, requests=requests, input=inputs, output=256)
    requests_a_second = float(out.throughput[0]) / 256
    assert requests_a_second * float(out.t_request[0]) == pytest.approx(requests, rel=1e-3)
    step, prefill, running = (float(out[name][0]) for name in ("t_decode", "t_prefill", "running"))
    slot = running * prefill + 256 * step + float(out.t_lag[0])
    assert requests_a_second == pytest.approx(running / slot, rel=1e-4)


def test_the_parts_add_up_to_the_request():
    out = serve(["h100-sxm", "b200"], LLAMA_70B, requests=[1, 32, 512], tp=4, weights="fp8")
    np.testing.assert_allclose(out.t_part.sum("part"), out.t_request, rtol=1e-4)
    assert (out.t_part > -1e-4).all()
    np.testing.assert_allclose(out.t_request, out.ttft + 512 * out.tpot, rtol=1e-5)


def test_a_full_cache_queues():
    one = deploy(H100, LLAMA_70B, VLLM, tp=2)
    out = serve(H100, LLAMA_70B, tp=2, requests=[4, 4096])
    room = one.kv_pool / one.kv_bytes_per_token / (1024 + 256)
    assert float(out.running[1]) == pytest.approx(room, rel=1e-5)
    assert float(out.t_queue[0]) == 0.0
    assert float(out.t_queue[1]) > float(out.tpot[1]) * 512
    # Past a full cache throughput stands still.
    more = serve(H100, LLAMA_70B, tp=2, requests=8192)
    assert float(more.throughput[0]) == pytest.approx(float(out.throughput[1]), rel=1e-4)


def test_cache_of_a_token():
    one = deploy(H100, LLAMA_70B, VLLM, tp=2)
    assert one.kv_bytes_per_token == 80 * 2 * 8 * 128 * 2 / 2
    assert one.weight_bytes == pytest.approx(70.55e9 * 2 / 2, rel=1e-3)


def test_more_clients_take_longer_and_get_more_done():
    out = serve(requests=[1, 2, 4, 8, 16, 32, 64, 128])
    assert (np.diff(out.tpot) > 0).all()
    assert (np.diff(out.throughput) > 0).all()
    assert (out.throughput <= 128 / out.t_decode).all()


def test_energy_is_bounded_by_the_caps():
    out = serve(requests=[8], tp=4)
    assert float(out.energy_per_token_bound[0]) == pytest.approx(4 * 700.0 / float(out.throughput[0]))
    assert "at most" in out.energy_per_token_bound.attrs["long_name"]


def test_long_answers_weigh_more_in_the_context():
    short_and_long = serve(input=[100, 100], output=[100, 1900], requests=64)
    alike = serve(input=100, output=1000, requests=64)
    # E[o (i + o/2)]/E[o] is 1005 tokens against 600.
    assert float(short_and_long.t_decode[0]) > float(alike.t_decode[0])
    one = deploy(H100, LLAMA_8B, VLLM)
    context = (100 * 150 + 1900 * 1050) / 2000
    assert float(short_and_long.t_decode[0]) == pytest.approx(decode(one, 64, context), rel=1e-4)


def test_uneven_prompts_cost_more_attention_than_even_ones():
    even = serve(input=[4000, 4000, 4000], output=[100, 100, 101], requests=8)
    uneven = serve(input=[100, 100, 11800], output=[100, 100, 101], requests=8)
    assert float(uneven.t_prefill[0]) > float(even.t_prefill[0])


def test_prefill_first_lets_equal_requests_wait_for_the_wave():
    waves, chunks = (serve(engine=engine, requests=32) for engine in ("sglang", "vllm"))
    assert float(waves.ttft[0]) > 3 * float(chunks.ttft[0])
    assert float(waves.tpot[0]) < float(chunks.tpot[0])


@pytest.mark.parametrize("variant", ["per-kernel", "base"])
def test_any_step_graph_can_be_served(variant):
    graph = fg.step_graph(variant)
    out = fg.serve(graph, H100, LLAMA_8B, engine="vllm", requests=[1, 64], input=1024, output=512)
    step = fg.predict(graph, H100, LLAMA_8B.decode(batch=1, context=1280), outputs=["t_step"])
    assert float(out.t_decode[0]) == pytest.approx(float(step.t_step), rel=1e-4)
    np.testing.assert_allclose(out.t_part.sum("part"), out.t_request, rtol=1e-4)


def test_cards_side_by_side_are_the_cards_alone():
    both = serve([H100, B200], requests=[1, 64])
    for card in (H100, B200):
        alone = serve(card, requests=[1, 64])
        np.testing.assert_allclose(both.tpot.sel(sku=card.name), alone.tpot, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"requests": 0}, "requests is 0; it must be numbers of 1 or more"),
        ({"requests": [1.5]}, "give whole numbers of clients"),
        ({"requests": [4, 4]}, "each once"),
        ({"input": "long"}, "input is 'long'"),
        ({"input": float("nan")}, "input is nan"),
        ({"input": [1, 2], "output": [1, 2, 3]}, "input has 2 lengths and output 3"),
        ({"input": 200_000}, "has 131072 positions"),
        ({"engine": "ollama"}, "unknown engine 'ollama'"),
        ({"tp": 3}, "tp=3 does not divide"),
        ({"weights": "fp5"}, "fp5"),
        ({"model": LLAMA_70B}, "leaves no room for a cache"),
        ({"sku": "a100-sxm4-80gb", "weights": "fp8"}, "multiply in fp8"),
        ({"sku": []}, "give each card once"),
        ({"requests_per_client": 0.0}, "requests_per_client is 0.0"),
    ],
)
def test_mistakes_are_said_in_one_sentence(settings, complaint):
    with pytest.raises(fg.FactorGraphError, match=complaint) as error:
        serve(**settings)
    assert "\n" not in str(error.value)


def test_a_graph_of_something_else_is_refused():
    with pytest.raises(fg.FactorGraphError, match="gives no t_step"):
        fg.serve(fg.serving_graph(), H100, LLAMA_8B, engine="vllm", requests=1, input=8, output=8)
    with pytest.raises(fg.UnknownNameError, match="unknown serving fit 'abroad'"):
        fg.engine_step_graph(constants="abroad")


@pytest.mark.parametrize(("clients", "within"), [(1, 0.01), (16, 0.05)])
def test_a_replay_without_a_client_comes_to_the_same(clients, within):
    """Event by event and in closed form: the same steps give the same throughput."""
    graph, random = fg.step_graph("base"), np.random.default_rng(0)
    inputs, outputs = random.integers(256, 1024, 40 * clients), random.integers(64, 192, 40 * clients)
    requests = fg.make_requests(np.zeros(len(inputs)), inputs, outputs)
    policy = VLLM.policy()
    replayed = fg.replay_on_card(graph, H100, LLAMA_8B, requests, policy, closed_loop=clients)
    tokens_a_second = outputs.sum() / float(replayed.finish.max())
    prompt_loop = fg.serving_graph().with_parameters({"t_lag.t_client": 1e-9})
    out = fg.serve(
        graph, H100, LLAMA_8B, engine="vllm", requests=clients, input=inputs, output=outputs, loop=prompt_loop
    )
    assert float(out.throughput[0]) == pytest.approx(tokens_a_second, rel=within)
