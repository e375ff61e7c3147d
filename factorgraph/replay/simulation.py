"""A serving engine replayed request by request: arrivals in, batches of every step, latencies out."""

import dataclasses
import heapq
import json
import math
from array import array
from bisect import bisect_left
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.replay.policy import Policy, is_count
from factorgraph.replay.step_table import StepTime, tabulate
from factorgraph.replay.traces import check_requests
from factorgraph.workload.model import ModelConfig

# Within a run of decode steps the step time is taken as linear in the context, which may grow by this share of itself.
_LINEAR_GROWTH = 1 / 8


def replay(
    requests: xr.Dataset, step_time: StepTime, policy: Policy | None = None, *, closed_loop: int | None = None
) -> xr.Dataset:
    """Serve requests with one engine, and say when each got its first and its last token.

    A step takes what `step_time` says of its whole batch. A prompt's last chunk yields its first token; every decode
    step that a request is in yields one more, at the step's end. A request that arrives during a step waits for the
    next one. The same arguments give the same result, bit for bit.

    Args:
        requests: along `request`: `arrival` (s), `input_tokens`, `output_tokens`; from `load_trace` or `make_requests`.
        step_time: seconds of a step, such as a table from `tabulate`.
        policy: how steps are put together; by default `Policy()`.
        closed_loop: this many clients, each of which sends its next request when its last one is finished. The
            requests are sent in their order, and their arrival times are not used.

    Returns:
        Along `request`, in the order given, in seconds: `arrival`, `first_token`, `finish`, `ttft` (from arrival to
        first token), `tpot` (mean time between tokens after the first; NaN for requests of a single token), `queueing`
        (from arrival to the start of the first step with a part of the prompt); and the numbers of tokens.

        Along `run`, a run being one step or several decode steps of the same sequences: `run_start` (s), `run_time`
        (s), `steps` (in the run), and for each of its steps `decode_tokens` and `prefill_tokens`; `decode_context`
        (tokens of context of all decodes) and `prefill_pairs` (query-key pairs) are those of its first step.

        Attributes: `preemptions` (how often a request had to give way), `policy` (JSON), `closed_loop` (0 for none).

    Raises:
        FactorGraphError: the requests are malformed, one of them never fits the cache, there are no clients, or
            `step_time` gives what is no duration.

    Examples:
        Two requests at once, on an engine whose steps take 10 ms and 1 ms for every 100 tokens of a prompt:

        >>> from factorgraph.replay.traces import make_requests
        >>> def step_time(decode_tokens, decode_context, prefill_tokens, prefill_pairs):
        ...     return 0.010 + 0.001 * prefill_tokens / 100
        >>> served = replay(make_requests([0.0, 0.0], [1000, 500], [11, 1]), step_time)
        >>> served.ttft.values.round(6), served.tpot.values.round(6)
        (array([0.025, 0.025]), array([0.01,  nan]))
    """
    policy = policy or Policy()
    requests = check_requests(requests)
    if closed_loop is not None and not is_count(closed_loop):
        raise FactorGraphError(f"closed_loop is {closed_loop!r}; it must be a number of clients, 1 or more")
    _check_fit(requests, policy)
    engine = _Engine(requests, step_time, policy, closed_loop)
    engine.serve()
    return _labelled(requests, engine, policy, closed_loop)


def replay_on_card(
    graph: FactorGraph,
    sku: Any,
    model: ModelConfig,
    requests: xr.Dataset,
    policy: Policy | None = None,
    *,
    closed_loop: int | None = None,
    tp: int = 1,
    weights: str | None = None,
    kv: str = "bf16",
    **values: Any,
) -> xr.Dataset:
    """Serve requests with a model on a card, with step times from a graph.

    Args:
        graph, sku, model, tp, weights, kv, values: as for `tabulate`, which is told of the longest request.
        requests, policy, closed_loop: as for `replay`.

    Returns:
        As from `replay`.

    Raises:
        FactorGraphError: as for `tabulate` and `replay`; a request is longer than the model has positions.

    Examples:
        >>> import factorgraph as fg
        >>> served = replay_on_card(fg.step_graph("base"), fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b"),
        ...                         fg.make_requests([0.0, 0.1], 512, 64), Policy(step_tokens=1024, max_sequences=4))
        >>> bool((served.ttft < 0.1).all())
        True
    """
    policy = policy or Policy()
    requests = check_requests(requests)
    longest = int((requests.input_tokens + requests.output_tokens).max())
    step_time = tabulate(graph, sku, model, policy, max_context=longest, tp=tp, weights=weights, kv=kv, **values)
    return replay(requests, step_time, policy, closed_loop=closed_loop)


