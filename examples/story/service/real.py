"""The modules of SGLang that run as they were installed; all others are absent."""

from __future__ import annotations

from fnmatch import fnmatchcase

PATTERNS = (
    "sglang._version",
    "sglang.launch_server",
    "sglang.srt.arg_groups.*",
    "sglang.srt.configs.hybrid_arch",
    "sglang.srt.configs.linear_attn_model_registry",
    "sglang.srt.configs.model_config",
    "sglang.srt.constants",
    "sglang.srt.distributed",
    "sglang.srt.distributed.bootstrap",
    "sglang.srt.distributed.parallel_state",
    "sglang.srt.distributed.parallel_state_wrapper",
    "sglang.srt.distributed.utils",
    "sglang.srt.entrypoints.engine",
    "sglang.srt.environ",
    "sglang.srt.function_call.function_call_parser",
    "sglang.srt.layers.attention.attention_registry",
    "sglang.srt.layers.attention.base_attn_backend",
    "sglang.srt.layers.attention.triton_backend",
    "sglang.srt.layers.cp.utils",
    "sglang.srt.layers.dp_attention",
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.tp_worker",
    "sglang.srt.mem_cache.allocation_sizing",
    "sglang.srt.mem_cache.allocator",
    "sglang.srt.mem_cache.allocator.base",
    "sglang.srt.mem_cache.allocator.paged",
    "sglang.srt.mem_cache.allocator.swa",
    "sglang.srt.mem_cache.allocator.token",
    "sglang.srt.mem_cache.base_swa_memory_pool",
    "sglang.srt.mem_cache.kv_cache_configurator",
    "sglang.srt.mem_cache.kv_cache_dtype",
    "sglang.srt.mem_cache.memory_pool",
    "sglang.srt.mem_cache.swa_memory_pool",
    "sglang.srt.mem_cache.utils",
    "sglang.srt.model_executor.cuda_graph_config",
    "sglang.srt.model_executor.model_runner",
    "sglang.srt.model_executor.model_runner_components.attention_backend_setup",
    "sglang.srt.model_executor.model_runner_components.cuda_graph_setup",
    "sglang.srt.model_executor.model_runner_components.kv_pool_runtime",
    "sglang.srt.model_executor.model_runner_components.layer_setup",
    "sglang.srt.model_executor.model_runner_components.load_model_utils",
    "sglang.srt.model_executor.model_runner_components.misc_utils",
    "sglang.srt.model_executor.model_runner_kv_cache_mixin",
    "sglang.srt.model_executor.pool_configurator",
    "sglang.srt.observability.startup_time",
    "sglang.srt.parser.reasoning_parser",
    "sglang.srt.runtime_context",
    "sglang.srt.server_args",
    "sglang.srt.speculative.spec_info",
    "sglang.srt.utils",
    "sglang.srt.utils.common",
    "sglang.srt.utils.network",
    "sglang.srt.utils.runai_utils",
    "sglang.srt.utils.watchdog",
    "sglang.utils",
    "sglang.version",
)


def is_real(name: str) -> bool:
    """Whether the module of this dotted name runs as it was installed."""
    return any(fnmatchcase(name, pattern) for pattern in PATTERNS)
