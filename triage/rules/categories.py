"""What each category means: the root cause that its rules have in common."""

from __future__ import annotations

from collections.abc import Mapping

from triage.rules.schema import Category

CATEGORIES: Mapping[Category, str] = {
    "pp-rank-assumption": "code takes the whole model for granted, and runs on one pipeline stage",
    "divisibility": "a size of the model is no multiple of the parallel size or of a kernel's block",
    "dp-ep": "data or expert parallelism is set up in a way that does not fit the model or the ranks",
    "quantization": "scheme, kernel and shape of a quantized model do not fit each other",
    "model-config": "the engine does not know the model's architecture, keys, tokenizer or code",
    "weights": "the checkpoint is damaged, incomplete, or its names are not those of the model",
    "hf-hub": "the model hub refuses or cannot be reached, or the cache does not have the files",
    "gpu-oom": "the memory of a GPU runs out",
    "kv-cache-too-small": "too little memory is left for the KV cache, or a context is longer than it",
    "host-oom": "the host or a memory limit on it runs out of memory, and a process is killed",
    "shm-too-small": "/dev/shm is too small for what processes share",
    "ulimit": "a limit of the operating system: descriptors, locked memory, processes, stack",
    "nccl": "the library for collectives fails in its transport, topology or environment",
    "nccl-timeout": "ranks wait for one that does not come, and no earlier fault is in sight",
    "distributed-init": "the ranks do not find each other when they start",
    "arch-mismatch": "a program or kernel was not built for this GPU or processor",
    "driver-mismatch": "the versions of driver, CUDA runtime and kernels do not fit",
    "abi-mismatch": "a compiled library was built for another version of what it is loaded into",
    "missing-extension": "a compiled or optional package that is needed is not installed",
    "python-env": "the wrong interpreter, packages that contradict each other, a shadowed import",
    "jit-toolchain": "a kernel is built when it is first needed, and compiler or headers are missing",
    "triton-compile": "triton, inductor or ptxas cannot compile or launch a kernel",
    "cuda-illegal-access": "a kernel reads or writes where it must not, and no earlier fault is in sight",
    "gpu-xid": "the driver reports a fault of a GPU",
    "gpu-hardware": "memory errors, power, heat or the bus of a GPU",
    "watchdog": "a watchdog ends a hang, and no earlier fault is in sight",
    "engine-dead": "the engine died, and this log does not hold the reason",
    "port-in-use": "an address or port is taken",
    "launch-arguments": "launch arguments are unknown, out of range, or contradict each other",
    "systemd": "the service manager could not start the service, or ended it",
    "permission": "a file, device or cache may not be used by this user",
    "host-storage": "a disk is full, read-only or broken",
    "ray": "the Ray cluster cannot place, start or keep the workers",
    "health-check": "the service works, and what probes it or stands before it does not, or the reverse",
    "request": "a client's request is at fault, not the deployment",
    "unknown": "none of these",
}
