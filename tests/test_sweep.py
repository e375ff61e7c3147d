"""A sweep says what predictions say, wherever it runs, however often it is killed."""

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

import factorgraph as fg
from factorgraph.blocks import Parts, run_blocks
from factorgraph.errors import FactorGraphError, UnknownNameError
from factorgraph.hardware import load_sku
from factorgraph.sweep import sweep
from factorgraph.workload import load_model


@pytest.fixture(scope="module")
def cards():
    return [load_sku("h100-sxm"), load_sku("h200-sxm")]


@pytest.fixture(scope="module")
def models():
    return [load_model("llama-3.1-8b"), load_model("llama-3.1-70b")]


@pytest.fixture(scope="module")
def grid(cards, models):
    return sweep(
        fg.step_graph(),
        cards,
        models,
        outputs=["t_step", "t_gpu"],
        tp=[1, 2],
        batch=[1, 8, 64],
        context=2048,
        power_cap=[350.0, 700.0],
        **{"t_host.s0": [0.0, 1e-3]},
    )


@pytest.fixture(scope="module")
def loaded(grid):
    return grid.load(workers=2)


@pytest.fixture
def quick(models):
    """Eighty blocks of a graph that takes no time: the host's share of a step."""
    graph = fg.step_graph().subgraph("t_host")
    card = {"sm_clock": 1.8e9}
    return sweep(graph, card, models[0], outputs=["t_host"], block_points=50, batch=np.arange(1, 4001), context=128)


def host_time(batch):
    law = fg.step_graph()["t_host"]
    return float(law.s0) + float(law.s1) * batch


def test_points_are_predictions(grid, loaded, cards, models):
    assert grid.sizes == {"sku": 2, "model": 2, "tp": 2, "batch": 3, "power_cap": 2, "t_host.s0": 2}
    for sku, model, tp, batch, cap, s0 in [
        (0, 0, 1, 8, 350.0, 1e-3),
        (1, 1, 2, 64, 700.0, 0.0),
        (1, 0, 2, 1, 700.0, 0.0),
    ]:
        graph = fg.step_graph().with_parameters({"t_host.s0": s0})
        step = models[model].decode(batch=batch, context=2048, tp=tp)
        expected = graph.predict(cards[sku], step, power_cap=cap)
        point = {"sku": cards[sku].name, "model": models[model].name, "tp": tp, "batch": batch, "power_cap": cap}
        found = loaded.sel(point | {"t_host.s0": s0})
        np.testing.assert_allclose(found.t_step, expected.t_step, rtol=1e-5)
        np.testing.assert_allclose(found.t_gpu, expected.t_gpu, rtol=1e-5)


def test_a_grid_of_one_point_is_a_number(models, tmp_path):
    graph = fg.step_graph().subgraph("t_host")
    one = sweep(graph, {"sm_clock": 1.8e9}, models[0], outputs=["t_host"], batch=7, context=128)
    assert (one.points, one.sizes) == (1, {})
    assert float(one.load().t_host) == pytest.approx(host_time(7), rel=1e-6)
    assert float(one.lazy().t_host) == pytest.approx(host_time(7), rel=1e-6)
    for ending, engine in ((".nc", "netcdf4"), (".zarr", "zarr")):
        with xr.open_dataset(one.write(tmp_path / f"one{ending}"), engine=engine) as back:
            assert float(back.t_host) == pytest.approx(host_time(7), rel=1e-6)


def test_a_point_without_a_finite_result_is_named(models):
    graph = fg.step_graph().subgraph("t_host").with_parameters({"t_host.s1": 3e38})
    grid = sweep(graph, {"sm_clock": 1.8e9}, models[0], outputs=["t_host"], batch=[1, 10], context=128)
    with pytest.raises(FactorGraphError, match=r"'t_host' is not finite at batch=10\.0"):
        grid.load()