def summarise(served: xr.Dataset) -> xr.Dataset:
    """What a replay comes to, from the first arrival to the last finish.

    Args:
        served: from `replay`.

    Returns:
        Along `statistic` ("mean", "p50", "p90", "p99"): `ttft`, `tpot`, `queueing` and `request_time` (s), of all
        requests, `tpot` of those with more than one token. Without a dimension: `duration` (s, from the first arrival
        to the last finish), `request_rate` (1/s), `output_rate` and `total_rate` (tokens/s), `utilisation` (share of
        the duration in which a step was running), and `decode_batch`, `mean_step_time` (s) over steps.

    Examples:
        >>> from factorgraph.replay.traces import make_requests
        >>> served = replay(make_requests([0.0, 1.0], [8, 8], [3, 3]), lambda *batch: 0.25)
        >>> made = summarise(served)
        >>> float(made.duration), float(made.utilisation), float(made.tpot.sel(statistic="p99"))
        (1.75, 0.8571428571428571, 0.25)
    """
    times = {name: served[name].values for name in ("ttft", "tpot", "queueing")}
    times["request_time"] = (served.finish - served.arrival).values
    output, prompt = served.output_tokens.values, served.input_tokens.values
    duration = float(served.finish.max() - served.arrival.min())
    steps = float(served.steps.sum())
    scalars = {
        "duration": (duration, "s"),
        "request_rate": (served.sizes["request"] / duration, "1/s"),
        "output_rate": (output.sum() / duration, "1/s"),
        "total_rate": ((output.sum() + prompt.sum()) / duration, "1/s"),
        # The sum may be above the duration by a rounding.
        "utilisation": (min(float(served.run_time.sum()) / duration, 1.0), "1"),
        "decode_batch": (float((served.steps * served.decode_tokens).sum()) / steps, "1"),
        "mean_step_time": (float(served.run_time.sum()) / steps, "s"),
    }
    return xr.Dataset(
        {name: ("statistic", _statistics(values), {"units": "s"}) for name, values in times.items()}
        | {name: ((), value, {"units": unit}) for name, (value, unit) in scalars.items()},
        coords={"statistic": ["mean", "p50", "p90", "p99"]},
        attrs=served.attrs | {"title": "factorgraph replay, summary"},
    )


class _Prefill(NamedTuple):
    """The prompts' part of one step: tokens, query-key pairs, and the requests whose prompts it completes."""

    tokens: int
    pairs: float
    completed: list[int]


