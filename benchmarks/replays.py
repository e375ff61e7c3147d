"""What a replay of 100,000 requests takes, and a look-up in its table of step times."""

import jax
import numpy as np

import factorgraph as fg
from benchmarks.measuring import Line, seconds
from factorgraph.labelled import gather

REQUESTS, RATE = 100_000, 40.0
LIMIT = 60.0


def run() -> list[Line]:
    graph, sku, model = fg.step_graph(), fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b")
    rng = np.random.default_rng(0)
    # 512 tokens in and 128 out in the mean, at nine tenths of what the card can serve.
    requests = fg.make_requests(
        np.cumsum(rng.exponential(1 / RATE, REQUESTS)), rng.integers(64, 961, REQUESTS), rng.integers(16, 241, REQUESTS)
    )
    table = fg.tabulate(graph, sku, model, max_context=2048)
    served = {
        policy: seconds(lambda policy=policy: fg.replay(requests, table, policy), repeats=1)
        for policy in (fg.Policy(), fg.Policy(priority="prefill first"))
    }
    arrays = gather(graph, sku, model.mixed(decode_batch=64, context=600, chunk=512)).arrays
    evaluate = jax.jit(lambda arrays: graph.evaluate(arrays)["t_step"])
    one = seconds(lambda: evaluate(arrays).block_until_ready(), repeats=200)
    looked_up = seconds(lambda: [table(64, 64 * 600, 512, 512 * 256.5) for _ in range(1000)]) / 1000
    return [
        *(
            Line(
                f"replay of {REQUESTS:,} requests, {policy.priority}",
                f"{elapsed:.1f} s, {REQUESTS / elapsed:,.0f} requests/s",
                elapsed / LIMIT,
                "a minute",
            )
            for policy, elapsed in served.items()
        ),
        Line("mixed step from a table", f"{1e6 * looked_up:.1f} µs", looked_up / one, "time of a compiled prediction"),
    ]
