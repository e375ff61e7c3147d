"""Cards: every bundled one holds together, and a faulty one is refused with its line."""

import dataclasses
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factorgraph import FactorGraphError, UnknownNameError
from factorgraph.hardware import DTYPES, Sku, list_generations, list_skus, load_generation, load_sku
from factorgraph.paths import data_root
from factorgraph.workload import load_model

CARDS = data_root("hardware")

WANTED = [
    *("v100-sxm2", "a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-40gb", "a100-pcie-80gb", "a30", "a40", "a10g"),
    *("rtx-a6000", "rtx-3090", "l4", "l20", "l40", "l40s", "rtx-6000-ada", "rtx-4090", "rtx-5090"),
    *("h100-sxm", "h100-pcie", "h200-sxm", "h800-sxm", "h20", "b200", "b300", "gb200", "gb300"),
    *("rtx-pro-6000-workstation", "rtx-pro-6000-server", "rtx-pro-6000-maxq"),
]


def text_of(name: str) -> str:
    return (CARDS / f"{name}.toml").read_text(encoding="utf-8")


@pytest.fixture
def card(tmp_path):
    """Write a changed card and load it."""

    def load(text: str | bytes) -> Sku:
        file = tmp_path / "mine.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_sku(file)

    return load


def fault_of(call: Callable[[], Any]) -> str | None:
    """What a call is refused with, or None."""
    try:
        call()
    except FactorGraphError as error:
        return str(error)
    return None


def line_of(text: str, start: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(start))


# --- the bundled cards -----------------------------------------------------------------------------------------------


def test_the_bundled_cards():
    assert set(WANTED) <= set(list_skus())


@pytest.mark.parametrize("name", list_skus())
def test_printed_peaks_multiply_out_or_the_card_says_why_not(name):
    peaks = [finding for finding in load_sku(name).check() if finding.kind == "peak"]
    assert peaks
    for peak in peaks:
        assert peak.agrees or peak.note, f"{peak.field} is off by {peak.ratio} and has no note"


@pytest.mark.parametrize("name", list_skus())
def test_every_number_has_unit_and_source(name):
    def entries(table):
        for value in table.values():
            if isinstance(value, dict):
                yield from [value] if "value" in value else entries(value)

    found = list(entries(tomllib.loads(text_of(name))))
    assert len(found) >= 15
    for entry in found:
        assert entry["source"]
        assert entry["value"] in (True, False) or entry["unit"]


@pytest.mark.parametrize("name", list_skus())
def test_half_the_bytes_go_at_least_twice_as_fast(name):
    rates = load_sku(name).flop_per_clock_per_sm
    assert rates.get("bf16", rates["fp16"]) == rates["fp16"]
    if "fp8" in rates:
        assert rates["fp8"] == 2 * rates["bf16"]
    if "fp4" in rates:
        assert rates["fp4"] >= 2 * rates["fp8"]


# Dense peaks as the makers print them, TFLOP/s.
@pytest.mark.parametrize(
    ("name", "dtype", "printed"),
    [
        ("h100-sxm", "bf16", 989.4),
        ("h100-pcie", "bf16", 756.5),
        ("h20", "bf16", 148),
        ("a100-sxm4-80gb", "bf16", 312),
        ("a30", "bf16", 165),
        ("a10g", "bf16", 70),
        ("l4", "fp8", 242.5),
        ("l40", "bf16", 181.05),
        ("l40s", "fp8", 733),
        ("rtx-4090", "bf16", 165.2),
        ("rtx-5090", "fp4", 1676),
        ("rtx-pro-6000-workstation", "bf16", 503.8),
        ("b200", "bf16", 2250),
        ("b200", "fp4", 9000),
        ("gb200", "fp8", 5000),
        ("gb300", "fp4", 15000),
        ("v100-sxm2", "fp16", 125),
    ],
)
def test_dense_peaks(name, dtype, printed):
    assert load_sku(name).peak_flops(dtype) / 1e12 == pytest.approx(printed, rel=0.005)