def test_labels_units_and_provenance_come_along(loaded):
    assert loaded.t_step.units == "s"
    assert loaded.power_cap.units == "W"
    assert '"context": 2048.0' in loaded.held
    assert "ReuseDistance" in loaded.laws


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_what_is_written_is_what_is_loaded(ending, grid, loaded, tmp_path):
    path = grid.write(tmp_path / f"out{ending}", workers=2)
    with xr.open_dataset(path, engine="zarr" if ending == ".zarr" else "netcdf4") as back:
        np.testing.assert_array_equal(back.t_step, loaded.t_step)
        assert back.t_step.dims == loaded.t_step.dims
        assert back.t_step.units == "s"
        assert back.model.values.tolist() == loaded.model.values.tolist()
    assert os.listdir(tmp_path) == [path.name]


def test_a_lazy_grid_computes_only_what_is_asked_for(quick, monkeypatch):
    computed, compute = [], type(quick).compute_block
    monkeypatch.setattr(type(quick), "compute_block", lambda self, n: computed.append(n) or compute(self, n))
    lazy = quick.lazy()
    assert computed == []
    times = lazy.t_host.sel(batch=slice(60, 120)).compute(scheduler="synchronous")
    np.testing.assert_allclose(times, host_time(times.batch), rtol=1e-6)
    assert sorted(computed) == [1, 2]


def test_processes_find_the_same(quick):
    found = quick.load(on="processes", workers=1)
    np.testing.assert_allclose(found.t_host, host_time(found.batch), rtol=1e-6)


def test_a_broken_off_sweep_goes_on_where_it_stopped(quick, tmp_path, monkeypatch):
    path, keep = tmp_path / "out.nc", Parts.keep

    def break_off(parts, number, block):
        if len(parts.finished()) == 5:
            raise KeyboardInterrupt
        keep(parts, number, block)

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "keep", break_off)
        with pytest.raises(KeyboardInterrupt):
            quick.write(path)
    assert not path.exists()
    before = Parts.open(path, quick.fingerprint).finished()
    computed, compute = [], type(quick).compute_block
    monkeypatch.setattr(type(quick), "compute_block", lambda self, n: computed.append(n) or compute(self, n))
    quick.write(path)
    assert sorted([*before, *computed]) == list(range(len(quick.blocks)))
    with xr.open_dataset(path) as back:
        np.testing.assert_allclose(back.t_host, host_time(back.batch), rtol=1e-6)


def test_a_killed_process_loses_nothing_it_had_finished(quick, tmp_path):
    """Killed without warning in mid-run, by a signal that cannot be caught."""
    path, job = tmp_path / "out.nc", tmp_path / "job.pickle"
    job.write_bytes(pickle.dumps(quick))
    code = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb')).write(sys.argv[2], workers=1)"
    child = subprocess.Popen([sys.executable, "-c", code, str(job), str(path)])
    parts = Parts(path.with_name(f".{path.name}.parts"))
    while not parts.finished() and child.poll() is None:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = {number: (parts.folder / f"{number}.npz").stat().st_mtime_ns for number in parts.finished()}
    assert kept or path.exists()
    seen = []
    whole = Parts.open(path, quick.fingerprint)
    missing = [number for number in range(len(quick.blocks)) if number not in whole.finished()]
    run_blocks(
        quick, missing, lambda n, block: seen.append(n) or whole.keep(n, block), on="threads", workers=1, progress=False
    )
    assert sorted([*kept, *seen]) == list(range(len(quick.blocks)))
    assert all((parts.folder / f"{number}.npz").stat().st_mtime_ns == at for number, at in kept.items())
    quick.write(path)
    with xr.open_dataset(path) as back:
        np.testing.assert_allclose(back.t_host, host_time(back.batch), rtol=1e-6)


def test_a_cluster_that_loses_a_worker_in_mid_run_finishes_all_the_same(quick):
    from distributed import LocalCluster

    kept = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        victim = cluster.workers[0].pid

        def keep(number, block):
            if not kept:
                os.kill(victim, signal.SIGKILL)
            kept.append(number)
            np.testing.assert_allclose(
                block["t_host"], host_time(quick.coords["batch"][quick.blocks[number][0]]), rtol=1e-6
            )

        run_blocks(quick, range(len(quick.blocks)), keep, on=cluster.scheduler_address, workers=None, progress=False)
    assert sorted(kept) == list(range(len(quick.blocks)))


