"""What tracebacks and the log tell of a deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from triage.evidence.discovery.command_line import Engine
from triage.evidence.model import Deployment, Evidence, Layout

PACKAGES_IN = ("site-packages", "dist-packages")
# What lies right below an engine's package: by these its directory is known where it runs from a checkout.
OWN_MODULES: Mapping[str, frozenset[str]] = {
    "sglang": frozenset(("srt", "lang", "cli", "jit_kernel", "multimodal_gen", "launch_server.py")),
    "vllm": frozenset(
        (
            *("v1", "engine", "entrypoints", "model_executor", "executor", "worker", "distributed"),
            *("attention", "compilation", "lora", "multimodal", "platforms", "plugins", "spec_decode"),
        )
    ),
}


def with_traceback_paths(deployment: Deployment, frame_files: Sequence[str]) -> Deployment:
    """The deployment, compared with the files that its tracebacks name.

    Where the tree is not known it is taken from them; where they lie in another tree, that is a
    disagreement.
    """
    engines: tuple[Engine, ...] = (deployment.engine,) if deployment.engine else ("sglang", "vllm")
    roots: dict[str, Engine] = {}
    for file in frame_files:
        for engine in engines:
            root = _package_root(file, engine)
            if root:
                roots.setdefault(root, engine)
    if not roots:
        return deployment
    if not deployment.package_root:
        root, engine = next(iter(roots.items()))
        return replace(deployment, package_root=root, engine=engine)
    others = [root for root in roots if not _same_place(root, deployment.package_root)]
    said = tuple(
        f"the traceback's files lie in {root}, but the service would now import {deployment.package_root}"
        for root in others
    )
    return replace(deployment, disagreements=(*deployment.disagreements, *said))


def deployment_from_log(
    evidence: Evidence, name: str, facts: Mapping[str, str], frame_files: Sequence[str]
) -> Deployment:
    """What a log alone tells: `facts` are those of its incident."""
    arguments = {key.replace("_", "-"): value for key, value in facts.items()}
    sizes = {
        size: int(value)
        for size in ("tp", "pp", "dp", "ep")
        if (value := facts.get(f"{size}_size", "")).isdecimal() and len(value) < 6
    }
    engines: dict[str, Engine] = {"sglang": "sglang", "vllm": "vllm"}
    deployment = Deployment(
        name=name,
        engine=engines.get(facts.get("engine", ""), ""),
        version=facts.get("version", ""),
        arguments=MappingProxyType(arguments),
        layout=Layout(**sizes),
        model=facts.get("model_path", ""),
    )
    return with_traceback_paths(deployment, frame_files)


def _package_root(file: str, engine: str) -> str:
    """`/v/lib/python3.11/site-packages/sglang/srt/a.py` -> `/v/lib/python3.11/site-packages/sglang`.

    Directories above it can be called like the engine too: a virtual environment, a user's home, a checkout.
    """
    parts = file.split("/")
    if not file.startswith("/") or not file.endswith(".py"):
        return ""
    installed = [i for i, part in enumerate(parts) if part in PACKAGES_IN]
    if installed:
        at = installed[-1] + 1
        return "/".join(parts[: at + 1]) if parts[at] == engine and at < len(parts) - 1 else ""
    own = OWN_MODULES[engine]
    places = [i for i in range(1, len(parts) - 1) if parts[i] == engine and parts[i + 1] in own]
    return "/".join(parts[: places[-1] + 1]) if places else ""


def _same_place(one: str, other: str) -> bool:
    """A virtual environment's lib64 is a link to its lib."""
    return one.replace("/lib64/", "/lib/") == other.replace("/lib64/", "/lib/")
