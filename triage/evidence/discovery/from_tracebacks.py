"""What tracebacks and the log tell of a deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from triage.engines import ENGINES, Engine, engine_named
from triage.evidence.model import Deployment, Evidence, Layout

PACKAGES_IN = ("site-packages", "dist-packages")


def with_traceback_paths(deployment: Deployment, frame_files: Sequence[str]) -> Deployment:
    """The deployment, compared with the files that its tracebacks name.

    Where the tree is not known it is taken from them; where they lie in another tree, that is a
    disagreement.
    """
    known = engine_named(deployment.engine)
    engines = [engine for engine in ((known,) if known.name else ENGINES.values()) if engine.package.name]
    roots: dict[str, str] = {}
    for file in frame_files:
        for engine in engines:
            root = _package_root(file, engine)
            if root:
                roots.setdefault(root, engine.name)
    if not roots:
        return deployment
    if not deployment.package_root:
        root, name = next(iter(roots.items()))
        return replace(deployment, package_root=root, engine=name)
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
    deployment = Deployment(
        name=name,
        engine=engine_named(facts.get("engine", "")).name,
        version=facts.get("version", ""),
        arguments=MappingProxyType(arguments),
        layout=Layout(**sizes),
        model=facts.get("model_path", ""),
    )
    return with_traceback_paths(deployment, frame_files)


def _package_root(file: str, engine: Engine) -> str:
    """`/v/lib/python3.11/site-packages/sglang/srt/a.py` -> `/v/lib/python3.11/site-packages/sglang`.

    Directories above it can be called like the engine too: a virtual environment, a user's home, a checkout.
    """
    parts, package = file.split("/"), engine.package.name
    if not file.startswith("/") or not file.endswith(".py"):
        return ""
    installed = [i for i, part in enumerate(parts) if part in PACKAGES_IN]
    if installed:
        at = installed[-1] + 1
        return "/".join(parts[: at + 1]) if parts[at] == package and at < len(parts) - 1 else ""
    own = engine.package.top_level
    places = [i for i in range(1, len(parts) - 1) if parts[i] == package and parts[i + 1] in own]
    return "/".join(parts[: places[-1] + 1]) if places else ""


def _same_place(one: str, other: str) -> bool:
    """A virtual environment's lib64 is a link to its lib."""
    return one.replace("/lib64/", "/lib/") == other.replace("/lib64/", "/lib/")