class _Engine:
    """One engine between two steps.

    All decodes advance together, so none of them is touched in a step: a request that has `n` tokens to go ends when
    the number of decode steps made is `n` more than now, and only sums over the decodes are carried along.
    """

    def __init__(self, requests: xr.Dataset, step_time: StepTime, policy: Policy, clients: int | None):
        self.step_time, self.policy = step_time, policy
        self.mixes = policy.priority == "decode first"
        self.grows = policy.reserve == "growing" and policy.kv_capacity is not None
        self.capacity = math.inf if policy.kv_capacity is None else policy.kv_capacity
        count = requests.sizes["request"]
        self.prompt: list[int] = requests.input_tokens.values.tolist()  # to prefill before the next token
        self.left: list[int] = requests.output_tokens.values.tolist()  # still to be generated
        self.first_token, self.finish, self.admitted = [math.nan] * count, [math.nan] * count, [math.nan] * count
        if clients is None:
            self.arrival: list[float] = requests.arrival.values.tolist()
            self.to_come = deque(np.argsort(requests.arrival.values, kind="stable").tolist())
            self.unsent = iter(())
        else:
            self.arrival = [0.0] * count
            self.to_come = deque(range(min(clients, count)))
            self.unsent = iter(range(len(self.to_come), count))
        self.waiting: deque[int] = deque()
        self.begun: int | None = None  # the request whose prompt is prefilled in part
        self.begun_tokens = 0
        self.decoding: dict[int, int] = {}  # request: the decode step it ends with; in the order of admission
        self.endings: list[tuple[int, int]] = []  # the same as a heap, with entries of requests that gave way since
        self.running = 0
        self.held = 0  # tokens of the cache that are taken
        self.context = 0  # tokens that the decodes attend to in their next step, all together
        self.decode_steps = self.preemptions = 0
        self.now = 0.0
        self.runs = array("d")

    def serve(self) -> None:
        while True:
            self._receive()
            self._make_room()
            prefill = self._plan_prefill()
            if prefill.tokens:
                self._step(prefill)
            elif self.decoding:
                self._decode()
            elif self.to_come:
                self.now = self.arrival[self.to_come[0]]
            else:
                return

    def _receive(self) -> None:
        while self.to_come and self.arrival[self.to_come[0]] <= self.now:
            self.waiting.append(self.to_come.popleft())

    def _make_room(self) -> None:
        """Take the cache from those admitted last until every decode has a place for its next token."""
        while self.held > self.capacity:
            if self.begun is not None:
                request, self.begun = self.begun, None
                self.held -= self.prompt[request] + 1
            else:
                request, end = self.decoding.popitem()
                to_go = end - self.decode_steps
                made = self.left[request] - to_go
                self.prompt[request] += made + 1
                self.left[request] = to_go
                self.context -= self.prompt[request]
                self.held -= self.prompt[request]
            self.waiting.appendleft(request)
            self.running -= 1
            self.preemptions += 1

    def _plan_prefill(self) -> _Prefill:
        budget = self.policy.step_tokens - (len(self.decoding) if self.mixes else 0)
        tokens, pairs, completed = 0, 0.0, []
        while tokens < budget and (request := self._next_prompt()) is not None:
            prefix = self.begun_tokens
            chunk = min(self.prompt[request] - prefix, budget - tokens)
            tokens += chunk
            pairs += chunk * prefix + chunk * (chunk + 1) / 2
            self.begun_tokens += chunk
            if self.begun_tokens == self.prompt[request]:
                completed.append(request)
                self.begun = None
        return _Prefill(tokens, pairs, completed)

    def _next_prompt(self) -> int | None:
        """The request whose prompt is begun, else the one that waits longest if the limits let it in."""
        if self.begun is not None:
            return self.begun
        if not self.waiting or self.running == self.policy.max_sequences:
            return None
        request = self.waiting[0]
        needed = self.prompt[request] + (1 if self.grows else self.left[request])
        if self.held + needed > self.capacity:
            return None
        self.waiting.popleft()
        self.begun, self.begun_tokens = request, 0
        self.running += 1
        self.held += needed
        if math.isnan(self.admitted[request]):
            self.admitted[request] = self.now
        return request

    def _step(self, prefill: _Prefill) -> None:
        """One step with prompts in it, and with all decodes if steps are mixed."""
        decodes, context = (len(self.decoding), self.context) if self.mixes else (0, 0)
        seconds = self._seconds(decodes, context, prefill.tokens, prefill.pairs)
        self._record(1, decodes, context, prefill.tokens, prefill.pairs, seconds)
        if decodes:
            self._advance(1)
        for request in prefill.completed:
            self._end_prefill(request)

    def _decode(self) -> None:
        """Decode steps alone, up to the first that anything else follows from."""
        decodes, context = len(self.decoding), self.context
        steps = max(1, min(self._next_ending() - self.decode_steps, int(_LINEAR_GROWTH * context / decodes)))
        if self.grows:
            steps = min(steps, int(self.capacity - self.held) // decodes + 1)
        first = self._seconds(decodes, context, 0, 0.0)
        slope = 0.0
        if steps > 1:
            last = self._seconds(decodes, context + decodes * (steps - 1), 0, 0.0)
            slope = (last - first) / (steps - 1)

        def elapsed(steps: int) -> float:
            return steps * first + slope * (steps * (steps - 1) / 2)

        if self.to_come and not self.waiting:  # else whoever arrives waits behind one that cannot be let in yet
            steps = 1 + bisect_left(range(1, steps), self.arrival[self.to_come[0]] - self.now, key=elapsed)
        self._record(steps, decodes, context, 0, 0.0, elapsed(steps))
        self._advance(steps)

    def _next_ending(self) -> int:
        while self.decoding.get(self.endings[0][1]) != self.endings[0][0]:
            heapq.heappop(self.endings)
        return self.endings[0][0]

    def _advance(self, steps: int) -> None:
        """Give every decode so many tokens."""
        self.decode_steps += steps
        grown = steps * len(self.decoding)
        self.context += grown
        self.held += grown if self.grows else 0
        while self.decoding and self._next_ending() == self.decode_steps:
            _, request = heapq.heappop(self.endings)
            del self.decoding[request]
            self.context -= self.prompt[request] + self.left[request] + 1
            self._leave(request)

    def _end_prefill(self, request: int) -> None:
        if math.isnan(self.first_token[request]):
            self.first_token[request] = self.now
        self.left[request] -= 1
        if not self.left[request]:
            self._leave(request)
            return
        end = self.decode_steps + self.left[request]
        self.decoding[request] = end
        heapq.heappush(self.endings, (end, request))
        self.context += self.prompt[request] + 1

    def _leave(self, request: int) -> None:
        self.finish[request] = self.now
        self.running -= 1
        self.held -= self.prompt[request] + self.left[request] + 1
        if (following := next(self.unsent, None)) is not None:
            self.arrival[following] = self.now
            self.to_come.append(following)

    def _seconds(self, *batch: float) -> float:
        seconds = float(self.step_time(*batch))
        if not 0.0 < seconds < math.inf:
            names = ("decode tokens", "tokens of their context", "prefill tokens", "prefill pairs")
            said = ", ".join(f"{number:g} {name}" for number, name in zip(batch, names, strict=True))
            raise FactorGraphError(f"step_time gives {seconds:g} s for {said}; it must be positive and finite")
        return seconds

    def _record(self, steps: int, decodes: int, context: int, tokens: int, pairs: float, seconds: float) -> None:
        self.runs.extend((self.now, seconds, steps, decodes, context, tokens, pairs))
        self.now += seconds


def _check_fit(requests: xr.Dataset, policy: Policy) -> None:
    needed = (requests.input_tokens + requests.output_tokens).values
    if policy.kv_capacity is not None and needed.max() > policy.kv_capacity:
        worst = int(needed.argmax())
        raise FactorGraphError(
            f"request {worst} needs {needed[worst]} tokens of cache, and kv_capacity is {policy.kv_capacity}; "
            "it can never be served"
        )


def _labelled(requests: xr.Dataset, engine: _Engine, policy: Policy, closed_loop: int | None) -> xr.Dataset:
    arrival, first, finish = (np.array(times) for times in (engine.arrival, engine.first_token, engine.finish))
    after_first = requests.output_tokens.values - 1
    tpot = np.divide(finish - first, after_first, out=np.full(len(arrival), np.nan), where=after_first > 0)
    times = {
        "arrival": (arrival, "when the request was sent"),
        "first_token": (first, "end of the step that gave the first token"),
        "finish": (finish, "end of the step that gave the last token"),
        "ttft": (first - arrival, "time to first token"),
        "tpot": (tpot, "mean time between tokens after the first; NaN where there is only one"),
        "queueing": (np.array(engine.admitted) - arrival, "time before the first step with a part of the prompt"),
    }
    columns = np.array(engine.runs).reshape(-1, 7).T
    runs = {
        "run_start": (columns[0], "s", "start of the run"),
        "run_time": (columns[1], "s", "duration of the run"),
        "steps": (columns[2].astype(int), "1", "steps in the run"),
        "decode_tokens": (columns[3].astype(int), "1", "sequences that decode in each step"),
        "decode_context": (columns[4].astype(int), "1", "tokens that they attend to in the first step, all together"),
        "prefill_tokens": (columns[5].astype(int), "1", "tokens of prompts in each step"),
        "prefill_pairs": (columns[6], "1", "pairs of a query and a key of prompts in the first step"),
    }
    return requests.assign(
        {name: ("request", values, {"units": "s", "long_name": doc}) for name, (values, doc) in times.items()}
        | {name: ("run", v, {"units": unit, "long_name": doc}) for name, (v, unit, doc) in runs.items()}
    ).assign_attrs(
        title="factorgraph replay",
        policy=json.dumps(dataclasses.asdict(policy), default=int),
        closed_loop=closed_loop or 0,
        preemptions=engine.preemptions,
    )


def _statistics(values: np.ndarray) -> np.ndarray:
    known = values[~np.isnan(values)]
    if not known.size:
        return np.full(4, np.nan)
    return np.array([known.mean(), *np.quantile(known, [0.5, 0.9, 0.99])])
