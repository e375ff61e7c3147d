"""Light kernels and the KV write: not testable on the bundled data, which hold neither."""

import xarray as xr

import factorgraph as fg
from factorgraph.studies import Findings, number

ID = "E1.1c"
QUESTION = "Do light kernels and the KV write hold most of what a prefill takes beyond its GEMMs and attention?"
DATASETS = ("reported-round1",)
METHOD = (
    "Not measured: what would be needed is the time of each norm, activation, rotary embedding and KV write beside the "
    "time of the whole step. In its place, the share of light kernels in a predicted prefill of Llama-3.1-8B, 2048 "
    "tokens, per-kernel graph."
)
HOME = ("h100-sxm",)
UNSEEN = ()


def run() -> Findings:
    step = fg.load_model("llama-3.1-8b").prefill(batch=1, prompt=2048)
    out = fg.step_graph().predict(fg.load_sku("h100-sxm"), step, outputs=["t_light_total", "t_step"])
    share = 100.0 * out["t_light_total"].squeeze(drop=True) / out["t_step"].squeeze(drop=True)
    result = xr.Dataset({"share": ((), float(share), {"units": "%"})})
    return Findings(
        result=result,
        numbers=(number(result, "predicted share of light kernels in the step", "share"),),
        verdict="Not testable here: no bundled data hold light kernels, the KV write, or steps profiled whole.",
        caveats=(
            "The report's 69.6 to 16.2 % and its 81 % of the residual stay as it states them. Vidur's profiles, or "
            "`factorgraph measure` on a GPU, would make the study possible; a share is not a residual."
        ),
    )