def test_numbers_are_in_si():
    h100 = load_sku("h100-sxm")
    assert (h100.boost_clock, h100.max_clock) == (1.83e9, 1.98e9)
    assert h100.dram_bandwidth == 3.35e12
    assert h100.dram_capacity == 80 * 2**30
    assert h100.l2_capacity == 50 * 2**20
    assert h100.smem_per_sm == 228 * 2**10
    assert (h100.tdp, h100.power_cap, h100.power_cap_min, h100.power_cap_max) == (700, 700, 200, 700)
    assert (h100.nvlink_bandwidth, h100.nvlink_domain, h100.pcie_bandwidth) == (450e9, 8, 64e9)
    assert (h100.generation, h100.compute_capability, h100.tensor_cores_per_sm) == ("hopper", 9.0, 4)


@pytest.mark.parametrize(
    ("name", "field", "value", "other"),
    [
        ("gb200", "sm_count", 152, 148),
        ("l40s", "l2_capacity", 96 * 2**20, 48e6),
        ("rtx-pro-6000-server", "dram_bandwidth", 1597e9, 1792e9),
        ("b300", "printed_peak.fp4", 13.5e15, 15e15),
        ("b200", "boost_clock", 1856e6, 1965e6),
    ],
)
def test_disagreements_between_sources_are_listed(name, field, value, other):
    found = [one for one in load_sku(name).check() if one.kind == "disagreement" and one.field == field]
    assert any((one.value, one.other) == (value, other) for one in found)
    assert all(one.source for one in found)


def test_unverified_numbers_are_listed():
    found = {one.field: one for one in load_sku("gb200").check() if one.kind == "unverified"}
    assert found["l2_capacity"].other is None
    assert found["l2_capacity"].ratio is None
    assert "sm_count" not in found
    assert "volta.process_energy" in {one.field for one in load_sku("v100-sxm2").check()}


# --- generations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_generations())
def test_generations_state_what_laws_read(name):
    generation = load_generation(name)
    assert generation["async_pipeline"] in (0.0, 1.0)
    assert 0.5 <= generation["process_energy"] <= 4.0
    assert generation["smem_per_sm"] in {kib * 1024 for kib in (32, 96, 100, 164, 228)}
    assert all(fact.source for fact in generation.facts.values())


def test_an_unknown_fact_or_generation_says_so():
    with pytest.raises(UnknownNameError, match="did you mean 'smem_per_sm'"):
        load_generation("hopper")["smem_per_sms"]
    with pytest.raises(UnknownNameError, match="did you mean 'hopper'"):
        load_generation("hoper")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("launch_class =", "launch_glass =", "line 1: mine lacks launch_class; add a line"),
        ('"KiB"', '"pages"', r"line 5: mine.smem_per_sm has unit 'pages'; known: 1, SM, s, "),
        ("value = 228", "value = -228", "line 5: mine.smem_per_sm is -233472; it must be positive"),
        ('title = "', 'title = 3 # "', "line 2: mine.title is 3"),
    ],
)
def test_a_faulty_table_of_generations(tmp_path, monkeypatch, old, new, complaint):
    (tmp_path / "hardware").mkdir()
    hopper = (CARDS / "generations.toml").read_text().partition("[hopper]")[2].partition("\n[")[0]
    (tmp_path / "hardware" / "generations.toml").write_text(f"[mine]{hopper}".replace(old, new, 1))
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    with pytest.raises(FactorGraphError, match=complaint):
        load_generation("mine")


