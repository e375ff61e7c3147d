"""What a step's time hangs on: elasticities to clock, power cap, bandwidth and working set."""

import xarray as xr

import factorgraph as fg
from factorgraph.step import fitted_on
from factorgraph.studies import Findings, number

SKUS = ("a100-sxm4-80gb", "h100-sxm", "h200-sxm", "l40s", "rtx-pro-6000-maxq", "b200")

ID = "sensitivity"
QUESTION = "By how many percent does a step's time move with one percent of clock, power cap, bandwidth or working set?"
DATASETS = ()
METHOD = (
    "Not measured: exact elasticities of t_step by automatic differentiation of the per-kernel graph with pooled "
    "constants. Llama-3.1-8B, decode at a context of 2048 and prefill of 2048 tokens."
)
HOME = tuple(sku for sku in SKUS if sku in fitted_on("per-kernel"))
UNSEEN = tuple(sku for sku in SKUS if sku not in HOME)
PARAMETERS = ("sm_clock", "power_cap", "dram_bandwidth", "working_set")


def run() -> Findings:
    model = fg.load_model("llama-3.1-8b")
    steps = {f"decode {batch}": model.decode(batch=batch, context=2048) for batch in (1, 16, 64, 256)}
    steps |= {f"prefill {batch}": model.prefill(batch=batch, prompt=2048) for batch in (1, 4)}
    found = [
        fg.sensitivity(fg.step_graph(), [fg.load_sku(name) for name in SKUS], step, wrt=list(PARAMETERS))
        .sel(output="t_step")["elasticity"]
        .drop_vars("output")
        for step in steps.values()
    ]
    elasticity = xr.concat(found, dim=xr.IndexVariable("load", list(steps)), coords="minimal", compat="override")
    result = elasticity.reset_coords(drop=True).to_dataset(name="elasticity")
    result["elasticity"].attrs = {"units": "1"}
    loads = ("decode 1", "decode 256", "prefill 4")
    numbers = tuple(
        number(result, f"{sku}, {load}, {name}", "elasticity", sku=sku, load=load, parameter=name)
        for sku in SKUS
        for load in loads
        for name in PARAMETERS
    )
    reach = {name: result["elasticity"].sel(parameter=name) for name in PARAMETERS}
    prefill, decode = (reach["sm_clock"].sel(load=load) for load in ("prefill 4", "decode 1"))
    capped = reach["power_cap"].sel(load="prefill 4")
    return Findings(
        result=result,
        numbers=numbers,
        verdict=(
            f"The report has no such number. A percent of clock moves a prefill by {float(prefill.max()):.2f} to "
            f"{float(prefill.min()):.2f} % and a decode of one by {float(decode.max()):.2f} to "
            f"{float(decode.min()):.2f} %; the cap takes the clock's place in prefill where it binds, "
            f"up to {float(capped.min()):.2f} % "
            f"({capped.idxmin('sku').item()})."
        ),
        caveats=(
            "In serving the working set is the whole model, beyond any L2, and a small change of it moves nothing. "
            "Derivatives of the laws, not of silicon: they are as right as the laws are. Counts of waves and tiles "
            "move in steps and have derivative zero. Step times under two locked clocks and two caps would test them."
        ),
    )
