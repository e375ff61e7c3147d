"""Trace files: each public format as its publisher lays it out, and files that something happened to."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorgraph.errors import FactorGraphError
from factorgraph.replay.traces import load_trace, make_requests

# The first rows of the files as published.
AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
"""
BURST_GPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 7319, "output_length": 490, "hash_ids": [0, 14, 15]}
{"timestamp": 3052, "input_length": 7234, "output_length": 794, "hash_ids": [0, 28, 29]}
"""


@pytest.fixture
def written(tmp_path):
    def write(content, name="trace.csv"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


@pytest.mark.parametrize(
    ("content", "format", "arrival", "tokens"),
    [
        (AZURE_2023, "Azure LLM inference trace", [0.0, 4.314579, 4.541877], [374, 44, 396, 109, 879, 55]),
        (AZURE_2024, "Azure LLM inference trace", [0.0, 0.007405], [2162, 5, 2399, 6]),
        (BURST_GPT, "BurstGPT", [0.0, 40.0, 113.0], [472, 18, 1087, 230, 417, 276]),
        (MOONCAKE, "Mooncake", [0.0, 0.0, 3.052], [6755, 500, 7319, 490, 7234, 794]),
        ("arrival,input,output\n0.5,10,20\n", "plain", [0.0], [10, 20]),
        ("arrival,input_tokens,output_tokens\n1,10,20\n2,1,2\n", "plain", [0.0, 1.0], [10, 20, 1, 2]),
        ("arrival;input;output\n1;10;20\n2;1;2\n", "plain", [0.0, 1.0], [10, 20, 1, 2]),
        ('{"prompt_len": 7, "output_len": 9}\n{"prompt_len": 8, "output_len": 3}\n', "lengths", [0, 0], [7, 9, 8, 3]),
        ('{"prompt_len": 7, "output_len": 9, "arrival": 4}\n', "lengths with arrivals", [0], [7, 9]),
    ],
)
def test_each_format_is_known_by_its_columns(written, content, format, arrival, tokens):
    trace = load_trace(written(content))
    assert trace.attrs["format"] == format
    np.testing.assert_allclose(trace.arrival, arrival, rtol=0, atol=1e-6)
    assert np.stack([trace.input_tokens, trace.output_tokens], axis=1).ravel().tolist() == tokens
    assert json.loads(trace.attrs["rejected"]) == {}


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: gzip.compress(text.encode()),
        lambda text: ("\n" + text.replace("\n", "\n\n")).encode(),
    ],
    ids=["byte-order mark", "UTF-16", "Windows lines", "gzip", "blank lines"],
)
@pytest.mark.parametrize("content", [BURST_GPT, MOONCAKE], ids=["csv", "json"])
def test_the_way_it_was_saved_does_not_matter(written, content, changed):
    assert load_trace(written(changed(content))).equals(load_trace(written(content, "plain")))


def test_rows_that_cannot_be_used_are_counted_by_reason(written):
    rows = [
        "0,10,20",
        "1,10,0",
        "2,-3,5",
        "3,nan,5",
        "4,10,2.5",
        ",10,5",
        "-1,10,5",
        "soon,10,5",
        "5,10",
        "6,1,1",
        "7,2,0",
    ]
    trace = load_trace(written("\n".join(["arrival,input,output", *rows])))
    assert trace.arrival.values.tolist() == [0.0, 6.0]
    assert json.loads(trace.attrs["rejected"]) == {
        "output is zero or negative": 2,
        "input is zero or negative": 1,
        "input is empty": 1,
        "output is not a whole number": 1,
        "arrival is empty": 1,
        "arrival is negative": 1,
        "arrival is not a finite number": 1,
        "has fewer or more cells than the header": 1,
    }


def test_lines_of_json_that_cannot_be_used_are_counted_by_reason(written):
    lines = ["null", "[1]", '{"timestamp": NaN, "input_length": 1, "output_length": 1}', '{"timestamp": 9, "input_le']
    lines.append('{"timestamp": 5, "output_length": 1}')
    lines.append('{"timestamp": 5, "input_length": 1' + 400 * "0" + ', "output_length": 1}')
    lines.append('{"timestamp": 5, "input_length": 1e10, "output_length": 1}')
    trace = load_trace(written(MOONCAKE + "\n".join(lines)))
    assert trace.sizes["request"] == 3
    assert json.loads(trace.attrs["rejected"]) == {
        "is no JSON object, or was cut short": 3,
        "timestamp is empty": 1,
        "input_length is empty": 1,
        "input_length is not a finite number": 1,
        "input_length is above 10^9": 1,
    }


def test_dates_that_are_none_are_counted(written):
    trace = load_trace(written(AZURE_2023 + "yesterday,10,10\n,10,10\n2123-11-16 18:15:46,10,10\n"))
    assert json.loads(trace.attrs["rejected"]) == {
        "TIMESTAMP is no date with a time of day": 2,
        "TIMESTAMP is more than 10^9 s after the first": 1,
    }


def test_rows_out_of_order_are_sorted_and_it_is_said(written):
    trace = load_trace(written("arrival,input,output\n7,1,1\n5,2,2\n5,3,3\n"))
    assert trace.arrival.values.tolist() == [0.0, 0.0, 2.0]
    assert trace.input_tokens.values.tolist() == [2, 3, 1]
    assert "sorted" in trace.attrs["notes"]


def test_requests_that_are_alike_all_count(written):
    assert load_trace(written("arrival,input,output\n" + "5,10,10\n" * 4)).sizes["request"] == 4


def test_lengths_alone_are_for_a_closed_loop(written):
    assert "closed loop" in load_trace(written('{"prompt_len": 7, "output_len": 9}\n')).attrs["notes"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        (b"\x00\x01\x02\xff", "is not UTF-8 text"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,374\n", "has the columns TIMESTAMP, ContextTokens; a trace has"),
        ("arrival,input,output\n", "has a header but no rows"),
        ("arrival,input,output\n0,0,0\n1,5,0\n", "can be used: 1 x input is zero or negative, 1 x output is zero"),
        ("arrival,arrival,input,output\n0,1,2,3\n", "more than one column arrival"),
        ('[{"timestamp": 0}]', "is a JSON array; write one object a line"),
        ("{not json\n", "has the columns of no trace"),
        (b"\x1f\x8b damaged", "its gzip data is damaged"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_a_sentence(written, content, words):
    with pytest.raises(FactorGraphError, match=words) as caught:
        load_trace(written(content))
    assert "\n" not in str(caught.value)


def test_a_folder_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(FactorGraphError, match="is a folder"):
        load_trace(tmp_path)
    with pytest.raises(FactorGraphError, match="there is no file"):
        load_trace(tmp_path / "absent.csv")


@given(st.binary(max_size=40), st.integers(0, 200), st.sampled_from([AZURE_2023, BURST_GPT, MOONCAKE]))
def test_damage_gives_requests_or_a_sentence(tmp_path_factory, damage, at, content):
    data = content.encode()
    file = tmp_path_factory.mktemp("damaged") / "trace"
    file.write_bytes(data[:at] + damage + data[at + len(damage) :])
    try:
        trace = load_trace(file)
    except FactorGraphError:
        return
    assert np.isfinite(trace.arrival).all()
    assert (np.diff(trace.arrival) >= 0).all()
    assert (trace.input_tokens >= 1).all()
    assert (trace.output_tokens >= 1).all()


@pytest.mark.parametrize(
    ("arrival", "tokens", "words"),
    [
        ([], 5, "there are no requests"),
        ([[0.0]], 5, "one list of arrival times"),
        (3.0, 5, "one list of arrival times"),
        (["now"], 5, "requests need numbers"),
        ([0.0, 1.0], [1, 2, 3], "as many of each kind"),
        ([-1.0], 5, "an arrival time is negative"),
        ([1.7e9], 5, "above 10.9 s"),
        ([float("nan")], 5, "no number"),
        ([0.0, 0.0], [1, 0], "input_tokens of request 1 is 0"),
        ([0.0], 1.5, "input_tokens of request 0 is 1.5"),
        ([0.0], float("nan"), "input_tokens of request 0 is nan"),
        ([0.0], 1e300, "input_tokens of request 0 is 1e"),
    ],
)
def test_impossible_requests_are_refused(arrival, tokens, words):
    with pytest.raises(FactorGraphError, match=words):
        make_requests(arrival, tokens, 1)
