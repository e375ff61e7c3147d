"""What a gradient costs beside the prediction it is of."""

import equinox as eqx
import jax

import factorgraph as fg
from benchmarks.measuring import Line, seconds
from factorgraph.labelled import gather


def run() -> list[Line]:
    graph, sku = fg.step_graph(), fg.load_sku("h100-sxm")
    arrays = gather(graph, sku, fg.load_model("llama-3.1-8b").decode(batch=64, context=2048)).arrays
    # Many cards at once, so that arithmetic is compared and not the cost of starting it.
    many = {name: jax.numpy.stack([value] * 256) for name, value in arrays.items()}

    def total(graph: fg.FactorGraph, many: dict) -> jax.Array:
        return jax.vmap(lambda one: graph.evaluate(one)["t_step"])(many).sum()

    forward = eqx.filter_jit(total)
    by_inputs = eqx.filter_jit(lambda graph, many: jax.grad(lambda m: total(graph, m))(many))
    by_constants = eqx.filter_jit(eqx.filter_grad(total))
    once = seconds(lambda: jax.block_until_ready(forward(graph, many)))
    inputs = seconds(lambda: jax.block_until_ready(by_inputs(graph, many)))
    constants = seconds(lambda: jax.block_until_ready(by_constants(graph, many)))
    against = "time of the prediction"
    return [
        Line(f"gradient by all {len(arrays)} inputs", f"{1e6 * inputs / 256:.1f} µs", inputs / once, against),
        Line(
            f"gradient by all {len(graph.parameters)} constants",
            f"{1e6 * constants / 256:.1f} µs",
            constants / once,
            against,
        ),
    ]
