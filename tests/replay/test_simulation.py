"""The replay against closed forms of its limits, and against a loop that goes token by token."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.replay import replay, summarise
from factorgraph.replay.policy import Policy
from factorgraph.replay.traces import make_requests

PRIORITIES = ("decode first", "prefill first")


@dataclasses.dataclass(frozen=True)
class Linear:
    """A step time that is linear in the batch, in units of 1/64 s, so that sums of it are exact."""

    base: int = 64
    per_decode: int = 0
    per_context: int = 0
    per_prompt_token: int = 0
    per_pair: int = 0

    def __call__(self, decode_tokens, decode_context, prefill_tokens, prefill_pairs):
        return (
            self.base
            + self.per_decode * decode_tokens
            + self.per_context * decode_context
            + self.per_prompt_token * prefill_tokens
            + self.per_pair * prefill_pairs
        ) / 64


# --- a second route ---------------------------------------------------------------------------------------------------


class Request:
    def __init__(self, number, arrival, input_tokens, output_tokens):
        self.number, self.arrival, self.input, self.output = number, arrival, input_tokens, output_tokens
        self.generated = self.cached = 0
        self.decodes = False
        self.token_times = []
        self.started = None

    @property
    def known(self):
        return self.input + self.generated


def token_by_token(requests, step_time, policy, clients=None):
    """Every sequence is asked in every step. Gives the requests, and decodes and tokens of prompts of each step."""
    columns = (requests[name].values for name in ("arrival", "input_tokens", "output_tokens"))
    every = [Request(i, float(a), int(n), int(m)) for i, (a, n, m) in enumerate(zip(*columns, strict=True))]
    if clients is None:
        coming, unsent = sorted(every, key=lambda r: r.arrival), []
    else:
        coming, unsent = every[:clients], every[clients:]
        for request in coming:
            request.arrival = 0.0
    waiting, running, now, steps = [], [], 0.0, []
    capacity = policy.kv_capacity or float("inf")

    def taken(request):
        if policy.reserve == "whole":
            return request.input + request.output
        return request.known if request.decodes else request.known + 1

    while coming or waiting or running:
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        while policy.reserve == "growing" and sum(map(taken, running)) > capacity:
            last = running.pop()
            last.cached, last.decodes = 0, False
            waiting.insert(0, last)
        decodes = [request for request in running if request.decodes]
        budget = policy.step_tokens - (len(decodes) if policy.priority == "decode first" else 0)
        chunks = []
        for request in running:
            if request not in decodes and budget:
                chunks.append((request, min(budget, request.known - request.cached)))
                budget -= chunks[-1][1]
        while waiting and budget and len(running) < policy.max_sequences:
            if sum(map(taken, running)) + taken(waiting[0]) > capacity:
                break
            request = waiting.pop(0)
            running.append(request)
            request.started = now if request.started is None else request.started
            chunks.append((request, min(budget, request.known)))
            budget -= chunks[-1][1]
        if policy.priority == "prefill first" and chunks:
            decodes = []
        if not chunks and not decodes:
            now = coming[0].arrival
            continue
        now += step_time(
            len(decodes),
            sum(request.known for request in decodes),
            sum(tokens for _, tokens in chunks),
            sum(request.cached + i for request, tokens in chunks for i in range(1, tokens + 1)),
        )
        steps.append([len(decodes), sum(tokens for _, tokens in chunks)])
        for request, tokens in [(request, 1) for request in decodes] + chunks:
            request.cached += tokens
            if request.cached == request.known:
                request.generated, request.decodes = request.generated + 1, True
                request.token_times.append(now)
                if request.generated == request.output:
                    running.remove(request)
                    if unsent:
                        unsent[0].arrival = now
                        coming.append(unsent.pop(0))
    return every, steps


@st.composite
def cases(draw):
    count = draw(st.integers(1, 9))

    def lists(numbers):
        return draw(st.lists(numbers, min_size=count, max_size=count))

    arrival = [quarter / 4 for quarter in lists(st.integers(0, 400))]
    requests = make_requests(arrival, lists(st.integers(1, 40)), lists(st.integers(1, 25)))
    largest = int((requests.input_tokens + requests.output_tokens).max())
    policy = Policy(
        step_tokens=draw(st.integers(4, 64)),
        max_sequences=draw(st.integers(1, 4)),
        priority=draw(st.sampled_from(PRIORITIES)),
        kv_capacity=draw(st.none() | st.integers(largest, 2 * largest)),
        reserve=draw(st.sampled_from(["whole", "growing"])),
    )
    rates = [draw(st.integers(0, 3)) for _ in range(4)]
    return requests, Linear(draw(st.integers(1, 128)), *rates), policy, draw(st.none() | st.integers(1, 5))


@given(cases())
def test_it_is_what_a_loop_over_every_token_gives(case):
    requests, step_time, policy, clients = case
    served = replay(requests, step_time, policy, closed_loop=clients)
    expected, steps = token_by_token(requests, step_time, policy, clients)
    np.testing.assert_allclose(served.arrival, [r.arrival for r in expected], rtol=0, atol=1e-9)
    np.testing.assert_allclose(served.first_token, [r.token_times[0] for r in expected], rtol=0, atol=1e-9)
    np.testing.assert_allclose(served.finish, [r.token_times[-1] for r in expected], rtol=0, atol=1e-9)
    np.testing.assert_allclose(served.queueing, [r.started - r.arrival for r in expected], rtol=0, atol=1e-9)
    runs = zip(served.steps.values, served.decode_tokens.values, served.prefill_tokens.values, strict=True)
    assert [batch for count, *batch in runs for _ in range(count)] == steps


@given(cases())
def test_tokens_are_conserved_and_no_step_is_over_its_budget(case):
    requests, step_time, policy, clients = case
    served = replay(requests, step_time, policy, closed_loop=clients)
    assert (served.decode_tokens + served.prefill_tokens <= policy.step_tokens).all()
    assert (served.decode_tokens <= policy.max_sequences).all()
    assert np.isfinite(served.finish).all()
    if not served.preemptions:
        decoded = int((served.steps * served.decode_tokens).sum())
        assert decoded == int((requests.output_tokens - 1).sum())
        assert int((served.steps * served.prefill_tokens).sum()) == int(requests.input_tokens.sum())
    else:  # who gave way is prefilled again, with what it had generated
        assert int((served.steps * served.prefill_tokens).sum()) > int(requests.input_tokens.sum())


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", PRIORITIES)
def test_one_client_waits_for_its_prefill_and_then_a_step_a_token(priority):
    step_time = Linear(base=64, per_context=1, per_prompt_token=2)
    served = replay(make_requests(np.zeros(3), 100, 20), step_time, Policy(priority=priority), closed_loop=1)
    prefill = step_time(0, 0, 100, 5050)
    decode = np.mean([step_time(1, 100 + token, 0, 0) for token in range(1, 20)])
    np.testing.assert_allclose(served.ttft, prefill)
    np.testing.assert_allclose(served.tpot, decode)
    np.testing.assert_allclose(served.queueing, 0.0)
    np.testing.assert_allclose(served.finish, (prefill + 19 * decode) * np.arange(1, 4))


def test_separate_steps_of_many_clients_conserve_work():
    """N clients whose prompts do not share a step: a round of N requests takes N prefills and osl - 1 decode steps."""
    clients, rounds, prefill, decode = 8, 5, 0.5, 0.125
    policy = Policy(step_tokens=100, max_sequences=clients, priority="prefill first")
    served = replay(
        make_requests(np.zeros(clients * rounds), 100, 21),
        lambda decodes, context, tokens, pairs: prefill if tokens else decode,
        policy,
        closed_loop=clients,
    )
    assert float(served.finish.max()) == rounds * (clients * prefill + 20 * decode)


def test_a_full_cache_queues_clients_by_littles_law():
    """12 clients and a cache for 4: a round of 4 takes 4 prefills and 20 decode steps, and each waits for 3 rounds."""
    clients, fitting, prefill, decode = 12, 4, 0.5, 0.125
    policy = Policy(step_tokens=100, max_sequences=clients, priority="prefill first", kv_capacity=fitting * 121)
    served = replay(
        make_requests(np.zeros(clients * 6), 100, 21),
        lambda decodes, context, tokens, pairs: prefill if tokens else decode,
        policy,
        closed_loop=clients,
    )
    round_time = fitting * prefill + 20 * decode
    assert float(served.finish.max()) == clients * 6 / fitting * round_time
    after_first_wave = (served.finish - served.arrival)[clients:]
    np.testing.assert_allclose(after_first_wave, clients / fitting * round_time)


def test_mixed_steps_of_many_clients_conserve_work():
    """With a time for each token and none for a step, the work is done at its rate however it is put together."""
    served = replay(
        make_requests(np.zeros(60), 64, 32), lambda decodes, context, tokens, pairs: decodes + tokens, closed_loop=6
    )
    assert float(served.finish.max()) == 60 * (64 + 31)


@pytest.mark.parametrize("priority", PRIORITIES)
def test_evenly_spaced_arrivals_below_saturation_do_not_queue(priority):
    requests = make_requests(10.0 * np.arange(50), 10, 5)
    served = replay(requests, lambda *batch: 1.0, Policy(priority=priority))
    np.testing.assert_array_equal(served.queueing, 0.0)
    np.testing.assert_array_equal(served.ttft, 1.0)
    np.testing.assert_array_equal(served.tpot, 1.0)


def test_above_saturation_the_queue_grows_by_the_missing_capacity():
    """One sequence at a time, 5 s each, arriving every 4 s: each waits a second longer than the one before."""
    policy = Policy(max_sequences=1)
    served = replay(make_requests(4.0 * np.arange(200), 10, 5), lambda *batch: 1.0, policy)
    np.testing.assert_allclose(served.queueing, np.arange(200.0))
    assert float(summarise(served).utilisation) == 1.0


def test_a_step_that_decodes_and_prefills_is_one_step():
    served = replay(make_requests([0.0, 3.5], [4, 6], [10, 2]), lambda *batch: 1.0)
    mixed = served.sel(run=(served.decode_tokens > 0) & (served.prefill_tokens > 0))
    assert mixed.run_start.values.tolist() == [4.0]
    assert (int(mixed.decode_tokens[0]), int(mixed.prefill_tokens[0])) == (1, 6)
    # The first request is not held up: it has its tenth token after ten steps.
    assert served.finish.values.tolist() == [10.0, 6.0]


def test_prefill_first_holds_decodes_up():
    policy = Policy(priority="prefill first")
    served = replay(make_requests([0.0, 3.5], [4, 6], [10, 2]), lambda *batch: 1.0, policy)
    assert not ((served.decode_tokens > 0) & (served.prefill_tokens > 0)).any()
    assert served.finish.values.tolist() == [11.0, 6.0]


def test_a_long_prompt_is_cut_into_chunks_that_see_what_was_before():
    policy = Policy(step_tokens=4, max_sequences=4)
    served = replay(make_requests([0.0], 10, 1), lambda *batch: 1.0, policy)
    assert served.prefill_tokens.values.tolist() == [4, 4, 2]
    assert served.prefill_pairs.values.tolist() == [1 + 2 + 3 + 4, 5 + 6 + 7 + 8, 9 + 10]
    assert float(served.ttft[0]) == 3.0


@pytest.mark.parametrize("priority", PRIORITIES)
def test_first_come_first_served(priority):
    rng = np.random.default_rng(0)
    requests = make_requests(rng.permutation(np.arange(200.0)), rng.integers(1, 80, 200), rng.integers(1, 40, 200))
    policy = Policy(step_tokens=64, max_sequences=8, priority=priority, kv_capacity=300)
    served = replay(requests, Linear(base=32, per_context=1), policy).sortby("arrival")
    started = (served.arrival + served.queueing).values
    assert (np.diff(started) >= 0).all()
    assert (np.diff(served.first_token.values) >= 0).all()


@pytest.mark.parametrize(("kv_capacity", "together"), [(3 * 30, 3), (3 * 30 - 1, 2), (2 * 30, 2)])
def test_the_cache_limits_who_decodes_together(kv_capacity, together):
    served = replay(make_requests(np.zeros(12), 10, 20), lambda *batch: 1.0, Policy(kv_capacity=kv_capacity))
    assert int(served.decode_tokens.max()) == together
    assert served.preemptions == 0
    # Waves, each of a prefill and 19 decode steps.
    assert float(served.finish.max()) == 12 / together * 20.0


def test_a_growing_request_gives_way_and_keeps_what_it_has():
    """Two requests of 4 + 8 tokens in a cache of 14: both fit until each holds 7, then the second gives way."""
    policy = Policy(kv_capacity=14, reserve="growing")
    served = replay(make_requests([0.0, 0.0], 4, 8), lambda *batch: 1.0, policy)
    assert served.preemptions == 1
    # Step 1 prefills both; after steps 2 and 3 they hold 7 each and step 4 is made; the first is done in step 8, and
    # the second goes on after it with a prefill of what it knows: 4 + 4 tokens.
    assert served.finish.values.tolist() == [8.0, 12.0]
    assert served.prefill_tokens.values.tolist()[0] == 8
    assert 8 in served.prefill_tokens.values.tolist()[1:]


def test_a_bent_step_time_is_followed_closely():
    """Not linear in the context, so runs of decode steps are cut short enough."""
    rng = np.random.default_rng(1)
    requests = make_requests(np.cumsum(rng.exponential(40.0, 40)), rng.integers(1, 50, 40), rng.integers(1, 300, 40))

    def step_time(decodes, context, tokens, pairs):
        return 0.1 + 0.01 * (context / max(decodes, 1)) ** 1.5 + 0.01 * tokens

    served = replay(requests, step_time)
    expected, _ = token_by_token(requests, step_time, Policy())
    np.testing.assert_allclose(served.finish, [r.token_times[-1] for r in expected], rtol=1e-3)


def test_the_same_requests_are_served_the_same():
    requests = make_requests(np.arange(50.0), 30, 10)
    assert replay(requests, Linear(per_context=3)).identical(replay(requests, Linear(per_context=3)))


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(2)
    requests = make_requests(np.arange(50.0), rng.integers(1, 90, 50), rng.integers(1, 40, 50))
    shuffled = requests.isel(request=rng.permutation(50))
    served, other = replay(requests, Linear()), replay(shuffled, Linear()).sortby("arrival")
    np.testing.assert_array_equal(served.finish, other.finish)


# --- what it comes to -------------------------------------------------------------------------------------------------


def test_the_summary_counts_tokens_over_time():
    summary = summarise(replay(make_requests([0.0, 0.0], [6, 6], [5, 1]), lambda *batch: 0.5))
    assert float(summary.duration) == 2.5
    assert float(summary.output_rate) == 6 / 2.5
    assert float(summary.total_rate) == 18 / 2.5
    assert float(summary.decode_batch) == 4 / 5
    assert float(summary.ttft.sel(statistic="mean")) == 0.5
    assert float(summary.request_time.sel(statistic="p50")) == 1.5


def test_a_single_token_has_no_time_between_tokens():
    served = replay(make_requests([0.0], 6, 1), lambda *batch: 0.5)
    assert np.isnan(served.tpot.values).all()
    assert np.isnan(summarise(served).tpot.values).all()


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step_tokens": 0}, "step_tokens is 0"),
        ({"step_tokens": 10.5}, "step_tokens is 10.5"),
        ({"max_sequences": True}, "max_sequences is True"),
        ({"kv_capacity": -1}, "kv_capacity is -1"),
        ({"step_tokens": 100}, "max_sequences=256 decodes do not fit a step of step_tokens=100"),
    ],
)
def test_an_impossible_policy_is_refused(changes, words):
    with pytest.raises(FactorGraphError, match=words):
        Policy(**changes)


@pytest.mark.parametrize(("name", "near"), [("priority", "decodes first"), ("reserve", "grows")])
def test_an_unknown_word_is_answered_with_the_known_ones(name, near):
    with pytest.raises(UnknownNameError, match=near):
        Policy(**{name: near})


def test_limits_may_be_numpy_integers():
    served = replay(make_requests([0.0], 4, 2), Linear(), Policy(max_sequences=np.int64(3)))
    assert '"max_sequences": 3' in served.attrs["policy"]


def test_a_request_larger_than_the_cache_is_named():
    with pytest.raises(FactorGraphError, match="request 1 needs 90 tokens of cache, and kv_capacity is 80"):
        replay(make_requests([0.0, 0.0], [10, 60], [10, 30]), Linear(), Policy(kv_capacity=80))


@pytest.mark.parametrize("clients", [0, -1, 1.5, "2", True])
def test_clients_are_counted(clients):
    with pytest.raises(FactorGraphError, match="closed_loop is"):
        replay(make_requests([0.0], 1, 1), Linear(), closed_loop=clients)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_step_takes_time(seconds):
    with pytest.raises(FactorGraphError, match="for 0 decode tokens, 0 tokens of their context, 7 prefill tokens"):
        replay(make_requests([0.0], 7, 1), lambda *batch: seconds)
