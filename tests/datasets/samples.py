"""Short foreign files, laid out as their programs write them, and what is known to be in them."""

import json

# Vidur (MIT), compute/a100/microsoft/phi-2/mlp.csv: first and third row, some operations.
VIDUR_MLP = """\
time_stats.attn_pre_proj.min,time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,time_stats.mlp_up_proj.median,\
time_stats.mlp_down_proj.median,time_stats.add.median,n_head,n_kv_head,n_embd,n_expanded_embd,vocab_size,use_gated_mlp,\
num_tokens,num_tensor_parallel_workers
0.637,0.651,0.23600000000000002,0.867,0.79,0.078,32,32,2560,10240,51200,False,4096,1
0.654,0.654,0.23650000000000002,0.874,0.796,0.077,32,32,2560,10240,51200,False,4064,1
"""
# Vidur, a100/attention.csv: a decode row as published, and a prefill row of the same layout.
VIDUR_ATTENTION = """\
time_stats.attn_input_reshape.median,time_stats.attn_decode.median,time_stats.attn_output_reshape.median,\
time_stats.attn_prefill.median,n_embd,n_q_head,n_kv_head,block_size,num_tensor_parallel_workers,max_model_len,batch_size,\
prefill_chunk_size,kv_cache_size,is_prefill,attention_backend,profile_method
0.0,0.014,0.001,,8192,64,8,16,2,4096,2,0,32,False,AttentionBackend.FLASH_ATTENTION,ProfileMethod.KINETO
0.0,,0.001,0.25,8192,64,8,16,2,4096,1,512,1024,True,AttentionBackend.FLASH_ATTENTION,ProfileMethod.KINETO
"""
# Vidur, a100/cpu_overheads.csv: first row, some columns.
VIDUR_HOST = """\
,SCHEDULE_MEAN,SCHEDULE_MEDIAN,SAMPLER_E2E_MEDIAN,model_name,batch_size,tensor_parallel_degree
0,0.1648401111072185,0.16513349025318164,0.8878073216415597,meta-llama/Llama-2-7b-hf,8,1
"""
# Vidur, network/a100_dgx/all_reduce.csv: first two rows.
VIDUR_NETWORK = """\
,time_stats.all_reduce.min,time_stats.all_reduce.max,time_stats.all_reduce.mean,time_stats.all_reduce.median,\
time_stats.all_reduce.std,rank,num_workers,size,collective,devices_per_node,max_devices_per_node
0,0.031,0.077,0.050333333333333334,0.043000000000000003,0.01948218559493661,0,2,2048,all_reduce,1,8
1,0.04,0.075,0.057,0.056,0.014306175822583289,0,2,10240,all_reduce,1,8
"""
GPU_L2_CACHE = """\
Running on GPU: NVIDIA A100-SXM4-80GB

     data set   exec time     spread       Eff. bw
       512 kB   1536 kB        12ms       0.0%    4315.9 GB/s     0 GB/s      0 GB/s   4316 GB/s      0 GB/s
       512 kB   2048 kB        10ms      22.8%    5481.9 GB/s     0 GB/s      0 GB/s   5482 GB/s      0 GB/s
"""
UM_STREAM = """\
      768 MB     1.0ms     0.2%   801.8GB/s
     1536 MB     2.0ms     0.0%   816.9GB/s
    24576 MB  5108.3ms     0.5%     5.0GB/s
"""
VLLM_SERVE = json.dumps(
    {
        "date": "20250812-101500",
        "backend": "vllm",
        "model_id": "meta-llama/Llama-3.1-8B-Instruct",
        "num_prompts": 4,
        "request_rate": "inf",
        "max_concurrency": 2,
        "duration": 2.0,
        "completed": 4,
        "total_input_tokens": 1000,
        "total_output_tokens": 200,
        "request_throughput": 2.0,
        "output_throughput": 100.0,
        "median_ttft_ms": 48.0,
        "median_tpot_ms": 19.0,
        "ttfts": [0.048, 0.050, 0.049, 0.053],
    }
)
VLLM_LATENCY = json.dumps(
    {"avg_latency": 0.152, "latencies": [0.10, 0.12, 0.11, 0.13, 0.30], "percentiles": {"50": 0.12}}
)
MLPERF = """\
================================================
MLPerf Results Summary
================================================
SUT name : LWIS_Server
Scenario : Server
Mode     : PerformanceOnly
Scheduled samples per second : 10.0500
Completed samples per second    : 9.98
Completed tokens per second: 3200.50
Result is : VALID
  Performance constraints satisfied : Yes

================================================
Additional Stats
================================================
50.00 percentile first token latency (ns)   : 250000000
99.00 percentile first token latency (ns)   : 750000000
50.00 percentile time to output token (ns)  : 42000000
"""
NSYS = """\
Generating SQLite file report.sqlite from report.nsys-rep
Processing [report.sqlite] with [cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
71.0,9000000,30,300000.0,299000.0,280000,330000,9000.0,"void gemm<bf16>(M=4096,N=6144,K=4096)"
29.0,3000000,60,50000.0,49000.0,45000,60000,3000.0,"void vllm::rms_norm_kernel<c10::BFloat16, 8>(T1 *, const T1 *, int)"
"""


def _operator(call: int, dims: list, types: list, name: str = "aten::mm") -> dict:
    arguments = {"External id": call, "Input Dims": dims, "Input type": types}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": call, "dur": 9, "args": arguments}


def _kernel(call: int, name: str, duration: float) -> dict:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": call, "dur": duration, "args": {"External id": call}}


_BF16 = ["c10::BFloat16", "c10::BFloat16"]
TORCH_TRACE = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [
            _operator(1, [[64, 4096], [4096, 6144]], _BF16),
            _kernel(1, "nvjet_tst_64x64", 20.0),
            _kernel(1, "splitk_reduce", 4.0),
            _operator(2, [[64, 4096], [4096, 6144]], _BF16),
            _kernel(2, "nvjet_tst_64x64", 26.0),
            _operator(3, [[6144], [64, 4096], [4096, 6144], [], []], ["c10::BFloat16", *_BF16], "aten::addmm"),
            _kernel(3, "nvjet_tst_64x64", 30.0),
            _operator(4, [], [], "aten::mm"),
            _kernel(4, "unknown_gemm", 1.0),
            _kernel(5, "rms_norm_kernel", 3.0),
            {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        ],
    }
)
SILICON = """\
id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,batch_size,tp_size,silicon_ttft_ms,\
silicon_tpot_ms
a,source_file=x.csv; silicon_concurrency=128; measured=2026-04-17T00:00:00Z,vllm,0.19.0,MiniMaxAI/MiniMax-M2.5,b300_sxm\
,fp8,agg,8192,1024,128,4,972.5,33.25
b,source_file=x.csv; silicon_concurrency=128; measured=2026-04-17T00:00:00Z,vllm,0.19.0,MiniMaxAI/MiniMax-M2.5,b300_sxm\
,fp8,agg,8192,1024,128,4,972.5,33.25
c,source_file=y.csv; silicon_concurrency=64,trtllm,,openai/gpt-oss-120b,gb200,,disagg,1024,1024,,,195.5,5.25
d,source_file=y.csv; silicon_concurrency=64,trtllm,,openai/gpt-oss-120b,h900,,disagg,1024,1024,,,195.5,5.25
"""
PLAIN = """\
gpu,M,N,K,time
h100-sxm,64,6144,4096,21.5
h100-sxm,128,6144,4096,22.25
l40s,64,6144,4096,70
"""
PLAIN_COLUMNS = {"sku": "gpu", "m": "M", "n": "N", "k": "K", "latency": "time:us"}
