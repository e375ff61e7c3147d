"""How far the clock falls on each GPU, and whether throughput falls with the batch under a tight cap."""

import numpy as np
import xarray as xr

import factorgraph as fg
from factorgraph.studies import Findings, number

ID = "E1.10"
QUESTION = "How far does each GPU's clock droop under a large batch, and does throughput fall as the batch grows?"
DATASETS = ("reported-round1",)
METHOD = (
    "Not measured: predicted by the base graph (PowerBalance) for the gate_up product of Llama-3.1-8B, 256 to 16384 "
    "tokens. Droop is 1 - least sustained clock / boost clock; decline is how far throughput at 16384 tokens lies "
    "below its maximum."
)
HOME = ()
UNSEEN = ("a100-sxm4-80gb", "h100-sxm", "h200-sxm", "l40s", "rtx-pro-6000-maxq")
REPORTED = (20.2, 30.3, 26.5, 43.5, 54.4)


def run() -> Findings:
    model, graph = fg.load_model("llama-3.1-8b"), fg.step_graph("base")
    cards = [fg.load_sku(name) for name in UNSEEN]
    clocks, rates = [], []
    for tokens in (256, 1024, 4096, 16384):
        step = model.prefill(batch=1, prompt=tokens)
        out = graph.predict(cards, step, outputs=["sustained_clock", "t_gemm", "gemm_flop"]).sel(gemm="gate_up_proj")
        clocks.append(out["sustained_clock"].values)
        rates.append((out["gemm_flop"] / out["t_gemm"]).values)
    clock, rate = np.array(clocks), np.array(rates)
    boost = np.array([card.boost_clock for card in cards])
    result = xr.Dataset(
        {
            "droop": ("sku", 100.0 * (1.0 - clock.min(axis=0) / boost), {"units": "%"}),
            "decline": ("sku", 100.0 * (1.0 - rate[-1] / rate.max(axis=0)), {"units": "%"}),
        },
        coords={"sku": list(UNSEEN)},
    )
    numbers = [
        number(result, f"{sku} droop", "droop", reported=said, sku=sku)
        for sku, said in zip(UNSEEN, REPORTED, strict=True)
    ]
    numbers.append(number(result, "Max-Q decline", "decline", reported=2.2, sku=UNSEEN[-1]))
    deepest = result["droop"].idxmax("sku").item()
    return Findings(
        result=result,
        numbers=tuple(numbers),
        verdict=(
            f"Not testable here (no bundled data log a clock by batch). The law does not account for the report: it "
            f"predicts {float(result['droop'].min()):.0f} to {float(result['droop'].max()):.0f} %, most on {deepest}; "
            f"throughput of the Max-Q lies {float(result['decline'][-1]):.1f} % below its maximum at 16384 tokens."
        ),
        caveats=(
            "The law's shares of power are the same on all GPUs. Clocks logged over a sweep of batches would decide it."
        ),
    )
