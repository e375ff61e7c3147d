"""The barrier constant: large GEMMs bound it from below, since no other factor is above one."""

import numpy as np
import xarray as xr

import factorgraph as fg
from factorgraph.studies import Findings, bootstrap_mean, number

ID = "E1.15"
QUESTION = "Is the barrier factor of the L40S 0.425, as the report's last count has it?"
DATASETS = ("gemm-bf16",)
METHOD = (
    "Not measured by the report's protocol: without counters the barrier's share cannot be told from clock and issue "
    "rate. No factor is above 1, so the achieved share of peak bounds it from below. GEMMs with m, n and k of 4096 or "
    "more in the vLLM tables; mean, n, coefficient of variation, 95 % bootstrap interval."
)
HOME = ()
UNSEEN = ("a100-sxm4-80gb", "h100-sxm", "h200-sxm", "l40s", "rtx-pro-6000-server", "b200")


def run() -> Findings:
    data = fg.load_dataset("gemm-bf16").sel(engine="vllm")
    m, n, k = (data[name].values.astype(float) for name in ("m", "n", "k"))
    found = []
    for sku in UNSEEN:
        time = data["latency"].sel(sku=sku).values.astype(float)
        large = np.isfinite(time) & (np.minimum(np.minimum(m, n), k) >= 4096)
        share = 2.0 * (m * n * k)[large] / time[large] / fg.load_sku(sku).peak_flops("bf16")
        found.append((*bootstrap_mean(share), share.size, 100.0 * share.std(ddof=1) / share.mean()))
    names = ("share", "share_low", "share_high", "n", "cv")
    units = ("1", "1", "1", "1", "%")
    columns = zip(names, np.array(found).T, units, strict=True)
    result = xr.Dataset(
        {name: ("sku", values, {"units": unit}) for name, values, unit in columns}, coords={"sku": list(UNSEEN)}
    )
    numbers = []
    for sku in UNSEEN:
        numbers.append(
            number(result, f"{sku} achieved share", "share", sku=sku, reported=0.425 if sku == "l40s" else None)
        )
        numbers += [number(result, f"{sku} {name}", name, sku=sku) for name in ("n", "cv")]
    least = float(result["share_low"].sel(sku="l40s"))
    return Findings(
        result=result,
        numbers=tuple(numbers),
        verdict=(
            f"{'Differs' if least > 0.425 else 'Not testable here (counters are missing)'}: large GEMMs on L40S reach "
            f"{float(result['share'].sel(sku='l40s')):.3f} of the peak, a lower bound on the barrier factor there, "
            "beside the report's 0.425."
        ),
        caveats=(
            "The tables' weights were never filled, which leaves the clock higher than random data would. The report's "
            "kernels and shapes are not stated. Stall counters of a profiler on the same kernels would decide it."
        ),
    )
