"""The two kinds of feed-forward layer, both gated: dense, and a mixture of experts."""

import dataclasses
from collections.abc import Iterator

from factorgraph.errors import FactorGraphError
from factorgraph.workload.kernels import ACTIVATION_SIZE, Light, Number, Projection


def touched_experts(experts: int, top_k: int, tokens: Number) -> Number:
    """Expected number of distinct experts that a batch of tokens is routed to.

    `E·(1 - (1 - k/E)^T)`: exact when tokens choose independently and no expert is favoured, however a token's own
    choices hang together (expert groups included). Real routers favour some experts and touch fewer.

    Args:
        experts: experts E of the layer.
        top_k: experts k each token chooses, at most E.
        tokens: tokens T, a number or array of any shape.

    Examples:
        >>> touched_experts(8, 2, 1.0)
        2.0
    """
    if top_k == experts:
        return float(experts)
    return experts * (1.0 - (1.0 - top_k / experts) ** tokens)


@dataclasses.dataclass(frozen=True)
class FeedForward:
    """Gate and up projection in one product, gated activation, down projection."""

    intermediate: int
    layers: int
    bias: bool = False

    def check_split(self, tp: int) -> None:
        if self.intermediate % tp:
            raise FactorGraphError(f"tp={tp} does not divide the feed-forward width {self.intermediate}")

    def projections(self, hidden: int, tp: int) -> Iterator[Projection]:
        width = self.intermediate / tp
        yield Projection("gate_up_proj", 2 * width, hidden, self.layers, bias=self.bias)
        yield Projection("down_proj", hidden, width, self.layers, bias=self.bias)

    def other_parameters(self) -> int:
        return 0

    def light(self, tokens: Number, hidden: int, tp: int, narrow_size: float | None) -> dict[str, Light]:
        return _activation("", tokens * self.intermediate / tp, self.layers, narrow_size)


@dataclasses.dataclass(frozen=True)
class Experts:
    """Routed experts, each split over all GPUs, and the experts that every token shares.

    Attributes:
        count: routed experts E.
        top_k: experts a token is sent to.
        intermediate: width of one expert.
        layers: layers that have them.
        shared_intermediate: width of the shared experts together; 0 without.
        bias: whether router and experts have biases.
        correction_bias: whether the router has one more parameter an expert, which balances load.
    """

    count: int
    top_k: int
    intermediate: int
    layers: int
    shared_intermediate: int = 0
    bias: bool = False
    correction_bias: bool = False

    def __post_init__(self):
        if self.top_k > self.count:
            raise FactorGraphError(f"a token cannot be sent to {self.top_k} of {self.count} experts")

    def check_split(self, tp: int) -> None:
        for width in (self.intermediate, self.shared_intermediate):
            if width % tp:
                raise FactorGraphError(f"tp={tp} does not divide the expert width {width}")

    def projections(self, hidden: int, tp: int) -> Iterator[Projection]:
        yield Projection("router", self.count, hidden, self.layers, bias=self.bias, quantised=False)
        width = self.intermediate / tp
        for name, n, k in (("experts_gate_up_proj", 2 * width, hidden), ("experts_down_proj", hidden, width)):
            yield Projection(name, n, k, self.layers, rows="routed", copies=self.count, used=self.top_k, bias=self.bias)
        if self.shared_intermediate:
            shared = self.shared_intermediate / tp
            yield Projection("shared_gate_up_proj", 2 * shared, hidden, self.layers)
            yield Projection("shared_down_proj", hidden, shared, self.layers)

    def other_parameters(self) -> int:
        return self.count if self.correction_bias else 0

    def light(self, tokens: Number, hidden: int, tp: int, narrow_size: float | None) -> dict[str, Light]:
        """Choose, sort rows by expert (and quantise them), activate, and sum what comes back."""
        rows = tokens * self.top_k
        choice_size = 8.0  # a 4 B index and a 4 B weight
        kernels = {
            "route": Light(tokens * self.count * ACTIVATION_SIZE + rows * choice_size, self.layers),
            "permute": Light(rows * hidden * (ACTIVATION_SIZE + (narrow_size or ACTIVATION_SIZE)), self.layers),
            **_activation("experts_", rows * self.intermediate / tp, self.layers, narrow_size),
            "combine": Light((rows + tokens) * hidden * ACTIVATION_SIZE, self.layers),
        }
        if self.shared_intermediate:
            kernels |= _activation("shared_", tokens * self.shared_intermediate / tp, self.layers, narrow_size)
        return kernels


def _activation(prefix: str, elements: Number, layers: int, narrow_size: float | None) -> dict[str, Light]:
    """Gate times up, two elements read for each written; then, for narrow products, a launch that quantises."""
    kernels = {f"{prefix}activation": Light(elements * 3 * ACTIVATION_SIZE, layers)}
    if narrow_size is not None:
        kernels[f"{prefix}activation_quantise"] = Light(elements * (ACTIVATION_SIZE + narrow_size), layers)
    return kernels
