"""A card of a CPU, from files that a machine has or lacks."""

import json

import pytest
from typer.testing import CliRunner

import factorgraph as fg
from factorgraph.cli import app
from factorgraph.datasets import write_netcdf
from factorgraph.hardware import Fact, load_sku
from factorgraph.measuring import card_facts, card_text, write_card
from factorgraph.measuring.tables import as_dataset

DEVICE = "Example(R) Xeon(TM) CPU @ 3.00GHz"


@pytest.fixture
def machine(tmp_path):
    """/proc and /sys of a machine that tells all."""
    proc, system = tmp_path / "proc", tmp_path / "sys"
    files = {
        proc / "cpuinfo": f"model name\t: {DEVICE}\ncpu MHz\t\t: 1200.0\nflags\t\t: sse2 avx avx2 fma avx512f\n\n",
        proc / "meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n",
        system / "devices/system/cpu/cpu0/cache/index2/size": "2048K\n",
        system / "devices/system/cpu/cpu0/cache/index3/size": "36M\n",
        system / "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3700000\n",
        system / "class/powercap/intel-rapl:0/constraint_0_max_power_uw": "165000000\n",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return {"proc": proc, "system": system}


@pytest.fixture
def bandwidth(tmp_path):
    """Streams: from the cache 80 GB/s, beyond it 20 and 25."""

    def write(device=DEVICE, states=("warm", "cold", "cold")):
        rows = [
            {"volume": 1e9, "cache_state": state, "latency": 1e9 / speed, "spread": 0.0, "bandwidth": speed}
            for state, speed in zip(states, (80e9, 20e9, 25e9), strict=True)
        ]
        said = ("title", "sku", "engine", "engine_version", "kernel_source", "dtype", "statistic", "source", "date")
        facts = dict.fromkeys(said, "unknown") | {"device": device, "date": "2026-01-02"}
        return write_netcdf(as_dataset("bandwidth", rows, facts), tmp_path / "bandwidth.nc")

    return write


def test_what_the_machine_says_is_on_the_card(machine, bandwidth, tmp_path):
    card = write_card(tmp_path / "mine.toml", card_facts(bandwidth(), **machine), DEVICE)
    assert card.name == "mine"
    assert card.title == DEVICE
    assert card.generation == "cpu"
    assert card.max_clock == card.boost_clock == 3.7e9
    assert card.l2_capacity == 36 * 2**20
    assert card.dram_capacity == 16 * 2**30
    assert card.dram_bandwidth == pytest.approx(25e9)
    assert card.tdp == pytest.approx(165.0)
    # 16 lanes, 2 units, a multiplication and an addition each
    assert card.peak_flops("fp32") == card.sm_count * 64 * 3.7e9
    assert not card.printed_peak
    assert "bandwidth.nc of 2026-01-02" in card.facts["dram_bandwidth"].source
    assert all(fact.source for fact in card.facts.values())
    unread = {finding.field for finding in card.check() if not finding.field.startswith("cpu.")}
    assert unread == {"flop_per_clock_per_sm.fp32", "pcie_bandwidth"}


@pytest.mark.parametrize(
    ("flags", "flop"), [("sse2 avx512f avx2", 64), ("avx2 avx sse2", 32), ("sse2", 16), ("none", 4)]
)
def test_flop_per_clock_follow_the_widest_unit(flags, flop, machine, bandwidth):
    (machine["proc"] / "cpuinfo").write_text(f"model name : {DEVICE}\nflags : {flags}\n")
    assert card_facts(bandwidth(), **machine)["flop_per_clock_per_sm.fp32"].value == flop


def test_what_a_container_hides_is_marked_as_assumed(machine, bandwidth, tmp_path):
    facts = card_facts(bandwidth(), proc=machine["proc"], system=tmp_path / "nothing")
    assert facts["max_clock"].value == 1.2e9
    for name in ("max_clock", "l2_capacity", "tdp"):
        assert not facts[name].verified
    assert "there is no cpufreq" in facts["max_clock"].source
    assert write_card(tmp_path / "a.toml", facts, DEVICE).max_clock == 1.2e9


def test_a_title_in_quotes_comes_back(tmp_path, machine, bandwidth):
    title = 'A "fast" CPU \\ with ünits'
    assert write_card(tmp_path / "a.toml", card_facts(bandwidth(), **machine), title).title == title


def test_where_there_is_no_proc(tmp_path):
    with pytest.raises(fg.FactorGraphError, match="which only Linux has; write one by hand"):
        card_facts(proc=tmp_path / "none")


def test_bandwidth_of_another_machine(machine, bandwidth):
    with pytest.raises(fg.FactorGraphError, match="was measured on 'Other CPU', this machine is 'Example"):
        card_facts(bandwidth("Other CPU"), **machine)


def test_bandwidth_of_the_cache_alone(machine, bandwidth):
    with pytest.raises(fg.FactorGraphError, match="is all from the cache"):
        card_facts(bandwidth(states=("warm", "warm", "warm")), **machine)


def test_a_dataset_of_another_kind(machine):
    from factorgraph.paths import data_root

    gemms = next((data_root("datasets") / "gemm-bf16").glob("*.nc"))
    with pytest.raises(fg.FactorGraphError, match="is of kind gemm; give one of `measure bandwidth`"):
        card_facts(gemms, **machine)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("a.txt", "does not end in .toml"),
        ("d.toml", "is a folder"),
        ("here.toml", "exists"),
        ("file/a.toml", "cannot be written"),
    ],
)
def test_a_card_that_cannot_be_written(name, complaint, tmp_path):
    (tmp_path / "d.toml").mkdir()
    (tmp_path / "here.toml").write_text("mine")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(fg.FactorGraphError, match=complaint):
        write_card(tmp_path / name, {}, DEVICE)
    assert (tmp_path / "here.toml").read_text() == "mine"


def test_a_cpu_s_numbers_are_held_to_a_cpu_s_ranges(machine, bandwidth, tmp_path):
    facts = card_facts(bandwidth(), **machine)
    facts["max_clock"] = facts["boost_clock"] = Fact(3.7e13, "Hz", "a slip")
    with pytest.raises(fg.FactorGraphError, match=r"boost_clock is .* of any CPU"):
        write_card(tmp_path / "a.toml", facts, DEVICE)


def test_the_bundled_gpus_keep_their_ranges(tmp_path):
    text = card_text({}, "x").replace('generation = "cpu"', 'generation = "hopper"')
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(fg.FactorGraphError, match="sm_count is missing"):
        load_sku(tmp_path / "a.toml")


def test_the_command_writes_a_card_of_this_machine(bandwidth, tmp_path):
    from factorgraph.measuring import cpu_model

    file, out = bandwidth(cpu_model()), tmp_path / "this.toml"
    result = CliRunner().invoke(
        app, ["sku", "from-machine", "--bandwidth", str(file), "--out", str(out), "--json"], catch_exceptions=False
    )
    assert json.loads(result.stdout)["facts"]["dram_bandwidth"]["value"] == pytest.approx(25e9)
    assert load_sku(out).title == cpu_model()
    shown = CliRunner().invoke(app, ["sku", "from-machine", "--bandwidth", str(file)], catch_exceptions=False).stdout
    assert shown == out.read_text()


def test_a_file_without_a_device_is_not_of_this_machine(machine, tmp_path, bandwidth):
    dataset = fg.load_dataset(bandwidth())
    del dataset.attrs["device"]
    file = write_netcdf(dataset, tmp_path / "other.nc")
    with pytest.raises(fg.FactorGraphError, match="was measured on 'unknown'"):
        card_facts(file, **machine)
