"""The closed form of serving against 5,221 measured rows."""

import numpy as np
import pytest

import factorgraph as fg
from factorgraph.evaluation.serving import evaluate_serving
from factorgraph.serving.rows import serving_rows


@pytest.fixture(scope="module")
def dataset():
    return fg.load_dataset("serving")


@pytest.fixture(scope="module")
def rows(dataset):
    return serving_rows(dataset)


@pytest.fixture(scope="module")
def found(dataset, rows):
    return evaluate_serving(dataset, rows=rows)


def test_every_row_is_scored_or_counted_under_a_reason(dataset, found):
    assert dataset.sizes["row"] == 5221
    assert sum(row["n"] for row in found.rows) + sum(found.excluded.values()) == 5221
    assert sum(part["n"] for part in found.overall.values()) == len(found.table)


def test_reasons_hold_what_they_say(dataset, found):
    table = dataset.to_dataframe()
    assert found.excluded["disaggregated prefill and decode"] == (table["mode"] == "disagg").sum() == 1602
    dense = found.table[found.table["set"] == "dense"]
    assert set(dense["sku"]) == {"h100-sxm", "h200-sxm", "b200"}
    assert set(dense["key"]) == {"Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-32B"}


def test_a_calibrated_host_is_not_scored_on_what_it_was_calibrated_on(found):
    dense = found.table[found.table["set"] == "dense"]
    used = (
        ((dense["engine"] == "vllm") & (dense["key"] == "Llama-3.1-70B"))
        | ((dense["engine"] == "sglang") & (dense["key"] == "Qwen3-32B"))
        | ((dense["engine"] == "trtllm") & (dense["key"] == "Llama-3.1-8B"))
    ) & (dense["sku"] == "h100-sxm")
    assert used.sum() == 45 + 84 + 177
    assert (dense["calibrated_tpot"].isna() == used).all()
    assert found.calibrated["dense"]["calibrated_n"] == 1019 - used.sum()


def test_dense_targets_hold(found):
    dense = found.overall["dense"]
    assert dense["tpot_mape"] <= 8.0
    assert dense["tpot_median"] <= 6.5
    assert dense["request_mape"] <= 8.0
    assert dense["ttft_mape"] <= 35.0
    assert dense["ttft_median"] <= 25.0
    assert all(row["tpot_mape"] <= 14.0 for row in found.rows if row["set"] == "dense")


def test_target_of_mixtures_of_experts_holds(found):
    assert found.overall["moe"]["tpot_mape"] <= 16.0


def test_only_dense_rows_of_the_home_gpu_were_seen(found):
    home = {(row["system"], row["set"]) for row in found.rows if row["role"] == "home"}
    assert home == {("h100-sxm", "dense")}


def test_errors_are_those_of_the_table(found):
    dense = found.table[found.table["set"] == "dense"]
    mape = 100 * np.mean(np.abs(dense["p_tpot"] / dense["tpot"] - 1))
    assert found.overall["dense"]["tpot_mape"] == pytest.approx(mape)
    request = dense["p_ttft"] + dense["output_len"] * dense["p_tpot"]
    mape = 100 * np.mean(np.abs(request / (dense["ttft"] + dense["output_len"] * dense["tpot"]) - 1))
    assert found.overall["dense"]["request_mape"] == pytest.approx(mape)


def test_configurations_are_ordered_as_measured(found):
    assert found.ranking["dense"]["tpot"]["kendall_tau"] > 0.85
    assert found.ranking["dense"]["cost"]["top1_agreement"] > 0.9


def test_a_gpu_left_out_is_scored_on_constants_that_never_saw_it(dataset, rows, found):
    left = evaluate_serving(dataset, protocol="logo", rows=rows)
    dense = [row for row in left.rows if row["set"] == "dense"]
    assert {row["role"] for row in dense} == {"unseen"}
    assert left.overall["dense"]["tpot_mape"] <= 8.0


def test_rows_of_one_gpu(dataset):
    b200 = evaluate_serving(dataset, sku="b200")
    assert {row["system"] for row in b200.rows} == {"b200"}
    assert sum(row["n"] for row in b200.rows) + sum(b200.excluded.values()) == int((dataset.sku == "b200").sum())


def test_a_gpu_without_rows_is_an_error(dataset):
    with pytest.raises(fg.FactorGraphError, match="has no row of l4;"):
        evaluate_serving(dataset, sku="l4")
