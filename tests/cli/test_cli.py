"""The command: what it prints for people and for machines, and how it says no."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import factorgraph as fg
from factorgraph.cli import app, main

STEP = ["--sku", "h100-sxm", "--model", "llama-3.1-8b", "--batch", "64", "--context", "2048"]


def ask(*arguments: str) -> dict:
    """Run a command with --json and read what it prints."""
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(monkeypatch, *arguments: str) -> str:
    """Run the command as a shell would, and give the one sentence it exits with."""
    monkeypatch.setattr(sys, "argv", ["factorgraph", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    message = str(stop.value.code)
    assert message.startswith("factorgraph: ")
    assert "\n" not in message
    return message


def test_predict_prints_the_documented_json():
    document = ask("predict", *STEP)
    assert set(document) == {"t_step_s", "t_step_interval_s", "t_gpu_s", "t_host_s", "validity", "kernels", "inputs"}
    fields = {"name", "kind", "count", "time_s", "flop", "bytes", "bound"}
    etas = {"eta_clock", "eta_wave", "eta_tc", "eta_barrier", "eta_mem"}
    assert all(set(kernel) == fields | etas for kernel in document["kernels"])
    total = sum(kernel["count"] * kernel["time_s"] for kernel in document["kernels"])
    assert total == pytest.approx(document["t_gpu_s"], rel=1e-5)
    assert document["t_step_s"] == pytest.approx(document["t_gpu_s"] + document["t_host_s"], rel=1e-6)
    assert document["inputs"]["power_cap_w"] == 700.0
    assert {k["kind"] for k in document["kernels"]} == {"gemm", "attention", "light"}


def test_predict_agrees_with_the_library():
    model = fg.load_model("llama-3.1-8b")
    out = fg.step_graph("base").predict(fg.load_sku("h100-sxm"), model.decode(batch=64, context=2048), power_cap=400.0)
    document = ask("predict", *STEP, "--power-cap", "400", "--variant", "base")
    assert document["t_step_s"] == pytest.approx(float(out.t_step), rel=1e-6)


def test_tensor_parallelism_brings_collectives():
    kinds = {kernel["kind"] for kernel in ask("predict", *STEP, "--tp", "2")["kernels"]}
    assert "collective" in kinds


def test_tables_show_every_kernel_uncut():
    result = CliRunner().invoke(app, ["predict", *STEP])
    assert all(name in result.stdout for name in ("attention_decode", "gate_up_proj", "lm_head", "sampling"))
    assert "…" not in result.stdout


def test_waterfall_adds_up():
    for gemm in ask("waterfall", *STEP)["gemms"]:
        lost = sum(gemm["points_lost"].values())
        assert lost == pytest.approx(100 * (1 - gemm["efficiency"]["eta_mem"]), abs=1e-6)


def test_sensitivity_prints_a_row_each():
    rows = ask("sensitivity", *STEP)["rows"]
    assert [row["parameter"] for row in rows] == ["sm_clock", "power_cap", "working_set"]
    assert all(row["elasticity"] <= 1e-6 for row in rows[:2])


def test_sweep_writes_what_it_says(tmp_path):
    out = tmp_path / "sweep.nc"
    document = ask("sweep", *STEP, "--over", "power_cap=300:700:5", "--over", "sm_clock=1e9:1.8e9:3", "--out", str(out))
    stored = fg.results.read(out)
    assert document["points"] == 15 == stored.t_step.size
    assert stored.t_step.dims == ("power_cap", "sm_clock")


def test_graph_draws_itself():
    assert "flowchart LR" in CliRunner().invoke(app, ["graph", "--format", "mermaid"]).stdout
    assert {law["variable"] for law in ask("graph")["laws"]} >= {"t_step", "eta_mem"}


def test_sku_commands():
    assert {row["name"] for row in ask("sku", "list")["skus"]} == set(fg.list_skus())
    assert ask("sku", "show", "l40s")["generation"] == "ada"
    findings = ask("sku", "check")["findings"]
    l2 = [f for f in findings if f["sku"] == "l40s" and f["kind"] == "disagreement" and f["field"] == "l2_capacity"]
    assert len(l2) == 1
    assert "Countable units" in CliRunner().invoke(app, ["sku", "check", "h100-sxm"]).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "--sku", "h100", "--model", "llama-3.1-8b"], "unknown GPU 'h100'; did you mean 'h100-sxm'"),
        (["predict", "--sku", "h100-sxm", "--model", "llama3"], "unknown model 'llama3'"),
        (["predict", *STEP, "--power-cap", "5000"], "--power-cap 5000 is not possible on h100-sxm; give 200 to 700 W"),
        (["predict", *STEP, "--clock", "nan"], "--clock nan is not possible"),
        (["predict", *STEP, "--clock", "1.8"], "sm_clock = 1.8e+06 Hz is outside its domain"),
        (["predict", *STEP, "--tp", "3"], "3"),
        (["predict", *STEP, "--variant", "fast"], "unknown step graph 'fast'"),
        (["predict", "--sku", "a100-sxm4-80gb", "--model", "llama-3.1-8b", "--weights", "fp8"], "multiply in fp8"),
        (["sensitivity", *STEP, "--wrt", "clock"], "clock"),
        (["sweep", *STEP, "--over", "power_cap=300"], "write NAME=START:STOP:N such as power_cap=300:700:9"),
        (["sweep", *STEP, "--over", "watts=300:700:3"], "unknown quantity to sweep over 'watts'; did you mean"),
        (["evaluate", "--kind", "serving", "--source", "gemm-bf16"], "of kind gemm, not serving"),
        (["evaluate", "--kind", "attention", "--source", "gemm-bf16"], "of kind gemm, not attention"),
        (["data", "import", "times.csv", "--format", "csv"], "the format 'csv' needs kind and columns"),
        (["graph", "--format", "svg"], "unknown graph format 'svg'"),
        (["sku", "show", "nothing.toml"], "nothing.toml"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(monkeypatch, arguments, message):
    assert message in refused(monkeypatch, *arguments)


def test_a_folder_for_a_file_is_refused(monkeypatch, tmp_path):
    folder = tmp_path / "out.nc"
    folder.mkdir()
    over = ["--over", "power_cap=300:700:2", "--out", str(folder)]
    assert "out.nc" in refused(monkeypatch, "sweep", *STEP, *over)
    assert folder.is_dir()


def test_a_sweep_over_the_steps_own_numbers_has_them_as_dimensions(tmp_path):
    out = tmp_path / "sweep.nc"
    ask("sweep", *STEP, "--over", "batch=1:65:3", "--out", str(out))
    stored = fg.results.read(out)
    assert stored.batch.values.tolist() == [1.0, 33.0, 65.0]
    assert (stored.t_step.diff("batch") > 0).all()


def test_version_and_help_and_exit_status():
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == f"factorgraph {fg.__version__}"
    assert "predict" in CliRunner().invoke(app, ["--help"]).stdout
    failed = subprocess.run(
        [sys.executable, "-m", "factorgraph", "sku", "show", "h1"], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr.startswith("factorgraph: unknown GPU 'h1'")
    assert "Traceback" not in failed.stderr
