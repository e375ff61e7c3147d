"""`serve`, and `evaluate --kind serving`."""

import json
import sys

import pytest
from typer.testing import CliRunner

import factorgraph as fg
from factorgraph.cli import app, main

LOAD = ["--sku", "h100-sxm", "--model", "llama-3.1-8b", "--engine", "vllm", "--concurrency", "1,64"]


def ask(*arguments: str) -> dict:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_serve_agrees_with_the_library():
    document = ask("serve", *LOAD, "--input", "1024", "--output", "512", "--slo-tpot", "10")
    out = fg.serve(
        fg.engine_step_graph(), "h100-sxm", "llama-3.1-8b", engine="vllm", requests=[1, 64], input=1024, output=512
    )
    assert [row["concurrency"] for row in document["rows"]] == [1, 64]
    assert [row["tpot_s"] for row in document["rows"]] == pytest.approx(out.tpot.values.tolist())
    assert [row["ttft_s"] for row in document["rows"]] == pytest.approx(out.ttft.values.tolist())
    for row in document["rows"]:
        assert sum(row["parts_s"].values()) == pytest.approx(row["request_s"], rel=1e-4)
    within = [row["concurrency"] for row in document["rows"] if row["tpot_s"] <= 0.010]
    assert document["most_clients"] == {"h100-sxm": max(within)}


def test_serve_prints_tables_and_draws_the_limit(tmp_path):
    two = ["serve", "--sku", "h200-sxm", *LOAD, "--slo-tpot", "20", "--plot", str(tmp_path / "latency.svg")]
    result = CliRunner().invoke(app, two, catch_exceptions=False)
    assert result.exit_code == 0
    for words in ("TTFT", "TPOT", "tokens/s", "in SLO", "prefill of others", "decode: gemm", "h200-sxm", "h100-sxm"):
        assert words in result.stdout
    drawing = (tmp_path / "latency.svg").read_text(encoding="utf-8")
    assert "SLO 20 ms" in drawing
    assert (tmp_path / "latency.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--concurrency", "1,two"], "--concurrency '1,two' cannot be read; write whole numbers such as 1,8,64"),
        (["--concurrency", "0"], "requests is [0]; it must be numbers of 1 or more"),
        (["--engine", "vlm"], "unknown engine 'vlm'; did you mean 'vllm'"),
        (["--slo-tpot", "0"], "--slo-tpot is 0; give a time above 0 ms"),
        (["--tp", "3"], "tp=3"),
        (["--concurrency", "8", "--plot", "x.svg"], "a line needs at least two numbers of clients"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(monkeypatch, arguments, message):
    monkeypatch.setattr(sys, "argv", ["factorgraph", "serve", *LOAD, *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert message in str(stop.value.code)
    assert "\n" not in str(stop.value.code)


def test_evaluate_prints_the_documented_json():
    document = ask("evaluate", "--kind", "serving", "--sku", "h100-sxm")
    assert document["kind"] == "serving"
    row = {"system", "engine", "model", "precision", "n", "tpot_mape", "tpot_median", "tpot_bias", "ttft_mape"}
    assert all(row | {"request_mape", "role"} <= set(one) for one in document["rows"])
    overall = {"n", "tpot_mape", "tpot_median", "ttft_mape", "ttft_median", "request_mape"}
    assert set(document["overall"]) == {"dense", "moe"}
    assert all(set(one) == overall for one in document["overall"].values())
    counted = sum(one["n"] for one in document["rows"]) + sum(document["excluded"].values())
    assert counted == int((fg.load_dataset("serving").sku == "h100-sxm").sum())


def test_evaluate_prints_tables():
    result = CliRunner().invoke(app, ["evaluate", "--kind", "serving", "--sku", "b200"], catch_exceptions=False)
    for words in ("unseen", "By regime", "Rows left out", "Worst dense groups", "Order of configurations"):
        assert words in result.stdout