def test_a_generation_of_ones_own(tmp_path, monkeypatch):
    folder = tmp_path / "hardware"
    folder.mkdir()
    hopper = (CARDS / "generations.toml").read_text().partition("[hopper]")[2].partition("\n[")[0]
    (folder / "generations.toml").write_text(
        f'[rubin]{hopper}warps = {{ value = 7, unit = "1", source = "a guess" }}\n'
    )
    (folder / "r200.toml").write_text(text_of("h200-sxm").replace('"hopper"', '"rubin"'))
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    assert "r200" in list_skus()
    assert load_sku("r200").architecture["warps"] == 7
    assert load_sku("r200").values()["warps"] == 7
    assert load_sku("h100-sxm").generation == "hopper"


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_sku_comes_back_as_it_is_and_a_name_in_either_case():
    h100 = load_sku("h100-sxm")
    assert load_sku(h100) is h100
    assert load_sku("H100-SXM") == h100
    assert load_sku(str(CARDS / "h100-sxm.toml")) == h100
    assert load_sku(CARDS / "h100-sxm.toml") == h100
    assert hash(load_sku("h100-sxm")) == hash(h100)


# Parts of names, names around names, and what drivers call a card: none may find one.
@pytest.mark.parametrize("name", ["h100", "b20", "sxm", "gb200-nvl72", "NVIDIA B200", "a100", "", "*", "generations"])
def test_no_part_of_a_name_finds_a_card(name):
    with pytest.raises(UnknownNameError, match="unknown GPU"):
        load_sku(name)


def test_an_unknown_name_gets_near_ones():
    with pytest.raises(UnknownNameError, match=r"did you mean .*'h100-sxm'"):
        load_sku("h100sxm")


@pytest.mark.parametrize("thing", [None, 3, {"sm_count": 132}])
def test_what_is_no_gpu_is_refused(thing):
    with pytest.raises(FactorGraphError, match="is no GPU"):
        load_sku(thing)


def test_a_users_card_comes_before_the_bundled_one(tmp_path, monkeypatch):
    (tmp_path / "hardware").mkdir()
    mine = text_of("l4").replace("NVIDIA L4 24 GB", "My L4")
    (tmp_path / "hardware" / "l4.toml").write_text(mine)
    monkeypatch.setenv("FACTORGRAPH_PATH", str(tmp_path))
    assert load_sku("l4").title == "My L4"
    assert load_sku("h100-sxm").title.startswith("NVIDIA")


# --- types and steps -------------------------------------------------------------------------------------------------


def test_a_type_the_gpu_lacks():
    with pytest.raises(FactorGraphError, match=r"a100-sxm4-80gb do not multiply in fp8; they do in bf16, fp16, int8"):
        load_sku("a100-sxm4-80gb").peak_flops("fp8")
    with pytest.raises(UnknownNameError, match="unknown type 'bf61'; did you mean 'bf16'"):
        load_sku("h100-sxm").peak_flops("bf61")


def test_a_step_the_gpu_cannot_run():
    llama = load_model("llama-3.1-8b")
    load_sku("h100-sxm").accepts(llama.decode(batch=1, context=128, tp=8, weights="fp8"))
    with pytest.raises(FactorGraphError, match="do not multiply in fp8"):
        load_sku("a100-sxm4-80gb").accepts(llama.decode(batch=1, context=128, weights="fp8"))
    with pytest.raises(FactorGraphError, match="do not multiply in bf16; they do in fp16"):
        load_sku("v100-sxm2").accepts(llama.decode(batch=1, context=128))
    with pytest.raises(FactorGraphError, match="tp=16 reaches beyond the 8 GPUs that NVLink joins"):
        load_sku("h100-sxm").accepts(llama.decode(batch=1, context=128, tp=16))
    load_sku("gb200").accepts(llama.decode(batch=1, context=128, tp=16))


def test_values_for_a_graph(h100):
    assert {key: value for key, value in load_sku("h100-sxm").values().items() if key in h100} == h100


def test_values_of_a_card_on_pcie_with_inline_ecc():
    values = load_sku("l40s").values()
    assert (values["link_bandwidth"], values["link_is_pcie"], values["ecc_factor"]) == (32e9, 1.0, 0.875)
    assert (values["launch_class"], values["async_pipeline"], values["l2_partitions"]) == (1.0, 0.0, 1.0)


# --- replacing numbers -----------------------------------------------------------------------------------------------


