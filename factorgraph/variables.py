"""The vocabulary: every quantity the laws speak of, once, with its unit, domain and plate.

A law names a variable by annotating a parameter with it; the graph wires laws that name the same variable together.
A quantity of your own is one line:

    Humidity = Annotated[Array, Variable("humidity", "1", Domain(0.0, 1.0), doc="relative humidity of the room")]
"""

import dataclasses
import math
from typing import Annotated, Any

from jax import Array

from factorgraph.errors import FactorGraphError
from factorgraph.units import parse


@dataclasses.dataclass(frozen=True)
class Domain:
    """The values a variable may take: a closed interval, on which laws are held to their physics.

    Attributes:
        lower, upper: the ends, in the variable's unit.
        integer: whether only whole numbers occur (they may still be differentiated through).

    Examples:
        >>> Domain(0.0, 1.0).contains(0.5)
        True
    """

    lower: float = 0.0
    upper: float = math.inf
    integer: bool = False

    def __post_init__(self):
        if not self.lower <= self.upper:
            raise FactorGraphError(f"a domain runs from low to high; {self.lower} to {self.upper} is empty")

    def contains(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        return f"[{self.lower:g}, {self.upper:g}]" + (" whole numbers" if self.integer else "")


@dataclasses.dataclass(frozen=True)
class Variable:
    """A named quantity.

    Attributes:
        name: how laws, graphs and results call it; a Python identifier.
        unit: unit text, SI ("s", "B", "FLOP/s", "Hz", "W", "1").
        domain: the values it may take.
        plates: what it is repeated over ("gemm", "attention", ...), outermost first; none for one number a step.
        doc: one line, used as its long name.

    Raises:
        FactorGraphError: the name is no identifier or the unit cannot be read.

    Examples:
        >>> Variable("sm_clock", "Hz", Domain(1e8, 4e9)).unit
        'Hz'
    """

    name: str
    unit: str = "1"
    domain: Domain = Domain()
    plates: tuple[str, ...] = ()
    doc: str = ""

    def __post_init__(self):
        if not self.name.isidentifier():
            raise FactorGraphError(f"variable name '{self.name}' must be a Python identifier such as 'sm_clock'")
        if isinstance(self.plates, str):
            object.__setattr__(self, "plates", (self.plates,))
        parse(self.unit)

    def __str__(self) -> str:
        return self.name + (f"[{', '.join(self.plates)}]" if self.plates else "")


def variable_of(annotation: Any) -> Variable | None:
    """The `Variable` that an annotation carries, or None.

    Examples:
        >>> variable_of(SmClock).name
        'sm_clock'
    """
    if isinstance(annotation, Variable):
        return annotation
    found = [item for item in getattr(annotation, "__metadata__", ()) if isinstance(item, Variable)]
    return found[0] if len(found) == 1 else None


# Plates of alternatives, and the variable that says which alternative is taken: a result shows that one.
CHOICES = {"tiling": "tiling_choice"}


def vocabulary() -> dict[str, Variable]:
    """Every variable of this module by name.

    Examples:
        >>> vocabulary()["t_step"].unit
        's'
    """
    found = (variable_of(value) for value in globals().values())
    return {variable.name: variable for variable in found if variable is not None}


# More than zero: the least that single precision still divides by.
_EFFICIENCY = Domain(1e-30, 1.0)
# A wait may be nothing; the work of a kernel takes some time, and no law caps it.
_TIME = Domain(0.0)
_DURATION = Domain(1e-13)
_COUNT = Domain(1.0, 1e9)
_CLOCK = Domain(1e8, 4e9)
_BANDWIDTH = Domain(1e9, 1e14)
_POWER = Domain(30.0, 3000.0)
_ELEMENT = Domain(0.25, 8.0)

# --- the GPU -------------------------------------------------------------------------------------------------------
SmCount = Annotated[Array, Variable("sm_count", "1", Domain(1, 1024, integer=True), doc="streaming multiprocessors")]
BoostClock = Annotated[Array, Variable("boost_clock", "Hz", _CLOCK, doc="SM clock behind the printed peak")]
SmClock = Annotated[
    Array, Variable("sm_clock", "Hz", _CLOCK, doc="SM clock before the power limit: locked, else the boost clock")
]
PowerCap = Annotated[Array, Variable("power_cap", "W", _POWER, doc="board power limit")]
Tdp = Annotated[Array, Variable("tdp", "W", _POWER, doc="board power the card is designed for")]
DramBandwidth = Annotated[Array, Variable("dram_bandwidth", "B/s", _BANDWIDTH, doc="DRAM bandwidth, printed")]
L2Capacity = Annotated[Array, Variable("l2_capacity", "B", Domain(1e5, 1e10), doc="L2 cache capacity")]
L2Partitions = Annotated[Array, Variable("l2_partitions", "1", Domain(1, 4), doc="L2 partitions data is copied in")]
EccFactor = Annotated[
    Array, Variable("ecc_factor", "1", Domain(0.5, 1.0), doc="bandwidth left by error correction kept in DRAM")
]
LaunchClass = Annotated[
    Array, Variable("launch_class", "1", Domain(0.5, 3.0), doc="launch time relative to the newest generations'")
]
AsyncPipeline = Annotated[
    Array, Variable("async_pipeline", "1", Domain(0.0, 1.0), doc="1 where tensor work is issued asynchronously")
]
TensorMemory = Annotated[
    Array, Variable("tensor_memory_per_sm", "B", Domain(0.0, 1e8), doc="memory of an SM that accumulators live in")
]
ProcessEnergy = Annotated[
    Array, Variable("process_energy", "1", Domain(0.1, 4.0), doc="switching energy relative to TSMC 4N")
]
DramEnergy = Annotated[
    Array, Variable("dram_energy", "J/B", Domain(1e-12, 1e-9), doc="energy of a byte that crosses the DRAM interface")
]
AttentionGeneration = Annotated[
    Array,
    Variable("attention_generation", "1", Domain(1, 4), doc="FlashAttention kernels: to 2, 3 Hopper's, 4 Blackwell's"),
]
ExponentialsPerClock = Annotated[
    Array, Variable("exponentials_per_clock", "1", Domain(1, 256), doc="exponentials an SM evaluates a clock")
]
Bf16FlopPerClock = Annotated[
    Array, Variable("bf16_flop_per_clock", "FLOP", Domain(64, 1e5), doc="dense BF16 FLOP per clock and SM")
]
TypeRates = Annotated[
    Array,
    Variable("type_rates", "FLOP", Domain(0.0, 1e5), ("tensor_type",), "dense FLOP per clock and SM of each type"),
]
LinkBandwidth = Annotated[
    Array, Variable("link_bandwidth", "B/s", _BANDWIDTH, doc="GPU-to-GPU bandwidth, one direction")
]
OperandLatency = Annotated[
    Array,
    Variable("operand_latency", "clock", Domain(1.0, 1e5), doc="clocks until the next operands of a main loop arrive"),
]
L2Bandwidth = Annotated[Array, Variable("l2_bandwidth", "B/s", Domain(1e9, 1e16), doc="what L2 delivers to all SMs")]
LinkLatency = Annotated[
    Array, Variable("link_latency", "1", Domain(0.1, 10.0), doc="time GPUs take to agree, relative to Hopper's NVLink")
]
LinkIsPcie = Annotated[
    Array, Variable("link_is_pcie", "1", Domain(0.0, 1.0, integer=True), doc="1 where GPUs talk over PCIe")
]

# --- GEMMs ---------------------------------------------------------------------------------------------------------
_G = ("gemm",)
_GT = ("gemm", "tiling")
M = Annotated[Array, Variable("m", "1", Domain(1, 1e7, integer=True), _G, "rows of the activation (tokens)")]
N = Annotated[Array, Variable("n", "1", Domain(1, 1e6, integer=True), _G, "columns of the weight")]
K = Annotated[Array, Variable("k", "1", Domain(1, 1e6, integer=True), _G, "depth of the product")]
GemmGroups = Annotated[Array, Variable("gemm_groups", "1", Domain(1, 1e4), _G, "like products in one launch (experts)")]
GemmType = Annotated[
    Array, Variable("gemm_type", "1", Domain(0, 16, integer=True), _G, "index of the type tensor cores compute in")
]
GemmCount = Annotated[Array, Variable("gemm_count", "1", Domain(0, 1e6), _G, "launches in a step")]
FlopPerClock = Annotated[
    Array, Variable("flop_per_clock", "FLOP", Domain(1, 1e5), _G, "dense FLOP per clock and SM in the GEMM's type")
]
WeightElementSize = Annotated[Array, Variable("weight_element_size", "B", _ELEMENT, _G, "bytes of a weight")]
ActivationElementSize = Annotated[
    Array, Variable("activation_element_size", "B", _ELEMENT, _G, "bytes of an activation")
]
OutputElementSize = Annotated[Array, Variable("output_element_size", "B", _ELEMENT, _G, "bytes of an output")]
GemmFlop = Annotated[Array, Variable("gemm_flop", "FLOP", Domain(2.0), _G, "floating-point operations")]
Traffic = Annotated[Array, Variable("traffic", "B", Domain(0.5), _G, "compulsory bytes: operands and result once")]
WorkingSet = Annotated[
    Array, Variable("working_set", "B", Domain(1.0), _G, "bytes touched between two uses of the same weight")
]
PeakFlops = Annotated[Array, Variable("peak_flops", "FLOP/s", Domain(1e8, 1e18), _G, "peak rate at the boost clock")]
TileM = Annotated[Array, Variable("tile_m", "1", Domain(8, 512, integer=True), ("tiling",), "rows of an output tile")]
TileN = Annotated[
    Array, Variable("tile_n", "1", Domain(8, 512, integer=True), ("tiling",), "columns of an output tile")
]
SplitK = Annotated[
    Array, Variable("split_k", "1", Domain(1, 64, integer=True), ("tiling",), "slices the depth is cut into")
]
Slices = Annotated[
    Array, Variable("slices", "1", Domain(1, 64, integer=True), _GT, "slices the kernel really cuts the depth into")
]
Waves = Annotated[Array, Variable("waves", "1", Domain(1.0), _GT, "rounds in which the SMs work off the tiles")]
EtaClock = Annotated[Array, Variable("eta_clock", "1", _EFFICIENCY, _G, "sustained clock over boost clock")]
EtaWave = Annotated[
    Array, Variable("eta_wave", "1", _EFFICIENCY, _GT, "useful share of the tiles that waves of SMs run")
]
EtaTc = Annotated[Array, Variable("eta_tc", "1", _EFFICIENCY, _GT, "tensor-core rate inside the main loop")]
EtaBarrier = Annotated[
    Array, Variable("eta_barrier", "1", _EFFICIENCY, _GT, "share of time not spent waiting: launch, fill, epilogue")
]
EtaMem = Annotated[Array, Variable("eta_mem", "1", _EFFICIENCY, _GT, "compute time over time with memory traffic")]
ReachedBandwidth = Annotated[
    Array, Variable("reached_bandwidth", "B/s", Domain(1e3, 1e14), _GT, "DRAM bandwidth that the busy SMs can draw")
]
BusySms = Annotated[Array, Variable("busy_sms", "1", Domain(1.0, 1024), _GT, "SMs that a tile of the GEMM falls on")]
TMainLoop = Annotated[Array, Variable("t_main_loop", "s", _DURATION, _GT, "time in the main loops of all waves")]
TLaunch = Annotated[Array, Variable("t_launch", "s", _TIME, doc="launch of a kernel from a graph")]
Quantises = Annotated[
    Array, Variable("quantises", "1", Domain(0, 1), _G, "1 where the activation is quantised right before the product")
]
QuantiseLibrary = Annotated[
    Array, Variable("quantise_library", "1", Domain(0, 2, integer=True), _G, "index of the library that quantises")
]
TPrologue = Annotated[Array, Variable("t_prologue", "s", _TIME, _G, "launch, and quantising the activation")]
TReduce = Annotated[Array, Variable("t_reduce", "s", _TIME, _GT, "adding up the slices of a split depth")]
TCompute = Annotated[Array, Variable("t_compute", "s", _DURATION, _GT, "GEMM time were memory free")]
TTiling = Annotated[Array, Variable("t_tiling", "s", _DURATION, _GT, "GEMM time of each tiling at the SM clock")]
GemmEnergy = Annotated[Array, Variable("gemm_energy", "J", Domain(1e-15), _GT, "energy of a GEMM above idle")]
TCapped = Annotated[Array, Variable("t_capped", "s", _DURATION, _GT, "GEMM time of each tiling within the power cap")]
Tiling = Annotated[
    Array, Variable("tiling_choice", "1", Domain(0, 1e3, integer=True), _G, "index of the fastest tiling")
]
SustainedClock = Annotated[
    Array, Variable("sustained_clock", "Hz", Domain(1.0, 4e9), _G, "SM clock within the power cap")
]
TGemm = Annotated[Array, Variable("t_gemm", "s", _DURATION, _G, "GEMM time")]

# --- attention -----------------------------------------------------------------------------------------------------
_A = ("attention",)
AttnBatch = Annotated[Array, Variable("attn_batch", "1", Domain(1, 1e5), _A, "sequences")]
QLen = Annotated[Array, Variable("q_len", "1", Domain(1, 1e7), _A, "query tokens a sequence")]
KvLen = Annotated[Array, Variable("kv_len", "1", Domain(1, 1e7), _A, "key tokens a sequence attends to")]
QHeads = Annotated[Array, Variable("q_heads", "1", Domain(1, 1024), _A, "query heads on this GPU")]
KvHeads = Annotated[Array, Variable("kv_heads", "1", Domain(1, 1024), _A, "key-value heads on this GPU")]
HeadDim = Annotated[Array, Variable("head_dim", "1", Domain(8, 1024), _A, "length of a query and key")]
VHeadDim = Annotated[Array, Variable("v_head_dim", "1", Domain(8, 1024), _A, "length of a value")]
KvTokenBytes = Annotated[
    Array, Variable("kv_token_bytes", "B", Domain(1, 1e6), _A, "bytes of a token's keys and values, or their latent")
]
Windowed = Annotated[
    Array, Variable("windowed", "1", Domain(0, 1, integer=True), _A, "1 where a sliding window cuts the keys")
]
WritesCache = Annotated[
    Array, Variable("writes_cache", "1", Domain(0, 1), _A, "1 where the launch also writes the new keys and values")
]
Causal = Annotated[Array, Variable("causal", "1", Domain(0, 1), _A, "1 where queries see only earlier keys")]
AttentionCount = Annotated[Array, Variable("attention_count", "1", Domain(0, 1e6), _A, "launches in a step")]
AttentionFlop = Annotated[Array, Variable("attention_flop", "FLOP", Domain(1.0), _A, "floating-point operations")]
AttentionBytes = Annotated[
    Array, Variable("attention_bytes", "B", Domain(16.0), _A, "bytes of query, keys, values, output")
]
AttentionReuse = Annotated[
    Array, Variable("attention_reuse", "B", Domain(1.0), _A, "bytes touched between two uses of the same cache bytes")
]
AttentionBandwidth = Annotated[
    Array,
    Variable("attention_bandwidth", "B/s", Domain(1e8, 1e16), _A, "bandwidth the cache is read at, from DRAM and L2"),
]
ScoreClocks = Annotated[
    Array, Variable("score_clocks", "clock", Domain(1e-4, 1e4), _A, "clocks an SM needs for one query-key pair")
]
TDecodeAttention = Annotated[
    Array, Variable("t_decode_attention", "s", _DURATION, _A, "time of the kernel that attends with one query each")
]
TPrefillAttention = Annotated[
    Array, Variable("t_prefill_attention", "s", _DURATION, _A, "time of the kernel that attends with many queries")
]
TAttention = Annotated[Array, Variable("t_attention", "s", _DURATION, _A, "attention kernel time")]

# --- light kernels and collectives ---------------------------------------------------------------------------------
LightBytes = Annotated[Array, Variable("light_bytes", "B", Domain(0, 1e14), ("light",), "bytes read and written")]
LightCount = Annotated[Array, Variable("light_count", "1", Domain(0, 1e6), ("light",), "launches in a step")]
TLight = Annotated[Array, Variable("t_light", "s", _DURATION, ("light",), "light kernel time")]
MessageBytes = Annotated[
    Array, Variable("message_bytes", "B", Domain(0, 1e13), ("collective",), "bytes each GPU contributes")
]
Ranks = Annotated[Array, Variable("ranks", "1", Domain(1, 1024), ("collective",), "GPUs that take part")]
CollectiveLibrary = Annotated[
    Array,
    Variable(
        "collective_library", "1", Domain(0, 3, integer=True), ("collective",), "index of the library that adds up"
    ),
]
CollectiveCount = Annotated[
    Array, Variable("collective_count", "1", Domain(0, 1e6), ("collective",), "launches in a step")
]
TCollective = Annotated[Array, Variable("t_collective", "s", _TIME, ("collective",), "collective time")]

# --- the step ------------------------------------------------------------------------------------------------------
Tokens = Annotated[Array, Variable("tokens", "1", Domain(1, 1e9), doc="tokens that pass through the layers")]
WeightBytes = Annotated[Array, Variable("weight_bytes", "B", Domain(1, 1e14), doc="weights on this GPU")]
Sequences = Annotated[Array, Variable("sequences", "1", Domain(1, 1e6), doc="concurrent sequences N")]
TGemmTotal = Annotated[Array, Variable("t_gemm_total", "s", _TIME, doc="time of all GEMMs")]
TAttentionTotal = Annotated[Array, Variable("t_attention_total", "s", _TIME, doc="time of all attention kernels")]
TLightTotal = Annotated[Array, Variable("t_light_total", "s", _TIME, doc="time of all light kernels")]
TCollectiveTotal = Annotated[Array, Variable("t_collective_total", "s", _TIME, doc="time of all collectives")]
TGpu = Annotated[Array, Variable("t_gpu", "s", _TIME, doc="GPU time of the step")]
THost = Annotated[Array, Variable("t_host", "s", _TIME, doc="host residual S(N) = s0 + s1 N")]
TStep = Annotated[Array, Variable("t_step", "s", _TIME, doc="latency of one engine step")]

# --- a step as an engine launches it -------------------------------------------------------------------------------
Launches = Annotated[
    Array, Variable("launches", "1", Domain(0.0, 1e6), doc="kernels that an engine launches in a step")
]
PromptChunks = Annotated[
    Array, Variable("prompt_chunks", "1", Domain(0.0, 1e4), doc="chunks of prompts in a step; 0 in a decode step")
]
TLaunches = Annotated[Array, Variable("t_launches", "s", _TIME, doc="fixed time of all kernels of a step")]

# --- serving -------------------------------------------------------------------------------------------------------
_TOKENS = Domain(1.0, 1e7)
Requests = Annotated[Array, Variable("requests", "1", Domain(1.0, 1e6), doc="clients, each with one request at a time")]
InputTokens = Annotated[Array, Variable("input_tokens", "1", _TOKENS, doc="tokens of a prompt")]
OutputTokens = Annotated[Array, Variable("output_tokens", "1", _TOKENS, doc="tokens of an answer")]
KvPool = Annotated[Array, Variable("kv_pool", "B", Domain(0.0, 1e14), doc="memory of one GPU left to the KV cache")]
KvBytesPerToken = Annotated[
    Array, Variable("kv_bytes_per_token", "B", Domain(1.0, 1e9), doc="cache that one token takes on one GPU")
]
ReservedTokens = Annotated[
    Array, Variable("reserved_tokens", "1", _TOKENS, doc="tokens of cache that a running request holds")
]
StepTokens = Annotated[Array, Variable("step_tokens", "1", _TOKENS, doc="most tokens of a step")]
PrefillFirst = Annotated[
    Array, Variable("prefill_first", "1", Domain(0.0, 1.0), doc="1 where a wave of equal prompts is prefilled as one")
]
EqualLengths = Annotated[
    Array, Variable("equal_lengths", "1", Domain(0.0, 1.0), doc="1 where all requests have one length, 0 at random")
]
RequestsPerClient = Annotated[
    Array, Variable("requests_per_client", "1", Domain(1.0, 1e9), doc="requests that a client makes, one after another")
]
HeldSteps = Annotated[
    Array, Variable("held_steps", "1", Domain(0.0, 1e4), doc="steps a request is held back to be batched with others")
]
Running = Annotated[Array, Variable("running", "1", Domain(1.0, 1e6), doc="requests that run at once")]
TDecode = Annotated[Array, Variable("t_decode", "s", _DURATION, doc="decode step of all running requests")]
TPrefill = Annotated[Array, Variable("t_prefill", "s", _DURATION, doc="what one prompt adds to the decode steps")]
TLag = Annotated[Array, Variable("t_lag", "s", _TIME, doc="client, transport and tokeniser before the first token")]
PrefillsToFirst = Annotated[
    Array,
    Variable("prefills_to_first", "1", Domain(0.5, 1e7), doc="prompts prefilled before a request's first token"),
]
TSlot = Annotated[Array, Variable("t_slot", "s", _TIME, doc="time from a request's start to its end")]
TQueue = Annotated[Array, Variable("t_queue", "s", _TIME, doc="wait until a running request makes room")]
Ttft = Annotated[Array, Variable("ttft", "s", _TIME, doc="time to first token")]
Tpot = Annotated[Array, Variable("tpot", "s", _TIME, doc="time per output token after the first")]
TRequest = Annotated[Array, Variable("t_request", "s", _TIME, doc="time from a request to its last token")]
Throughput = Annotated[Array, Variable("throughput", "1/s", _TIME, doc="output tokens a second, all clients together")]