def test_another_sweep_is_not_taken_for_the_rest_of_this_one(quick, tmp_path):
    Parts.open(tmp_path / "out.nc", "something else")
    with pytest.raises(FactorGraphError, match="another sweep"):
        quick.write(tmp_path / "out.nc")


def test_an_old_file_is_replaced_by_the_whole_new_one(quick, tmp_path):
    for ending in ("nc", "zarr"):
        first = quick.write(tmp_path / f"out.{ending}")
        assert quick.write(first) == first


def test_fingerprints_differ_where_anything_does(models):
    def mark(batch=(1, 2), s0=1e-3, card=1.8e9, context=128, outputs=("t_step",)):
        graph = fg.step_graph("base").with_parameters({"t_host.s0": s0})
        sku = load_sku("h100-sxm")
        return sweep(graph, sku, models[0], batch=batch, context=context, sm_clock=card, outputs=outputs).fingerprint

    marks = [mark(), mark((1, 3)), mark(s0=2e-3), mark(card=1.7e9), mark(context=64), mark(outputs=("t_gpu",))]
    assert len(set(marks)) == len(marks)
    assert mark() == marks[0]


def test_progress_shows_points_and_rate(quick, capsys):
    quick.load(progress=True)
    assert "4,000 of 4,000 points" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        ({"batch": [1], "context": 128, "sm_clok": 1e9}, UnknownNameError, "did you mean 'sm_clock'"),
        ({"batch": [], "context": 128}, FactorGraphError, "at least one"),
        ({"batch": [1, 1], "context": 128}, FactorGraphError, "twice"),
        ({"batch": [1, -4], "context": 128}, FactorGraphError, "batch"),
        ({"batch": ["many"], "context": 128}, FactorGraphError, "no number"),
        ({"batch": [1], "context": [128, 1e9]}, FactorGraphError, "positions"),
        ({"batch": [1], "context": 128, "tp": [3]}, FactorGraphError, "cannot be split"),
        ({"batch": [1], "context": 128, "power_cap": [700.0, 1e6]}, FactorGraphError, "domain"),
        ({"batch": [1], "context": 128, "outputs": ["t_gemm"]}, FactorGraphError, "one number a kernel"),
        ({"batch": [1], "context": 128, "outputs": ["t_stp"]}, UnknownNameError, "did you mean"),
        ({"batch": [1], "context": 128, "phase": "decoding"}, UnknownNameError, "did you mean 'decode'"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(axes, error, message, cards, models):
    with pytest.raises(error, match=message):
        sweep(fg.step_graph(), cards, models[0], **axes)


def test_units_of_an_axis_are_converted(cards, models):
    caps = xr.DataArray([0.35, 0.7], dims="power_cap", attrs={"units": "kW"})
    grid = sweep(fg.step_graph(), cards[0], models[0], batch=1, context=128, power_cap=caps)
    assert grid.coords["power_cap"].tolist() == [350.0, 700.0]


def test_models_and_cards_are_checked(cards, models):
    graph = fg.step_graph()
    for bad in ([], [models[0], models[0]], ["llama-3.1-8b"]):
        with pytest.raises(FactorGraphError, match="model"):
            sweep(graph, cards, bad, batch=1, context=128)
    with pytest.raises(FactorGraphError, match="h100-sxm"):
        sweep(graph, cards, models[0], batch=1, context=128, weights=["bf16", "fp4"])
    with pytest.raises(FactorGraphError, match="at least one point"):
        sweep(graph, cards, models[0], batch=1, context=128, block_points=0)


@pytest.mark.parametrize(
    ("on", "message"), [("thread", "is no place to compute"), ("tcp://127.0.0.1:9", "no dask scheduler answers")]
)
def test_a_place_that_is_not_there_is_named(on, message, quick, monkeypatch):
    monkeypatch.setattr("factorgraph.blocks._PATIENCE_S", 1)
    with pytest.raises(FactorGraphError, match=message):
        quick.load(on=on)


def test_a_file_of_another_kind_is_refused(quick, tmp_path):
    with pytest.raises(FactorGraphError, match=r"end its name in .nc or .zarr"):
        quick.write(tmp_path / "out.csv")
