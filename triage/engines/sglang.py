"""SGLang, 0.4 to 0.5."""

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
    modules=("sglang.launch_server", "sglang.srt.entrypoints.http_server"),
    serve_modules=("sglang", "sglang.cli.main"),
    programs=("sglang",),
    subcommand="serve",
    aliases=MappingProxyType(
        {
            "model": "model-path",
            "tp": "tp-size",
            "tensor-parallel-size": "tp-size",
            "pp": "pp-size",
            "pipeline-parallel-size": "pp-size",
            "dp": "dp-size",
            "data-parallel-size": "dp-size",
            "ep": "ep-size",
            "expert-parallel-size": "ep-size",
        }
    ),
    sizes=MappingProxyType({"tp": "tp-size", "pp": "pp-size", "dp": "dp-size", "ep": "ep-size"}),
    memory_share="mem-fraction-static",
    default_port=30000,
    tls=("ssl-certfile", "ssl-keyfile"),
)

_PACKAGE = Package(
    name="sglang",
    distributions=("sglang",),
    companions=("sgl_kernel",),
    companion_distributions=("sgl-kernel", "sglang-kernel"),
    code=("sglang", "sgl_kernel"),
    top_level=frozenset(("srt", "lang", "cli", "jit_kernel", "multimodal_gen", "launch_server.py")),
    settings=("sglang.srt.server_args", "sglang.srt.environ"),
)

_GRAPH = r"Capture (?:[a-z]+ ){{0,3}}(?:cuda|CUDA) graph {}"

_LOG = Log(
    format="sglang",
    banners=("server_args=",),
    starts=("server_args=ServerArgs(",),
    argument_lines=("server_args=",),
    arguments=MappingProxyType(
        {
            "pp_size": "pp_size",
            "tp_size": "tp_size",
            "dp_size": "dp_size",
            "ep_size": "ep_size",
            "ep_num_redundant_experts": "ep_num_redundant_experts",
            "model_path": "model_path",
            "context_length": "context_length",
            "enable_dp_attention": "enable_dp_attention",
            "mem_fraction_static": "mem_fraction_static",
        }
    ),
    versions=(VersionLine(r"\bsglang[ =:]{1,3}v?(\d+\.\d[\w.+-]{0,40})"),),
    facts=(
        LogFact("kv_pool", "SWAKVPool mem usage:", value="SWAKVPool"),
        LogFact("kv_pool", "KV Cache is allocated", " K size: ", "MHATokenToKVPool"),
        LogFact("kv_pool", "KV Cache is allocated", " KV size: ", "MLATokenToKVPool"),
        LogFact("model_class", "Load weight end.", r"Load weight end\..{0,200}?\btype=(\w{1,100})"),
        LogFact(  # in GiB: its GB are such
            "free_before_load_gib",
            "Load weight begin.",
            r"Load weight begin\. avail mem=(\d{1,6}(?:\.\d{1,4})?) GB",
        ),
        LogFact(
            "free_after_load_gib",
            "Load weight end.",
            r"Load weight end\..{0,300}?\bavail mem=(\d{1,6}(?:\.\d{1,4})?) GB",
        ),
        LogFact(
            "weights_gib",
            "Load weight end.",
            r"Load weight end\..{0,300}?\bmem usage=(\d{1,6}(?:\.\d{1,4})?) GB",
        ),
    ),
    phases=(
        PhaseWords("Init torch distributed begin", ("Init torch distributed begin",)),
        PhaseWords("Init torch distributed ends", ("Init torch distributed ends",), ends=True),
        PhaseWords("Load weight begin", ("Load weight begin",)),
        PhaseWords("Load weight end", ("Load weight end",), ends=True),
        PhaseWords("KV Cache is allocated", ("KV Cache is allocated", "SWAKVPool mem usage:"), ends=True),
        PhaseWords("Memory pool end", ("Memory pool end",), ends=True),
        PhaseWords(
            "Capture cuda graph begin",
            ("cuda graph begin", "CUDA graph begin"),
            pattern=_GRAPH.format("begin"),
        ),
        PhaseWords(
            "Capture cuda graph end",
            ("cuda graph end", "CUDA graph end"),
            ends=True,
            pattern=_GRAPH.format("end"),
        ),
        PhaseWords("max_total_num_tokens", ("max_total_num_tokens=",), ends=True),
    ),
    # "Application startup complete" is uvicorn's, and comes before the warm-up
    ready=(ReadyLine("The server is fired up and ready to roll!"),),
    serving=("Decode batch", "Prefill batch"),
    answered=UVICORN,
    stopping=("SIGTERM received", "Gracefully exiting"),
)

_BENCHMARK = Benchmark(  # 0.4.6 and newer; run with 0.5.10
    name="sglang.bench_serving",
    start=("-m", "sglang.bench_serving"),
    options=MappingProxyType(
        {
            "backend": "sglang-oai",
            "dataset-name": "random-ids",
            "random-range-ratio": "1",
            "output-file": "RESULT",
        }
    ),
    switches=("--disable-tqdm",),
    result_keys=frozenset(("completed", "output_throughput", "total_output_tokens", "median_ttft_ms")),
    end_to_end="e2e_latency",
    note="sglang does not say how many requests failed, and counts what was asked for as output",
    model=("server_info", "served_model_name"),
    version=("server_info", "version"),
)

SGLANG = Engine(
    name="sglang",
    title="SGLang",
    tracker="https://github.com/sgl-project/sglang/issues",
    command=_COMMAND,
    package=_PACKAGE,
    environment=Environment(
        prefixes=("SGLANG_", "SGL_"),
        caches=MappingProxyType({"SGLANG_DG_CACHE_DIR": ".cache/deep_gemm"}),
    ),
    log=_LOG,
    processes=ServerProcesses(
        titles=("sglang::",),
        kernel_names=("sglang",),
        numbered=("scheduler_",),
        failures="hit an exception|Traceback",
    ),
    requests=RequestCounters(  # 0.5.9 and newer; with --enable-metrics; 0.5.2 to 0.5.20
        paths=("/v1/loads?include=core", "/metrics", "/get_load"),
        gauges=("sglang:num_running_reqs", "sglang:num_queue_reqs"),
        counters=(("num_running_reqs", "num_waiting_reqs"), ("num_reqs",)),
    ),
    drain=Drain(waits=True),  # up to 0.5.23, and it takes new ones until they have ended
    benchmark=_BENCHMARK,
    pipeline=Pipeline(
        variable="SGLANG_PP_LAYER_PARTITION",
        schemes=("remainder-to-last", "remainder-to-last-ones"),
        module="sglang.srt.distributed.utils",
    ),
)
