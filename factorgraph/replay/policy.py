"""How an engine puts requests together into steps."""

import dataclasses
from typing import Any, Literal, get_args

import numpy as np

from factorgraph.errors import FactorGraphError, UnknownNameError

Priority = Literal["decode first", "prefill first"]
Reserve = Literal["whole", "growing"]


@dataclasses.dataclass(frozen=True)
class Policy:
    """How an engine puts steps together. Requests are admitted strictly in the order of their arrival.

    Attributes:
        step_tokens: most tokens of a step, decoded and prefilled ones together (the chunk budget).
        max_sequences: most sequences that are prefilled or decode at a time.
        priority: "decode first": all decodes are in every step, and what they leave of `step_tokens` goes to prompts,
            in chunks (vLLM, Sarathi-Serve). "prefill first": while a prompt is waiting that can be admitted, steps are
            of prompts alone, and decodes stand still (SGLang, TensorRT-LLM with separate context steps).
        kv_capacity: tokens that the cache holds; None for no limit.
        reserve: what a request takes of the cache when it is admitted. "whole": prompt and answer, so that it never
            has to give way. "growing": its prompt and one token, and a token more with each that it generates; when
            that is more than the cache holds, the request admitted last gives its own back, waits at the head of the
            queue, and is prefilled again together with what it had generated.

    Raises:
        FactorGraphError: a limit is no positive whole number, or `max_sequences` is above `step_tokens`.
        UnknownNameError: there is no such priority or reserve.

    Examples:
        >>> Policy(step_tokens=2048, max_sequences=128).priority
        'decode first'
    """

    step_tokens: int = 8192
    max_sequences: int = 256
    priority: Priority = "decode first"
    kv_capacity: int | None = None
    reserve: Reserve = "whole"

    def __post_init__(self):
        for name in ("step_tokens", "max_sequences", "kv_capacity"):
            value = getattr(self, name)
            if name == "kv_capacity" and value is None:
                continue
            if not is_count(value):
                raise FactorGraphError(f"{name} is {value!r}; it must be a whole number, 1 or more")
        if self.max_sequences > self.step_tokens:
            raise FactorGraphError(
                f"max_sequences={self.max_sequences} decodes do not fit a step of step_tokens={self.step_tokens}; "
                "lower the one or raise the other"
            )
        for name, choices in (("priority", get_args(Priority)), ("reserve", get_args(Reserve))):
            if getattr(self, name) not in choices:
                raise UnknownNameError(name, getattr(self, name), choices)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of 1 or more."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1