def test_replace():
    h100 = load_sku("h100-sxm")
    slow = h100.replace(boost_clock=1.2e9, power_cap=400.0)
    assert slow.peak_flops("bf16") == pytest.approx(132 * 4096 * 1.2e9)
    assert slow.values()["sm_clock"] == 1.2e9
    assert slow.values()["power_cap"] == 400.0
    assert not slow.printed_peak
    assert "boost_clock" not in slow.facts
    assert h100.boost_clock == 1.83e9
    bridged = load_sku("a40").replace(nvlink_bandwidth=56.25e9, nvlink_domain=2)
    assert bridged.values()["link_is_pcie"] == 0.0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"power_caps": 400.0}, "did you mean 'power_cap"),
        ({"facts": {}}, "unknown number"),
        ({"power_cap": 900.0}, "above the 700 of power_cap_max"),
        ({"power_cap": 100.0}, "power_cap_min of h100-sxm is 200, above the 100 of power_cap"),
        ({"power_cap": float("nan")}, "power_cap of h100-sxm is nan"),
        ({"power_cap": "400"}, "give a number in W"),
        ({"boost_clock": 1830}, "boost_clock of h100-sxm is 1830 Hz, outside"),
        ({"boost_clock": 2.1e9}, "above the 1.98e[+]09 of max_clock"),
        ({"sm_count": -1}, "must be positive"),
        ({"sm_count": 131.5}, "whole number"),
        ({"nvlink_domain": 1}, "nvlink_domain of h100-sxm is 1 at an nvlink_bandwidth of 4.5e[+]11"),
        ({"printed_peak": {"bf16": 1979e12}}, "looks like the peak with sparsity"),
        ({"flop_per_clock_per_sm": {"bf16": -4096.0}}, "must be positive"),
        ({"flop_per_clock_per_sm": {"bf61": 4096.0}}, "unknown type 'bf61'"),
    ],
)
def test_replace_refuses(changes, complaint):
    with pytest.raises(FactorGraphError, match=complaint):
        load_sku("h100-sxm").replace(**changes)


# --- faulty cards ----------------------------------------------------------------------------------------------------

