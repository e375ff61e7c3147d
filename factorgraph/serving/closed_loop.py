"""Steady-state serving of a closed loop of clients, in closed form: TTFT, TPOT, throughput and where the time goes."""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from factorgraph.errors import FactorGraphError
from factorgraph.graph import FactorGraph
from factorgraph.hardware import Sku, load_sku
from factorgraph.labelled import provenance
from factorgraph.serving.deployment import Deployment, deploy
from factorgraph.serving.engine import Engine, load_engine
from factorgraph.serving.graph import serving_graph
from factorgraph.serving.loads import Load, evaluate, prepare
from factorgraph.workload import ModelConfig, load_model

_RESULTS = ("ttft", "tpot", "t_request", "throughput", "running", "t_decode", "t_prefill", "t_queue", "t_lag")
# What a decode step is made of, by the variable of the step graph.
_STEP_PARTS = {
    "gemm": "t_gemm_total",
    "attention": "t_attention_total",
    "light": "t_light_total",
    "collective": "t_collective_total",
    "launch": "t_launches",
    "host": "t_host",
}


def serve(
    graph: FactorGraph,
    sku: Any,
    model: str | os.PathLike[str] | ModelConfig,
    *,
    engine: str | os.PathLike[str] | Engine,
    requests: ArrayLike,
    input: ArrayLike,
    output: ArrayLike,
    tp: int = 1,
    weights: str | None = None,
    kv: str | None = None,
    requests_per_client: float = 10.0,
    loop: FactorGraph | None = None,
) -> xr.Dataset:
    """Serve a closed loop: every client has one request at a time, and sends the next when the last is answered.

    Requests fill the slots that the cache has room for; while one runs, each of the others is prefilled once, in
    steps that decode as well. Work is conserved, and the engine's policy splits prefills between the first token and
    those after it. See `factorgraph.laws.serving`.

    Args:
        graph: the laws of a step; any graph that gives t_step. `engine_step_graph()` has the constants that were
            fitted to served loads.
        sku: a card or its name, or a list of them.
        model: a model or its name.
        engine: an engine or its name.
        requests: clients, one number or several.
        input, output: tokens of prompts and answers: a number each, or samples of equal length, an entry a request.
            Requests of one length end in clusters, and wait for each other's prefill; others do not.
        tp: GPUs the model is split over.
        weights: weight format; the checkpoint's own unless stated.
        kv: format of the cache; what the engine chooses unless stated.
        requests_per_client: how many requests each client makes in all, which says what the first wave weighs.
        loop: the laws of the closed loop; by default `serving_graph()`.

    Returns:
        Over `requests`, after `sku` for a list of cards: `ttft`, `tpot`, `t_request`, `t_decode` (a step of all that
        run), `t_prefill` (what a prompt adds to the steps it is in), `t_queue` and `t_lag` (s); `throughput` (output
        tokens/s, all GPUs together); `running` (requests at once); `energy_per_token_bound` (J: the power caps of
        all GPUs over the throughput, which no mean draw exceeds); and over `part` `t_part`, what the time of a
        request goes to (s; the parts add up to `t_request`).

    Raises:
        FactorGraphError: a number is out of range, the model does not fit, or the graph reads what is not given.

    Examples:
        >>> import factorgraph as fg
        >>> out = serve(fg.engine_step_graph(), "h100-sxm", "llama-3.1-8b", engine="vllm", requests=[1, 64],
        ...             input=1024, output=512)
        >>> bool(out.tpot[0] < out.tpot[1]), out.throughput.dims
        (True, ('requests',))
    """
    clients = _clients(requests)
    inputs, outputs = _lengths(input, output)
    cards = [load_sku(one) for one in (sku if isinstance(sku, list | tuple) else [sku])]
    if not cards or len({card.name for card in cards}) < len(cards):
        raise FactorGraphError("sku is a list of no cards or names one twice; give each card once")
    config, facts, loop = load_model(model), load_engine(engine), loop or serving_graph()
    _check_positions(config, inputs, outputs)
    if not requests_per_client >= 1:
        raise FactorGraphError(f"requests_per_client is {requests_per_client!r}; it must be 1 or more")
    deployments = [deploy(card, config, facts, tp=tp, weights=weights, kv=kv) for card in cards]
    loads = [_load(one, clients, inputs, outputs, requests_per_client) for one in deployments]
    if "t_step" not in graph:
        raise FactorGraphError("the step graph gives no t_step; pass engine_step_graph() or step_graph()")
    found = evaluate(graph, loop, prepare(graph, loop, loads))
    numbers = {name: np.asarray(value, float).reshape(len(cards), len(clients)) for name, value in found.items()}
    dataset = _labelled(numbers, cards, clients, outputs.mean(), tp)
    dataset.attrs = provenance(graph, [*cards]) | {
        "title": "factorgraph serving",
        "model": config.name,
        "engine": facts.name,
        "tp": tp,
        "weights": deployments[0].weights,
        "kv": json.dumps({one.sku.name: one.kv for one in deployments}),
        "input_tokens": float(inputs.mean()),
        "output_tokens": float(outputs.mean()),
    }
    return dataset if isinstance(sku, list | tuple) else dataset.isel(sku=0, drop=True)


