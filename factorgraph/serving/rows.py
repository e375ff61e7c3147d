"""Measured serving rows as loads: which are scored, which are left out and by what rule."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from factorgraph.errors import FactorGraphError
from factorgraph.hardware import Sku, load_sku
from factorgraph.serving.deployment import Deployment
from factorgraph.serving.engine import Engine, is_blackwell, load_engine
from factorgraph.serving.floor import floor_times
from factorgraph.serving.loads import Load
from factorgraph.workload import ModelConfig, load_model
from factorgraph.workload.hybrid import GLM_5, QWEN3_5_397B
from factorgraph.workload.kernels import FORMATS, Format

# Tables and columns of pandas, which comes without types.
Frame = Any

# The models of the rows, by what their names hold; the first match counts.
MODELS: dict[str, str | ModelConfig] = {
    "Llama-3.1-8B": "llama-3.1-8b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Qwen3-32B": "qwen3-32b",
    "MiniMax-M2.5": "minimax-m2.5",
    "Qwen3-235B": "qwen3-235b-a22b",
    "Qwen3.5-397B": QWEN3_5_397B,
    "DeepSeek": "deepseek-r1",
    "Kimi-K2.5": "kimi-k2",
    "GLM-5": GLM_5,
    "gpt-oss-120b": "gpt-oss-120b",
}
DENSE = ("Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-32B")
# The GPUs of the dense target; rows on others are scored apart.
DENSE_SKUS = ("h100-sxm", "h200-sxm", "b200")

# The public benchmark draws lengths between 0.8 and 1 times the label; the other campaign has all requests alike.
_MEAN_LENGTH = 0.9
# Both make ten requests a client.
_REQUESTS_PER_CLIENT = 10.0
# batch_wait_timeout_iters of the public TensorRT-LLM recipe of Llama-3.1-70B at 1k/1k on fewer than 8 GPUs.
_HELD_STEPS = 20.0
# Experts in INT4 with BF16 products (compressed-tensors, groups of 32), and MXFP4 with FP8 products on Blackwell.
_INT4 = Format("bf16", 0.53125, 2.0)
_MXFP4_BLACKWELL = Format("fp8", 0.53125, 1.0)
_FP4_AS_BF16 = Format("bf16", 0.5625, 2.0)
_WEIGHTS = {"unknown": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}

DISAGGREGATED = "disaggregated prefill and decode"
ATTENTION_DP = "attention data-parallel, or not stated for a mixture of experts"
MANY_GPUS = "more than 8 GPUs in one engine (sums over a disaggregated deployment)"
REPEAT = "repeats another row's measurement"
FLOOR = "faster than its floor, or from a source file with such a row (prefix cache, or mislabelled)"
CONTRADICTS = "contradicts its neighbours in concurrency (mislabelled)"

_LABEL = ["key", "engine", "sku", "input_len", "output_len", "concurrency", "tp_size", "moe_tp_size", "moe_ep_size"]
_QUANT = ["gemm_quant_mode", "moe_quant_mode"]
GROUP = ["sku", "engine", "key", "precision"]


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a serving dataset, read and sorted out.

    Attributes:
        table: the scored rows; beside the dataset's columns `key` (model), `precision`, `set` ("dense", "moe" or
            "other"), `gpus`, `t_request` (s) and `load`, an index into `loads`, and `case` in it.
        loads: what they measured.
        excluded: number of rows left out, by reason.
    """

    table: Frame
    loads: list[Load]
    excluded: dict[str, int]


