"""llama.cpp's server, releases of May 2025 and of 2026: one program, without Python."""

from __future__ import annotations

from types import MappingProxyType

from triage.engines.engine import (
    Engine,
    Environment,
    Log,
    LogFact,
    PhaseWords,
    ReadyLine,
    RequestCounters,
    ServerCommand,
    ServerProcesses,
    VersionLine,
)

_COMMAND = ServerCommand(
    programs=("llama-server",),
    aliases=MappingProxyType(
        {
            "m": "model",
            "hf": "hf-repo",
            "hfr": "hf-repo",
            "a": "alias",
            "c": "ctx-size",
            "np": "parallel",
            "b": "batch-size",
            "ub": "ubatch-size",
            "t": "threads",
            "ngl": "gpu-layers",
            "n-gpu-layers": "gpu-layers",
            "dev": "device",
            "ts": "tensor-split",
            "sm": "split-mode",
            "fa": "flash-attn",
            "ctk": "cache-type-k",
            "ctv": "cache-type-v",
            "ssl-cert-file": "ssl-certfile",
            "ssl-key-file": "ssl-keyfile",
        }
    ),
    default_port=8080,
    images=r"(?:^|/)llama\.cpp:(?:[\w.-]+-)?server(?:[-@]|$)",  # `ghcr.io/ggml-org/llama.cpp:server-cuda`
    image_command=("/app/llama-server",),
)

_LOADING = "loading model"

_LOG = Log(
    format="llama_cpp",
    banners=("llama_server: initializing ...", "system_info: n_threads = "),
    starts=("llama_server: initializing ...", "system_info: n_threads = "),
    versions=(  # the number of a build, which is the release's name
        VersionLine(
            r"print_info: build (\d{1,6}) \([0-9a-f]{5,40}\) with ", "print_info: build ", is_own=True
        ),
        VersionLine(r"^build: (\d{1,6}) \([0-9a-f]{5,40}\) with ", "build: ", is_own=True),
    ),
    facts=(
        LogFact("model_path", "load_model: loading model '", r"loading model '([^'\n]{1,1000})'"),
        LogFact("model_class", "print_info: arch ", r"print_info: arch {1,40}= (\w{1,100})"),
        LogFact("context_length", "n_ctx_slot = ", r"n_ctx_slot = (\d{1,9})"),
    ),
    phases=(
        PhaseWords(_LOADING, ("loading model '", "main: loading model")),
        PhaseWords("loading model tensors", ("loading model tensors, this can take a while",)),
        PhaseWords("constructing llama_context", ("constructing llama_context",)),
        PhaseWords("warming up the model", ("warming up the model with an empty run",)),
        PhaseWords("initializing slots", ("initializing slots, n_slots = ", "initializing, n_slots = ")),
    ),
    ready=(
        ReadyLine("server is listening on http://", after=_LOADING),  # of 2025
        ReadyLine("listening on http://", after=_LOADING),
    ),
    serving=("slot launch_slot_: ", "slot print_timing: ", "slot      release: ", "slot update_slots: "),
    answered=("request: POST ", " 200"),  # `srv  log_server_r: request: POST /v1/completions 127.0.0.1 200`
    # "cleaning up before exit..." is no such line: a start that failed says it, too
    stopping=("Received second interrupt, terminating immediately.",),
)

LLAMA_CPP = Engine(
    name="llama.cpp",
    title="llama.cpp",
    tracker="https://github.com/ggml-org/llama.cpp/issues",
    command=_COMMAND,
    environment=Environment(
        prefixes=("LLAMA_", "GGML_"), caches=MappingProxyType({"LLAMA_CACHE": ".cache/llama.cpp"})
    ),
    log=_LOG,
    processes=ServerProcesses(
        kernel_names=("llama-server",), failures="error loading model|failed to|GGML_ASSERT|terminate called"
    ),
    requests=RequestCounters(  # with --metrics
        paths=("/metrics",), gauges=("llamacpp:requests_processing", "llamacpp:requests_deferred")
    ),
)