def most_clients_within(served: xr.Dataset, slo_tpot: float) -> list[float | None]:
    """For each card, the most clients, of those asked about, that are served within a TPOT.

    Args:
        served: from `serve`.
        slo_tpot: the limit, s.

    Returns:
        A number for each card; None where no number of clients is.

    Examples:
        >>> out = xr.Dataset({"tpot": ("requests", [0.01, 0.02, 0.05])}, {"requests": [1.0, 8.0, 64.0]})
        >>> most_clients_within(out, 0.03)
        [8.0]
    """
    times, clients = np.atleast_2d(served["tpot"].values), served["requests"].values
    return [float(clients[row <= slo_tpot].max()) if (row <= slo_tpot).any() else None for row in times]


def _load(
    deployment: Deployment, clients: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, requests_per_client: float
) -> Load:
    """The moments of the lengths that the closed form needs, for each number of clients."""

    def everywhere(value: float) -> np.ndarray:
        return np.full(len(clients), float(value))

    equal = np.ptp(inputs) == 0 and np.ptp(outputs) == 0
    return Load(
        deployment,
        requests=clients,
        input_tokens=everywhere(inputs.mean()),
        output_tokens=everywhere(outputs.mean()),
        input_square=everywhere((inputs**2).mean()),
        # A long answer is met in more decode steps than a short one.
        context=everywhere((outputs * (inputs + outputs / 2)).mean() / outputs.mean()),
        equal_lengths=everywhere(equal),
        held_steps=everywhere(0.0),
        requests_per_client=everywhere(requests_per_client),
    )


def _labelled(
    numbers: dict[str, np.ndarray], cards: Sequence[Sku], clients: np.ndarray, output: float, tp: int
) -> xr.Dataset:
    variables = serving_graph().variables
    dims = ("sku", "requests")
    dataset = xr.Dataset(coords={"sku": [card.name for card in cards], "requests": clients})
    dataset["requests"].attrs = {"units": "1", "long_name": variables["requests"].doc}
    for name in _RESULTS:
        dataset[name] = (dims, numbers[name], {"units": variables[name].unit, "long_name": variables[name].doc})
    watts = np.array([[tp * card.power_cap] for card in cards])
    dataset["energy_per_token_bound"] = (
        dims,
        watts / numbers["throughput"],
        {"units": "J", "long_name": "energy of an output token at most: all power caps over the throughput"},
    )
    parts = _parts(numbers, output)
    dataset["t_part"] = (
        ("part", *dims),
        np.stack(list(parts.values())),
        {"units": "s", "long_name": "time of a request"},
    )
    dataset = dataset.assign_coords(part=list(parts))
    for name, array in dataset.data_vars.items():
        if not np.isfinite(array.values).all():
            raise FactorGraphError(f"'{name}' is not finite at these inputs; a law does not reach this far")
    return dataset


def _parts(numbers: dict[str, np.ndarray], output: float) -> dict[str, np.ndarray]:
    """What the time of a request goes to, in s; decode steps by their kernels."""
    waited = numbers["t_queue"] + numbers["t_lag"]
    parts = {
        "queue": numbers["t_queue"],
        "lag": numbers["t_lag"],
        "prefill before the first token": numbers["ttft"] - waited,
        "prefill of others between tokens": output * (numbers["tpot"] - numbers["t_decode"]),
    }
    steps = {name: output * numbers[variable] for name, variable in _STEP_PARTS.items() if variable in numbers}
    rest = output * numbers["t_decode"] - sum(steps.values())
    return parts | {f"decode: {name}": seconds for name, seconds in steps.items()} | {"decode: other": rest}


def _clients(requests: ArrayLike) -> np.ndarray:
    clients = _numbers("requests", requests)
    if np.any(clients % 1) or len(set(clients)) < len(clients):
        raise FactorGraphError(f"requests is {requests!r}; give whole numbers of clients, each once")
    return clients


def _lengths(input: ArrayLike, output: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Prompts and answers of one request each."""
    inputs, outputs = _numbers("input", input), _numbers("output", output)
    if len(inputs) != len(outputs) and 1 not in (len(inputs), len(outputs)):
        raise FactorGraphError(
            f"input has {len(inputs)} lengths and output {len(outputs)}; give one of each a request, or one number"
        )
    both = np.broadcast_arrays(inputs, outputs)
    return both[0], both[1]


def _numbers(name: str, value: ArrayLike) -> np.ndarray:
    try:
        numbers = np.atleast_1d(np.asarray(value, float))
    except (TypeError, ValueError):
        raise FactorGraphError(f"{name} is {value!r}; it must be a number or a list of numbers") from None
    if numbers.ndim > 1 or not numbers.size or not np.all(np.isfinite(numbers) & (numbers >= 1)):
        raise FactorGraphError(f"{name} is {value!r}; it must be numbers of 1 or more, finite, in one list")
    return numbers


def _check_positions(model: ModelConfig, inputs: np.ndarray, outputs: np.ndarray) -> None:
    longest = float((inputs + outputs).max())
    if longest > model.max_position:
        raise FactorGraphError(
            f"input and output together are {longest:g} tokens; model '{model.name}' has {model.max_position} positions"
        )