def serving_rows(dataset: xr.Dataset, *, sku: str | None = None) -> Rows:
    """Sort out the rows of a serving dataset.

    Args:
        dataset: such as `load_dataset("serving")`.
        sku: rows of one GPU only.

    Raises:
        FactorGraphError: no row is left, or it is no such dataset.
    """
    table: Frame = _read(dataset)
    if sku is not None:
        table = table[table["sku"] == load_sku(sku).name]
    if table.empty:
        raise FactorGraphError(
            f"the serving dataset has no row of {sku}; it has {', '.join(sorted(set(dataset.sku.values)))}"
        )
    excluded: dict[str, int] = {}

    def leave_out(reason: str, which: Frame) -> None:
        nonlocal table
        excluded[reason] = excluded.get(reason, 0) + int(which.sum())
        table = table[~which]

    leave_out(DISAGGREGATED, table["mode"] != "agg")
    experts = table["set"] == "moe"
    leave_out(ATTENTION_DP, experts & (table["attention_dp_size"] != 1))
    leave_out(MANY_GPUS, (table["set"] == "moe") & (table["gpus"] > 8))
    leave_out(REPEAT, _repeats(table))
    loads = _loads(table)
    table = table.assign(load=np.nan, case=np.nan)
    for number, (index, _) in enumerate(loads):
        table.loc[index, "load"], table.loc[index, "case"] = number, np.arange(len(index))
    floors = pd.concat([pd.Series(floor_times(load), index=index) for index, load in loads]).reindex(table.index)
    below = floors > table["t_request"] * table["length_share"]
    files = table["sku"] + table["engine"] + table["key"] + table["precision"] + table["file"]
    below |= (table["set"] != "moe") & files.isin(set(files[below & (table["set"] != "moe")]))
    leave_out(FLOOR, below)
    leave_out(CONTRADICTS, _contradictions(table))
    return Rows(table, [load for _, load in loads], excluded)


def _read(dataset: xr.Dataset) -> Frame:
    table: Frame = dataset.to_dataframe().reset_index(drop=True)
    table["key"] = [next((key for key in MODELS if key.lower() in name.lower()), "") for name in table["model"]]
    if (table["key"] == "").any():
        raise FactorGraphError(
            f"model {table.loc[table['key'] == '', 'model'].iloc[0]} of the rows is not described here"
        )
    dense = table["key"].isin(DENSE)
    table["set"] = np.where(dense, np.where(table["sku"].isin(DENSE_SKUS), "dense", "other"), "moe")
    table["precision"] = np.where(dense, table["gemm_quant_mode"], table["moe_quant_mode"])
    table["precision"] = table["precision"].replace("unknown", "bf16")
    table["file"] = table["source"].str.split(";").str[0].str.strip()
    table["equal_lengths"] = table["source"].str.contains("aic-auto-gap-analysis").astype(float)
    table["length_share"] = np.where(table["equal_lengths"] > 0, 1.0, _MEAN_LENGTH)
    # A label of tp = t², moe_tp = moe_ep = t > 1 means t GPUs, all of them expert-parallel.
    squared = (table["moe_tp_size"] == table["moe_ep_size"]) & (table["moe_ep_size"] > 1) & ~dense
    table["gpus"] = np.where(squared, table["moe_ep_size"], table["tp_size"])
    table["t_request"] = table["ttft"] + table["output_len"] * table["tpot"]
    return table


def _repeats(table: Frame) -> Frame:
    """Rows with the label and, to three and two digits, the TPOT and TTFT of another; DeepSeek-V3 rows repeat R1's."""
    rounded = [f"{tpot:.3g} {ttft:.2g}" for tpot, ttft in zip(table["tpot"], table["ttft"], strict=True)]
    ordered = table.assign(rounded=rounded).sort_values("model", kind="stable")
    repeats = ordered.duplicated([*_LABEL, *_QUANT, "rounded"])
    exact = table.duplicated(["model", *_LABEL, *_QUANT, "ttft", "tpot"])
    return pd.Series(np.where(table["set"] == "moe", repeats.reindex(table.index), exact), table.index)


