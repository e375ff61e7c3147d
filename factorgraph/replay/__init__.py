"""Event-driven replay: requests in, the batches of each step out, step times from a table made of a graph."""

from factorgraph.replay.policy import Policy
from factorgraph.replay.simulation import replay, replay_on_card, summarise
from factorgraph.replay.step_table import StepTime, tabulate
from factorgraph.replay.traces import load_trace, make_requests

__all__ = ["Policy", "StepTime", "load_trace", "make_requests", "replay", "replay_on_card", "summarise", "tabulate"]
