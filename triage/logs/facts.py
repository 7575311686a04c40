"""What a log says of the deployment that wrote it: layout, model, version, phase of its start."""

from __future__ import annotations

import re
from collections.abc import Iterator

LIMIT = 65_536
"""Characters of a banner line that are read: SGLang's is about ten thousand long."""

# as the log spells it -> as a fact is called
_KEYS = {
    "pp_size": "pp_size",
    "tp_size": "tp_size",
    "dp_size": "dp_size",
    "ep_size": "ep_size",
    "ep_num_redundant_experts": "ep_num_redundant_experts",
    "nnodes": "nnodes",
    "node_rank": "node_rank",
    "pipeline_parallel_size": "pp_size",
    "tensor_parallel_size": "tp_size",
    "data_parallel_size": "dp_size",
    "attention_backend": "attention_backend",
    "model_path": "model_path",
    "model": "model_path",
    "served_model_name": "served_model_name",
    "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization",
    "device": "device",
    "port": "port",
    "context_length": "context_length",
    "max_model_len": "context_length",
    "enable_dp_attention": "enable_dp_attention",
    "enforce_eager": "enforce_eager",
    "num_hidden_layers": "num_hidden_layers",
    "mem_fraction_static": "mem_fraction_static",
    "gpu_memory_utilization": "gpu_memory_utilization",
}
_PAIR = re.compile(
    r"(?<![\w.])'?("
    + "|".join(_KEYS)
    + r")(?:'?: |=)(?:'([^'\n]{0,1000})'|\"([^\"\n]{0,1000})\"|(?:\['([^'\n]{0,200})'\])|([\w.+-]{1,200}))"
)
_VERSION = re.compile(
    r"Initializing a V\d LLM engine \(v([\w.+-]{1,60})\)|vLLM API server version ([\w.+-]{1,60})|"
    r"^[\s▀▄█]{0,60}version (\d[\w.+-]{0,60})$|\bsglang[ =:]{1,3}v?(\d+\.\d[\w.+-]{0,40})"
)
_TYPE = re.compile(r"Load weight end\..{0,200}?\btype=(\w{1,100})")
_MEMORY = (  # in GiB: sglang's GB are such
    ("free_before_load_gib", re.compile(r"Load weight begin\. avail mem=(\d{1,6}(?:\.\d{1,4})?) GB")),
    ("free_after_load_gib", re.compile(r"Load weight end\..{0,300}?\bavail mem=(\d{1,6}(?:\.\d{1,4})?) GB")),
    ("weights_gib", re.compile(r"Load weight end\..{0,300}?\bmem usage=(\d{1,6}(?:\.\d{1,4})?) GB")),
    ("weights_gib", re.compile(r"Model loading took (\d{1,6}(?:\.\d{1,4})?) GiB")),
)
_ARCHITECTURE = re.compile(r"Resolved architectures?: \[?'?(\w{1,100})")
_UNEVEN = re.compile(r"Hidden layers were unevenly partitioned: \[([\d,\s]{1,400})\]")

PHASES = (
    "Init torch distributed begin",
    "Init torch distributed ends",
    "Load weight begin",
    "Load weight end",
    "KV Cache is allocated",
    "Memory pool end",
    "Capture cuda graph begin",
    "Capture cuda graph end",
    "max_total_num_tokens=",
    "The server is fired up and ready to roll!",
    "Initializing a V",
    "Starting to load model",
    "Initializing model took",
    "Loading weights took",
    "Model loading took",
    "Warming up model for the compilation",
    "Warming up done",
    "Graph capturing finished",
    "init engine (profile, create kv cache, warmup model)",
    "Starting vLLM server on",
    "Starting vLLM API server",
    "Application startup complete",
)
READY = ("The server is fired up and ready to roll!", "Application startup complete")

BANNERS = ("server_args=", "non-default args: ", "vLLM API server version ")

_OTHER = (
    "SWAKVPool mem usage:",
    "Initializing a V",
    "version ",
    "Resolved architecture",
    "unevenly partitioned",
)
NEEDLES: tuple[str, ...] = (*BANNERS, *PHASES, *_OTHER)


STARTS = (b"server_args=ServerArgs(", b"non-default args: ", b"vLLM API server version ")
"""What an engine says once at a start; code in tracebacks has no such words."""


def starts_in(data: bytes) -> int:
    """How many starts of an engine are in a log, about."""
    return max(map(data.count, STARTS))


def phase_of(text: str) -> str:
    """The phase that a line announces, "" when it announces none."""
    for phase in PHASES:
        if phase in text:
            return phase.rstrip("=! ")
    return ""


def engine_of(banner: str) -> str:
    return "sglang" if banner == "server_args=" else "vllm"


def banner_of(text: str) -> str:
    for banner in BANNERS:
        if banner in text[:400]:
            return banner
    return ""


def facts_of(text: str) -> Iterator[tuple[str, str]]:
    """The facts on a line, as (name, value); later and more exact lines may say a name again."""
    version = _VERSION.search(text, 0, 2000)
    if version is not None:
        yield "version", next(group for group in version.groups() if group)
    if "server_args=" in text[:400]:
        yield "engine", "sglang"
        yield from _pairs(text)
    elif "non-default args: " in text[:400] or "Initializing a V" in text[:400]:
        yield "engine", "vllm"
        yield from _pairs(text)
    elif "vLLM API server version" in text[:400] or (version is not None and version[3]):
        yield "engine", "vllm"
    if "SWAKVPool mem usage:" in text:
        yield "kv_pool", "SWAKVPool"
    elif "KV Cache is allocated" in text:
        if " K size: " in text:
            yield "kv_pool", "MHATokenToKVPool"
        elif " KV size: " in text:
            yield "kv_pool", "MLATokenToKVPool"
    model = _TYPE.search(text, 0, 2000) or _ARCHITECTURE.search(text, 0, 2000)
    if model is not None:
        yield "model_class", model[1]
    if "Load weight " in text[:400] or "Model loading took" in text[:400]:
        for name, pattern in _MEMORY:
            found = pattern.search(text, 0, 2000)
            if found is not None:
                yield name, found[1]
    uneven = _UNEVEN.search(text, 0, 2000)
    if uneven is not None:
        yield "layer_partition", uneven[1].replace(" ", "")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for match in _PAIR.finditer(text, 0, LIMIT):
        value = next((group for group in match.groups()[1:] if group is not None), "")
        if value != "None":
            yield _KEYS[match[1]], value


def merge(facts: dict[str, str], name: str, value: str) -> None:
    """Keep what was said first; a pool of pools names itself after the pools that it holds."""
    if name == "kv_pool" and value == "SWAKVPool":
        facts[name] = value
    else:
        facts.setdefault(name, value)
