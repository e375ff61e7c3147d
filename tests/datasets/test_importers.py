"""Importers: each on a file as its program writes it, with the numbers worked out by hand."""

import gzip

import numpy as np
import pandas as pd
import pytest
from samples import (
    GPU_L2_CACHE,
    MLPERF,
    NSYS,
    PLAIN,
    PLAIN_COLUMNS,
    SILICON,
    TORCH_TRACE,
    UM_STREAM,
    VIDUR_ATTENTION,
    VIDUR_HOST,
    VIDUR_MLP,
    VIDUR_NETWORK,
    VLLM_LATENCY,
    VLLM_SERVE,
)

import factorgraph as fg
from factorgraph.datasets.importers import SourceError, import_file, list_formats


@pytest.fixture
def written(tmp_path):
    def write(text, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def table(dataset, *names):
    return list(zip(*(dataset[name].values.tolist() for name in names), strict=True))


def test_all_formats_are_listed_and_say_what_they_are():
    formats = list_formats()
    expected = {"aiconfigurator", "csv", "gpu-benches", "mlperf", "nsys", "silicon-sample", "torch-trace", "vidur"}
    assert expected | {"vllm-bench"} == set(formats)
    assert all(formats.values())


def gemm_table(rows=(), **columns):
    table = {"kernel_source": "cublas", "gemm_dtype": "bfloat16", "m": [64, 8192], "n": [6144, 8192], "k": [4096, 8192]}
    table |= {"latency": [0.0215, 1.5], "framework": "VLLM", "version": "0.24.0", "device": "NVIDIA H100"}
    return pd.concat([pd.DataFrame(table | columns), pd.DataFrame(rows)], ignore_index=True)


def test_aiconfigurator_place_in_the_package_says_gpu_engine_and_version(tmp_path):
    path = tmp_path / "systems/data/h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet"
    path.parent.mkdir(parents=True)
    first = gemm_table().iloc[0].to_dict()
    bad = [first, first | {"latency": 0.0}, first | {"m": 8192, "latency": 1e-3}, first | {"latency": np.nan}]
    gemm_table(bad).to_parquet(path)
    imported = import_file(path, "aiconfigurator")
    assert table(imported.dataset, "m", "n", "k", "dtype") == [(64, 6144, 4096, "bf16"), (8192, 8192, 8192, "bf16")]
    np.testing.assert_allclose(imported.dataset.latency, [21.5e-6, 1.5e-3], rtol=1e-15)
    said = imported.dataset.attrs
    assert (said["sku"], said["engine"], said["engine_version"]) == ("h100-sxm", "vllm", "0.24.0")
    assert imported.counts == {
        "repeats an earlier row exactly": 1,
        "latency is zero or negative": 1,
        "is faster than the GPU's peak rate at its highest clock": 1,
        "latency is empty": 1,
    }
    assert imported.rejected[["line", "m"]].values.tolist() == [[3, 64], [4, 64], [5, 8192], [6, 64]]


def test_aiconfigurator_attention_counts_the_new_token_and_the_window(tmp_path):
    path = tmp_path / "generation_attention_perf.parquet"
    row = {"kernel_source": "fa3", "batch_size": 8, "isl": 1, "step": 2047, "num_heads": 32, "num_key_value_heads": 8}
    row |= {"head_dim": 128, "attn_dtype": "bfloat16", "kv_cache_dtype": "fp8", "latency": 0.05, "framework": "VLLM"}
    pd.DataFrame([row | {"window_size": 128}]).to_parquet(path)
    data = import_file(path, "aiconfigurator").dataset
    assert table(data, "q_len", "kv_len", "q_heads", "kv_heads", "window", "kv_dtype") == [(1, 2048, 32, 8, 128, "fp8")]
    pd.DataFrame([row]).to_parquet(path)
    assert import_file(path, "aiconfigurator").dataset.window.values.tolist() == [0]


def test_aiconfigurator_messages_are_counted_in_elements(tmp_path):
    path = tmp_path / "nccl_perf.parquet"
    row = {"kernel_source": "NCCL", "op_name": "all_reduce", "num_gpus": 8, "message_size": 1024, "latency": 0.0156}
    pd.DataFrame([row | {"nccl_dtype": name} for name in ("half", "int8", "complex")]).to_parquet(path)
    imported = import_file(path, "aiconfigurator")
    assert table(imported.dataset, "message_bytes", "ranks") == [(2048.0, 8), (1024.0, 8)]
    assert imported.counts == {"nccl_dtype is none whose size is known": 1}


def test_aiconfigurator_moe_quantisation_and_encoder_tables(tmp_path):
    moe = {"kernel_source": "x", "moe_dtype": "fp8", "num_tokens": 4, "hidden_size": 2048, "inter_size": 768, "topk": 8}
    moe |= {"num_experts": 128, "moe_tp_size": 1, "moe_ep_size": 2, "distribution": "power_law", "latency": 0.1}
    pd.DataFrame([moe | {"power": 500.0, "power_limit": 700.0}]).to_parquet(tmp_path / "moe_perf.parquet")
    data = import_file(tmp_path / "moe_perf.parquet", "aiconfigurator").dataset
    assert table(data, "experts", "top_k", "expert_parallel", "power", "power_cap") == [(128, 8, 2, 500.0, 700.0)]
    assert data.power_cap.units == "W"
    scale = {
        "kernel_source": "x",
        "op_name": "compute_scale",
        "m": 16,
        "k": 4096,
        "quant_dtype": "fp8",
        "latency": 0.002,
    }
    pd.DataFrame([scale]).to_parquet(tmp_path / "computescale_perf.parquet")
    data = import_file(tmp_path / "computescale_perf.parquet", "aiconfigurator").dataset
    assert table(data, "kernel", "tokens", "width", "latency") == [("compute_scale", 16, 4096, 2e-6)]
    encoder = {"kernel_source": "x", "batch_size": 2, "isl": 577, "num_heads": 16, "head_dim": 64, "latency": 0.05}
    pd.DataFrame([encoder | {"attn_dtype": "bfloat16"}]).to_parquet(tmp_path / "encoder_attention_perf.parquet")
    data = import_file(tmp_path / "encoder_attention_perf.parquet", "aiconfigurator").dataset
    assert table(data, "q_len", "kv_len", "kv_heads", "causal") == [(577, 577, 16, 0)]


def test_silicon_sample(written):
    imported = import_file(written(SILICON), "silicon-sample")
    data = imported.dataset
    assert table(data, "sku", "concurrency", "repeats_earlier", "date", "tp_size") == [
        ("b300", 128, 0, "2026-04-17", 4),
        ("b300", 128, 1, "2026-04-17", 4),
        ("gb200", 64, 0, "unknown", 0),
    ]
    np.testing.assert_allclose(data.ttft, [0.9725, 0.9725, 0.1955])
    np.testing.assert_allclose(data.tpot, [0.03325, 0.03325, 0.00525])
    assert imported.counts == {"system is none that is known": 1}


def test_vidur_layer_gives_gemms_and_light_kernels(written):
    path = written(VIDUR_MLP)
    data = import_file(path, "vidur", facts={"sku": "a100-sxm4-80gb"}).dataset
    rows = table(data, "kernel_source", "m", "n", "k")
    assert rows[0::2] == [
        ("attn_pre_proj", 4096, 7680, 2560),
        ("attn_post_proj", 4096, 2560, 2560),
        ("mlp_up_proj", 4096, 10240, 2560),
        ("mlp_down_proj", 4096, 2560, 10240),
    ]
    np.testing.assert_allclose(data.latency[0::2], [0.651e-3, 0.236e-3, 0.867e-3, 0.79e-3])
    light = import_file(path, "vidur", part="light").dataset
    assert table(light, "kernel", "tokens", "width") == [("add", 4096, 2560), ("add", 4064, 2560)]


def test_vidur_gated_layer_over_two_workers(written):
    text = VIDUR_MLP.replace("32,32,2560,10240,51200,False,4096,1", "32,8,4096,14336,128256,True,4096,2")
    data = import_file(written(text), "vidur").dataset
    # Llama-3-8B: (32 + 2 * 8) * 128 / 2, 2 * 14336 / 2.
    assert table(data, "n", "k")[0::2] == [(3072, 4096), (4096, 2048), (14336, 4096), (4096, 7168)]


def test_vidur_attention_takes_each_row_for_what_it_is(written):
    imported = import_file(written(VIDUR_ATTENTION), "vidur")
    assert imported.counts == {}
    rows = table(imported.dataset, "batch", "q_len", "kv_len", "q_heads", "kv_heads", "head_dim", "latency")
    assert sorted(rows) == [(1, 512, 1536, 32, 4, 128, 0.25e-3), (2, 1, 33, 32, 4, 128, 0.014e-3)]


def test_vidur_host_and_network(written):
    host = import_file(written(VIDUR_HOST), "vidur").dataset
    assert table(host, "operation", "batch", "tensor_parallel") == [("schedule", 8, 1), ("sampler_e2e", 8, 1)]
    np.testing.assert_allclose(host.latency, [165.13349025318164e-6, 887.8073216415597e-6])
    network = import_file(written(VIDUR_NETWORK), "vidur").dataset
    assert table(network, "operation", "ranks", "message_bytes", "latency") == [
        ("all_reduce", 2, 2048.0, 0.043e-3),
        ("all_reduce", 2, 10240.0, 0.056e-3),
    ]


def test_gpu_benches_counts_kilobytes_of_1024(written):
    data = import_file(written(GPU_L2_CACHE), "gpu-benches").dataset
    assert table(data, "block", "volume", "latency") == [(524288.0, 1572864.0, 0.012), (524288.0, 2097152.0, 0.010)]
    np.testing.assert_allclose(data.bandwidth, [4315.9e9, 5481.9e9])
    np.testing.assert_allclose(data.spread, [0.0, 0.228])
    assert data.attrs["sku"] == "NVIDIA A100-SXM4-80GB"
    stream = import_file(written(UM_STREAM + "  768 MB  oops  0.2%  1 GB/s\n"), "gpu-benches")
    assert stream.dataset.volume.values.tolist() == [768 * 2.0**20, 1536 * 2.0**20, 24576 * 2.0**20]
    assert stream.counts == {"is not laid out as size, time, spread, bandwidth": 1}


def test_gpu_benches_tables(written):
    text = "gpu,mode,n_elem,volume_bytes,best_gbps,us\nA100-80GB,stream,4096,65536,25.0,2.62144\n"
    data = import_file(written(text), "gpu-benches").dataset
    assert table(data, "sku", "mode", "volume", "bandwidth") == [("A100-80GB", "stream", 65536.0, 25e9)]
    # The time is the volume over the bandwidth.
    np.testing.assert_allclose(data.latency, data.volume / data.bandwidth)


def test_vllm_serving_result_one_or_a_line_each(written):
    data = import_file(written(VLLM_SERVE, "a.json"), "vllm-bench", facts={"sku": "h100-sxm"}).dataset
    columns = ("input_len", "output_len", "concurrency", "ttft", "tpot", "request_rate", "token_rate", "date")
    assert table(data, *columns) == [(250, 50, 2, 0.048, 0.019, 2.0, 100.0, "2025-08-12")]
    failed = VLLM_SERVE.replace('"completed": 4', '"completed": 0')
    two = import_file(written(VLLM_SERVE + "\n" + failed + "\n", "b.jsonl"), "vllm-bench")
    assert two.dataset.sizes["row"] == 1
    assert two.counts == {"completed is zero or negative": 1}


def test_vllm_latency_result_needs_to_be_told_the_batch(written):
    path = written(VLLM_LATENCY, "a.json")
    with pytest.raises(SourceError, match="does not state batch, input_len, output_len; give them as options"):
        import_file(path, "vllm-bench")
    data = import_file(path, "vllm-bench", batch=8, input_len=32, output_len=128).dataset
    assert table(data, "batch", "input_len", "output_len", "latency") == [(8, 32, 128, 0.12)]


def test_mlperf_summary(written):
    data = import_file(written(MLPERF, "a.txt"), "mlperf", model="llama2-70b").dataset
    assert table(data, "ttft", "tpot", "request_rate", "token_rate") == [(0.25, 0.042, 9.98, 3200.5)]
    with pytest.raises(SourceError, match="the run was INVALID"):
        import_file(written(MLPERF.replace("VALID", "INVALID"), "b.txt"), "mlperf")


def test_nsys_kernel_summary(written):
    path = written(NSYS)
    data = import_file(path, "nsys").dataset
    np.testing.assert_allclose(data.latency, [299e-6, 49e-6])
    assert data["calls"].values.tolist() == [30, 60]
    gemms = import_file(path, "nsys", part="gemm")
    assert table(gemms.dataset, "m", "n", "k") == [(4096, 6144, 4096)]
    assert gemms.counts == {"the name states no m, n and k": 1}


def test_torch_trace_joins_kernels_to_the_shape_of_their_operator(written):
    path = written(gzip.compress(TORCH_TRACE.encode()), "trace.json.gz")
    gemms = import_file(path, "torch-trace")
    # Three calls: 20 + 4 of a split product, 26, 30.
    assert table(gemms.dataset, "m", "n", "k", "dtype", "calls") == [(64, 6144, 4096, "bf16", 3)]
    np.testing.assert_allclose(gemms.dataset.latency, [26e-6])
    assert gemms.counts == {"its operator states no shape": 1}
    light = import_file(path, "torch-trace", part="light").dataset
    assert table(light, "kernel", "calls") == [("rms_norm_kernel", 1)]
    np.testing.assert_allclose(light.latency, [3e-6])


def test_plain_csv_by_a_column_map(written):
    imported = import_file(written(PLAIN), "csv", kind="gemm", columns=PLAIN_COLUMNS, facts={"dtype": "bf16"})
    assert table(imported.dataset, "sku", "m") == [("h100-sxm", 64), ("h100-sxm", 128), ("l40s", 64)]
    np.testing.assert_allclose(imported.dataset.latency, [21.5e-6, 22.25e-6, 70e-6])


def test_a_wrong_unit_shows_where_the_gpu_is_known(written):
    path, columns = written(PLAIN), PLAIN_COLUMNS | {"latency": "time:ns"}
    with pytest.raises(SourceError, match="can be used: 3 x is faster than the GPU's peak rate at its highest clock"):
        import_file(path, "csv", kind="gemm", columns=columns, facts={"dtype": "bf16"})


def test_a_file_without_a_last_line_end_is_pointed_out(written):
    options = {"kind": "gemm", "columns": PLAIN_COLUMNS}
    assert import_file(written(PLAIN), "csv", **options).notes == ()
    (note,) = import_file(written(PLAIN.rstrip()), "csv", **options).notes
    assert note.startswith("the last line has no line end: if the file was cut short there")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (PLAIN_COLUMNS | {"latency": "time"}, "latency needs a unit; write latency=time:s"),
        (PLAIN_COLUMNS | {"latency": "time:MB"}, "time is in 'MB', which cannot be read as 's'"),
        (PLAIN_COLUMNS | {"latency": "elapsed:us"}, "lacks the column elapsed; it has gpu, M, N, K, time"),
        ({"m": "M"}, "no column is given for n, k, latency"),
        (PLAIN_COLUMNS | {"latncy": "time:us"}, "unknown field of the kind gemm 'latncy'; did you mean 'latency'"),
    ],
)
def test_a_column_map_that_cannot_be_used_is_refused(written, columns, message):
    with pytest.raises(fg.FactorGraphError, match=message):
        import_file(written(PLAIN), "csv", kind="gemm", columns=columns)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02\x03", "holds NUL bytes"),
        (b"gpu,M\nl4,\xff\xfe\xfa\n", "is not UTF-8 text"),
        (b"gpu,M,N,K,time\n", "has a header but no rows"),
        (b"gpu,M,M,K,time\nl4,1,1,1,1\n", "has more than one column M"),
        (b'gpu,M,N,K,time\n"l4,1,1,1,1\n', "is not a whole CSV file"),
        (gzip.compress(PLAIN.encode())[:-12], "its gzip data is damaged or cut short"),
        (b"gpu,M,N,K,time\nl4,1,1,1,-1\nl4,2,1,1,nan\n", "no row of .* can be used: 1 x time is zero or negative, 1 x"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(written, content, message):
    with pytest.raises(SourceError, match=message):
        import_file(written(content), "csv", kind="gemm", columns=PLAIN_COLUMNS)


def test_a_folder_a_missing_file_an_unknown_format_option_or_fact_is_refused(tmp_path, written):
    for format in list_formats():
        options = {"kind": "gemm", "columns": PLAIN_COLUMNS} if format == "csv" else {}
        with pytest.raises(SourceError):
            import_file(tmp_path, format, **options)
        with pytest.raises(SourceError):
            import_file(tmp_path / "none", format, **options)
    path = written(PLAIN)
    with pytest.raises(fg.UnknownNameError, match="unknown format 'vidru'; did you mean 'vidur'"):
        import_file(path, "vidru")
    with pytest.raises(fg.UnknownNameError, match="unknown option of the format nsys 'prt'"):
        import_file(path, "nsys", prt="gemm")
    with pytest.raises(fg.UnknownNameError, match="unknown fact 'skuu'; did you mean 'sku'"):
        import_file(path, "nsys", facts={"skuu": "l4"})
    with pytest.raises(fg.FactorGraphError, match="cache_state is 'hot'; say one of cold, warm, rotating, unknown"):
        import_file(path, "nsys", facts={"cache_state": "hot"})


def test_a_format_of_ones_own_is_found_by_its_entry_point(monkeypatch, tmp_path):
    package = tmp_path / "mine"
    (package / "mine-1.0.dist-info").mkdir(parents=True)
    (package / "mine-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (package / "mine-1.0.dist-info" / "entry_points.txt").write_text(
        "[factorgraph.importers]\nmine = mine_reader:read\n"
    )
    (package / "mine_reader.py").write_text(
        "from factorgraph.datasets.importers import Rows\n"
        "def read(source, facts):\n"
        '    """My own format."""\n'
        '    rows = Rows.of_records([{"t": 2.0}], source)\n'
        '    sizes = {name: rows.numbers("t", whole=True) for name in ("m", "n", "k")}\n'
        '    return rows.finish("gemm", sizes | {"latency": rows.numbers("t", "us", "s")}, facts, title="mine")\n'
    )
    monkeypatch.syspath_prepend(package)
    assert list_formats()["mine"] == "My own format."
    np.testing.assert_allclose(import_file(tmp_path, "mine").dataset.latency, [2e-6])