CLOCK = "boost_clock = "


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("value = 1830", "value = -1830", "must be positive"),
        ("value = 1830", "value = 0", "must be positive"),
        ("value = 1830", "value = nan", "finite"),
        ("value = 1830", "value = -inf", "finite"),
        ("value = 1830", f"value = {10**400}", "finite"),
        ("value = 1830", 'value = "1830"', "number without quotes"),
        ("value = 1830", "value = true", "number without quotes"),
        ("value = 1830", "value = [1830]", "number without quotes"),
        ("value = 1830", "value = 2024-01-01", "number without quotes"),
        ("value = 1830, ", "", "must be written boost_clock = "),
        ('unit = "MHz", ', "", 'has no unit; write for example unit = "GHz"'),
        (
            '"MHz"',
            '"Hz"',
            "boost_clock is 1830 Hz, outside the 1e[+]08 to 4e[+]09 Hz of any GPU; did you mean 1830 MHz",
        ),
        ('"MHz"', '"GHz"', "did you mean 1830 MHz"),
        ('"MHz"', '"GB/s"', "has unit 'GB/s'; state it in Hz or kHz or MHz or GHz"),
        ('"MHz"', '"mHz"', "state it in"),
        ('"MHz"', "3", "state it in"),
        ("source =", "sauce =", "sauce is not known; did you mean 'source'"),
        ('source = "implied by the printed peak; glennklockwood.com"', 'source = " "', "has no source"),
        ('source = "', 'verified = "yes", source = "', "true or false"),
        ('source = "', 'note = 3, source = "', "text in quotes"),
        ('source = "', 'alternatives = 3, source = "', "alternatives that are no list"),
        ('source = "', 'alternatives = [{ value = 3 }], source = "', "alternatives that are no list"),
        (
            'source = "',
            'alternatives = [{ value = 3, unit = "Hz", source = "x" }], source = "',
            "did you mean 3 GHz",
        ),
        (CLOCK, "bost_clock = ", "bost_clock is not known; did you mean 'boost_clock'"),
        ("{ value = 1830", "{ value = 2830", "above the 1.98e[+]09 of max_clock"),
    ],
)
def test_a_faulty_line_is_named(card, old, new, complaint):
    text = text_of("h100-sxm")
    number = line_of(text, CLOCK)
    line = text.splitlines()[number - 1]
    assert old in line
    with pytest.raises(FactorGraphError, match=f"mine.toml, line {number}: .*{complaint}"):
        card(text.replace(line, line.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "start", "complaint"),
    [
        ('value = 3.35, unit = "TB/s"', 'value = 3.35, unit = "GB/s"', "dram_bandwidth", "did you mean 3.35 TB/s"),
        ("value = 989.4", "value = 1979", "printed_peak.bf16", "2.00 times .* sparsity"),
        ("value = 989.4", "value = 756", "printed_peak.bf16", "one of the four is wrong"),
        ("value = false", "value = 0", "dram_ecc_inline", "true or false"),
        ("value = false", 'value = false, unit = "1"', "dram_ecc_inline", "neither unit"),
        ("value = 132,", "value = 132.5,", "sm_count", "whole number"),
        ("value = 132,", "value = 13200,", "sm_count", "outside the 1 to 1024 of any GPU$"),
        ('generation = "hopper"', 'generation = "hoper"', "generation", "unknown generation 'hoper'; did you mean"),
        ('generation = "hopper"', "generation = 9", "generation", "text in quotes"),
        ("printed_peak.fp8", "printed_peak.fp4", "printed_peak.fp4", "has no flop_per_clock_per_sm.fp4"),
        ("printed_peak.fp8", "printed_peak.fp9", "printed_peak.fp9", "did you mean 'fp8'"),
        ("nvlink_domain = { value = 8", "nvlink_domain = { value = 1", "nvlink_domain", "without NVLink"),
        ("tdp = { value = 700", "tdp = { value = 750", "tdp", "above the 700 of power_cap_max"),
    ],
)
def test_other_faulty_lines(card, old, new, start, complaint):
    text = text_of("h100-sxm").replace(old, new, 1)
    with pytest.raises(FactorGraphError, match=f"line {line_of(text, start)}: .*{complaint}"):
        card(text)


def test_the_line_in_a_section_of_its_own(card):
    """Sections, comments that look like keys, and texts over several lines do not mislead the search for the line."""
    text = text_of("h100-sxm").replace(CLOCK, "# boost_clock.value = 3\n" + CLOCK)
    lines = [line for line in text.splitlines() if not line.startswith(CLOCK)]
    section = ['note = """', "value = -1", '"""', "value = -1830", 'unit = "MHz"', 'source = "x"']
    text = "\n".join([*lines, "[boost_clock]", *section])
    with pytest.raises(
        FactorGraphError, match=f"line {len(lines) + 5}: boost_clock is -1.83e[+]09; it must be positive"
    ):
        card(text)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_either_line_ending(card, ending):
    text = ending.join(text_of("h100-sxm").splitlines()) + ending
    assert card(text).sm_count == 132
    with pytest.raises(FactorGraphError, match=f"line {line_of(text, 'tdp')}: tdp"):
        card(text.replace("tdp = { value = 700", "tdp = { value = -700"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"title = 'a'\nboost_clock = {\n", "is no TOML: .*line 2"),
        (b"title = 'a'\nboost_clock = [", "is no TOML: .*the end, line 2"),
        (b"title = 'a'\n\xff\xfe", "line 2: not UTF-8"),
        (b"a = " + b"[" * 20000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "is no TOML"),
        (b"title = 'a'\n", "sm_count is missing; add a line sm_count = { value = 132"),
        (b"printed_peak = 3\n", "missing"),
    ],
)
def test_files_that_are_no_cards(card, content, complaint):
    with pytest.raises(FactorGraphError, match=complaint):
        card(content)


