"""Steady-state serving in closed form: a closed loop of clients, and slots that the cache has room for.

Work is conserved: a request's time in its slot is its share of every prefill, its decode steps and the lag. The
scheduler only decides how much of the prefills falls before the first token and how much between tokens.
"""

import jax.numpy as jnp
from jax import Array

from factorgraph.factor import Factor, parameter
from factorgraph.variables import (
    EqualLengths,
    HeldSteps,
    InputTokens,
    KvBytesPerToken,
    KvPool,
    OutputTokens,
    PrefillFirst,
    PrefillsToFirst,
    Requests,
    RequestsPerClient,
    ReservedTokens,
    Running,
    StepTokens,
    TDecode,
    Throughput,
    TLag,
    Tpot,
    TPrefill,
    TQueue,
    TRequest,
    TSlot,
    Ttft,
)

_SERVED = "served loads of aiconfigurator-core 0.12.0 on H100, dense models"


class RoomInCache(Factor):
    """As many requests run as there are, or as the cache has room for; one always runs.

    running = min(requests, max(kv_pool / (kv_bytes_per_token * reserved_tokens), 1))
    """

    kinks = ("requests", "kv_pool", "kv_bytes_per_token", "reserved_tokens")
    monotone = {"requests": +1, "kv_pool": +1, "kv_bytes_per_token": -1, "reserved_tokens": -1}

    def __call__(
        self,
        requests: Requests,
        kv_pool: KvPool,
        kv_bytes_per_token: KvBytesPerToken,
        reserved_tokens: ReservedTokens,
    ) -> Running:
        room = kv_pool / kv_bytes_per_token / reserved_tokens
        return jnp.minimum(requests, jnp.maximum(room, 1.0))


class ClientLag(Factor):
    """Before its first token a request crosses client, transport and tokeniser, and may be held back for a batch.

    t_lag = t_client + held_steps * t_decode
    """

    t_client: Array = parameter(0.055, unit="s", source=_SERVED, lower=1e-4, upper=1.0)

    monotone = {"held_steps": +1, "t_decode": +1}

    def __call__(self, held_steps: HeldSteps, t_decode: TDecode) -> TLag:
        return self.t_client + held_steps * t_decode


class PrefillsWaited(Factor):
    """Prompts that are prefilled from a request's start to its first token, its own among them.

    Decode first: 1 + (running - 1)/(2 requests_per_client): the first wave comes all at once, later ones spread out.
    Prefill first, equal lengths: (running + batch)/2 + batch with batch = min(running, step_tokens/input_tokens):
    requests end together, so that all prompts of a wave stand before any decode step.
    """

    kinks = ("running", "step_tokens", "input_tokens", "prefill_first")
    monotone = {"running": +1, "requests_per_client": -1}

    def __call__(
        self,
        running: Running,
        requests_per_client: RequestsPerClient,
        prefill_first: PrefillFirst,
        step_tokens: StepTokens,
        input_tokens: InputTokens,
    ) -> PrefillsToFirst:
        spread = 1.0 + (running - 1.0) / (2.0 * requests_per_client)
        batch = jnp.minimum(running, step_tokens / input_tokens)
        wave = (running + batch) / 2.0 + batch
        return (1.0 - prefill_first) * spread + prefill_first * wave


class SlotTime(Factor):
    """Work conserved: t_slot = running * t_prefill + output_tokens * t_decode + t_lag.

    While a request runs, each of the running ones is prefilled once, and no decode step is skipped.
    """

    monotone = {"running": +1, "t_prefill": +1, "output_tokens": +1, "t_decode": +1, "t_lag": +1}

    def __call__(
        self, running: Running, t_prefill: TPrefill, output_tokens: OutputTokens, t_decode: TDecode, t_lag: TLag
    ) -> TSlot:
        return running * t_prefill + output_tokens * t_decode + t_lag


class QueueForSlot(Factor):
    """Requests beyond those running wait their turn: t_queue = (requests/running - 1) * t_slot; never below 0."""

    kinks = ("requests", "running")
    monotone = {"requests": +1, "running": -1, "t_slot": +1}

    def __call__(self, requests: Requests, running: Running, t_slot: TSlot) -> TQueue:
        return jnp.maximum(requests / running - 1.0, 0.0) * t_slot


class FirstToken(Factor):
    """ttft = t_queue + t_lag + t_prefill * (prefills_to_first + clustered * equal_lengths * (1 - prefill_first)).

    Requests of one length end in clusters, and the prompts that follow them wait for each other; with random lengths
    they do not. The wait is seen by the first token alone.
    """

    clustered: Array = parameter(2.1, source=_SERVED, lower=1e-3, upper=20.0)

    monotone = {"t_queue": +1, "t_lag": +1, "t_prefill": +1, "prefills_to_first": +1, "prefill_first": -1}

    def __call__(
        self,
        t_queue: TQueue,
        t_lag: TLag,
        t_prefill: TPrefill,
        prefills_to_first: PrefillsToFirst,
        equal_lengths: EqualLengths,
        prefill_first: PrefillFirst,
    ) -> Ttft:
        clustered = self.clustered * equal_lengths * (1.0 - prefill_first)
        return t_queue + t_lag + t_prefill * (prefills_to_first + clustered)


class TokenInterval(Factor):
    """A decode step, and those prefills of others that fall between a request's tokens.

    tpot = t_decode + t_prefill * max(running - prefills_to_first, 0) / output_tokens
    """

    kinks = ("running", "prefills_to_first")
    monotone = {"t_decode": +1, "t_prefill": +1, "running": +1, "prefills_to_first": -1, "output_tokens": -1}

    def __call__(
        self,
        t_decode: TDecode,
        t_prefill: TPrefill,
        running: Running,
        prefills_to_first: PrefillsToFirst,
        output_tokens: OutputTokens,
    ) -> Tpot:
        return t_decode + t_prefill * jnp.maximum(running - prefills_to_first, 0.0) / output_tokens


class RequestTime(Factor):
    """t_request = ttft + output_tokens * tpot."""

    monotone = {"ttft": +1, "tpot": +1, "output_tokens": +1}

    def __call__(self, ttft: Ttft, tpot: Tpot, output_tokens: OutputTokens) -> TRequest:
        return ttft + output_tokens * tpot


class ClosedLoopThroughput(Factor):
    """Little's law over the slots: throughput = running * output_tokens / t_slot."""

    monotone = {"running": +1, "output_tokens": +1, "t_slot": -1}

    def __call__(self, running: Running, output_tokens: OutputTokens, t_slot: TSlot) -> Throughput:
        return running * output_tokens / jnp.maximum(t_slot, 1e-9)