def _contradictions(table: Frame, least: float = 0.6) -> Frame:
    """Rows that no system with one label can show together: with more clients a request may not take less time, nor
    with more of them decoding (Little's law) a token, by more than 40 %.

    Of each such pair the row that stands in most of them goes. A series of which half is in conflict goes whole.
    """
    bad: list[int] = []
    for _, rows in table.groupby([*GROUP, "input_len", "output_len", "tp_size", "moe_tp_size", "moe_ep_size"]):
        left = list(rows.sort_values("concurrency", kind="stable").index)
        while len(left) > 1:
            clients, took, tpot, output = (
                table.loc[left, name].to_numpy(float) for name in ("concurrency", "t_request", "tpot", "output_len")
            )
            decoding = clients * output * tpot / took
            conflict = (clients[:, None] < clients) & (took < least * took[:, None])
            conflict |= (decoding[:, None] < decoding) & (tpot < least * tpot[:, None])
            counts = conflict.sum(0) + conflict.sum(1)
            if not counts.max():
                break
            bad.append(left.pop(int(np.flatnonzero(counts == counts.max())[-1])))
    series = table[[*GROUP, "file"]].agg("|".join, axis=1) + "|" + table["concurrency"].astype(str)
    share = series.loc[bad].value_counts() / series.value_counts()
    whole = series.isin(share[share >= 0.5].index)
    return whole | table.index.isin(bad)


def _loads(table: Frame) -> list[tuple[Frame, Load]]:
    """A load for each deployment among the rows, with the rows that it stands for."""
    by = [*GROUP, "gemm_quant_mode", "moe_quant_mode", "gpus", "moe_ep_size"]
    found = []
    for (sku, engine, key, _, dense_mode, expert_mode, gpus, ranks), rows in table.groupby(by):
        card, model, facts = load_sku(sku), load_model(MODELS[key]), load_engine(engine)
        deployment = _deployment(card, model, facts, key, dense_mode, expert_mode, int(gpus), int(ranks))
        share = rows["length_share"].to_numpy(float)
        inputs, outputs = rows["input_len"].to_numpy(float) * share, rows["output_len"].to_numpy(float) * share
        equal = rows["equal_lengths"].to_numpy(float)
        held = (engine == "trtllm") & (key == "Llama-3.1-70B") & (gpus < 8) & (equal == 0)
        held &= (rows["input_len"] == 1024).to_numpy() & (rows["output_len"] == 1024).to_numpy()
        load = Load(
            deployment,
            requests=rows["concurrency"].to_numpy(float),
            input_tokens=inputs,
            output_tokens=outputs,
            input_square=inputs**2,
            context=inputs + 0.5 * outputs,
            equal_lengths=equal,
            held_steps=_HELD_STEPS * held,
            requests_per_client=np.full(len(rows), _REQUESTS_PER_CLIENT),
        )
        found.append((rows.index, load))
    return found


def _deployment(
    sku: Sku, model: ModelConfig, engine: Engine, key: str, dense_mode: str, expert_mode: str, gpus: int, ranks: int
) -> Deployment:
    """What a row's label says of formats, read as its recipe does."""
    if key in DENSE:
        kv = engine.kv_format(sku, quantised=dense_mode != "unknown")
        blocks = dense_mode in ("fp8_block", "nvfp4")
        return Deployment(sku, model, engine, gpus, _WEIGHTS[dense_mode], kv, block_scales=blocks)
    experts: Format | None = None
    shared: Format | None = None
    weights = "bf16" if expert_mode in ("nvfp4", "int4_wo") else _WEIGHTS[dense_mode]
    blocks = dense_mode == "fp8_block"
    narrow = expert_mode not in ("unknown", "int4_wo")
    if key == "gpt-oss-120b":
        weights, experts = "bf16", _MXFP4_BLACKWELL if is_blackwell(sku) else FORMATS["mxfp4"]
        narrow = is_blackwell(sku)
    elif expert_mode == "nvfp4":
        experts = FORMATS["fp4"] if is_blackwell(sku) else _FP4_AS_BF16
        # NVIDIA's NVFP4 checkpoints of DeepSeek quantise shared experts too.
        shared = FORMATS["fp4"] if key == "DeepSeek" else None
    elif expert_mode == "int4_wo":
        experts = _INT4
    elif expert_mode == "unknown":
        experts = FORMATS["bf16"]
    kv = engine.kv_format(sku, quantised=narrow)
    return Deployment(sku, model, engine, gpus, weights, kv, experts, shared, max(ranks, 1), blocks)