def test_paths_that_are_no_cards(tmp_path):
    with pytest.raises(FactorGraphError, match="is a folder"):
        load_sku(tmp_path)
    with pytest.raises(FactorGraphError, match="No such file"):
        load_sku("nowhere.toml")
    with pytest.raises(FactorGraphError, match="is no path"):
        load_sku("a\0.toml")
    with pytest.raises(FactorGraphError, match="is not known"):
        load_sku(CARDS / "generations.toml")


@pytest.mark.parametrize("key", ["title", "generation", "sm_count", "dram_ecc_inline", "boost_clock", "tdp"])
def test_a_missing_line_is_named(card, key):
    lines = [line for line in text_of("h100-sxm").splitlines() if not line.startswith(f"{key} =")]
    with pytest.raises(FactorGraphError, match=f"mine.toml: {key} is missing; add a line {key} = "):
        card("\n".join(lines))


@pytest.mark.parametrize("key", ["base_clock", "min_clock", "power_cap_min"])
def test_what_may_be_unknown(card, key):
    lines = [line for line in text_of("rtx-5090").splitlines() if not line.startswith(f"{key} =")]
    assert getattr(card("\n".join(lines)), key) is None


# --- mutated cards ---------------------------------------------------------------------------------------------------

UNITS = ["Hz", "MHz", "GHz", "GB/s", "TB/s", "GB", "MiB", "W", "kW", "SM", "1", "FLOP", "TFLOP/s", "", "furlong"]


@st.composite
def mutated(draw):
    """A card with one line dropped, negated, put into another unit or overwritten with any bytes."""
    lines = text_of(draw(st.sampled_from(WANTED))).splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    match draw(st.sampled_from(["drop", "double", "negate", "scale", "unit", "cut", "garble"])):
        case "drop":
            del lines[at]
        case "double":
            lines.insert(at, lines[at])
        case "negate":
            lines[at] = lines[at].replace("value = ", "value = -")
        case "scale":
            lines[at] = lines[at].replace(", unit", draw(st.sampled_from(["e3", "e-3", "e300", ".5"])) + ", unit")
        case "unit":
            head, _, tail = lines[at].partition('unit = "')
            lines[at] = head + 'unit = "' + draw(st.sampled_from(UNITS)) + '"' + tail.partition('"')[2]
        case "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        case "garble":
            content = "\n".join(lines).encode()
            start = draw(st.integers(0, len(content)))
            return content[:start] + draw(st.binary(min_size=1, max_size=4)) + content[start + 2 :]
    return "\n".join(lines).encode()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cards") / "mutant.toml"


@given(content=mutated())
def test_a_mutated_card_loads_sound_or_is_refused_by_name(scratch, content):
    scratch.write_bytes(content)
    if fault := fault_of(lambda: load_sku(scratch)):
        assert str(scratch) in fault
        assert ", line " in fault or "missing; add a line" in fault or "is no TOML" in fault
        return
    sku = load_sku(scratch)
    numbers = [value for value in vars(sku).values() if isinstance(value, float)]
    assert all(math.isfinite(value) and value >= 0 for value in numbers)
    assert all(math.isfinite(sku.peak_flops(dtype)) for dtype in sku.flop_per_clock_per_sm)


@given(
    name=st.sampled_from(WANTED),
    field=st.sampled_from([field.name for field in dataclasses.fields(Sku)]),
    scale=st.floats(0.2, 5),
)
def test_peaks_follow_what_they_are_counted_from(name, field, scale):
    sku = load_sku(name)
    value = getattr(sku, field)
    assume(isinstance(value, float))
    if fault := fault_of(lambda: sku.replace(**{field: value * scale})):
        assert name in fault
        return
    changed = sku.replace(**{field: value * scale})
    counted = scale if field in ("sm_count", "boost_clock") else 1.0
    for dtype in set(DTYPES) & set(sku.flop_per_clock_per_sm):
        assert changed.peak_flops(dtype) == pytest.approx(counted * sku.peak_flops(dtype))
