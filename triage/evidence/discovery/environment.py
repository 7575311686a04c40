"""Which environment variables matter to an inference service, and may be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triage.engines import ENGINES

NAMES = frozenset(
    (
        *(
            "PATH",
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "HOME",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "CONDA_DEFAULT_ENV",
        ),
        *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NVIDIA_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HOST_IP"),
    )
)
PREFIXES = (
    *("CUDA_", "NCCL_", "GLOO_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "PYTHON", "TRITON_", "OMP_", "MKL_"),
    *("HF_", "TRANSFORMERS_", "FLASHINFER_", "UCX_", "MC_", "RAY_", "HSA_"),
    *(prefix for engine in ENGINES.values() for prefix in engine.environment.prefixes),
)
_SECRET = re.compile(r"TOKEN(?!S|IZ)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH(?!OR)")


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter, without those that hold secrets."""
    return {
        name: value
        for name, value in environment.items()
        if (name in NAMES or name.startswith(PREFIXES)) and not is_secret(name)
    }


def is_secret(name: str) -> bool:
    """`HF_TOKEN`, but not `VLLM_MAX_TOKENS` or `TOKENIZERS_PARALLELISM`."""
    return _SECRET.search(name.upper()) is not None


def compile_caches(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the directories where a service keeps what it compiles, by the variable that moves each.

    Without HOME those that would lie below it are left out.
    """
    home = environment.get("HOME", "")
    below_home = {
        "TRITON_CACHE_DIR": ".triton/cache",
        "FLASHINFER_WORKSPACE_BASE": ".cache/flashinfer",
        "TORCH_EXTENSIONS_DIR": ".cache/torch_extensions",
        **{name: path for engine in ENGINES.values() for name, path in engine.environment.caches.items()},
        "CUDA_CACHE_PATH": ".nv/ComputeCache",
        "HF_HOME": ".cache/huggingface",
    }
    found = {name: f"{home}/{path}" for name, path in below_home.items() if home.startswith("/")}
    found |= {
        name: environment[name] for name in (*below_home, "TORCHINDUCTOR_CACHE_DIR") if name in environment
    }
    return {name: path for name, path in found.items() if path.startswith("/")}
