"""Why a fault was raised, from the engine's source: on the host, in a case, or in a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from triage.common.commands import command
from triage.common.errors import UsageError
from triage.engines import ENGINES, engine_named
from triage.evidence.discovery.containers import container_of, file_in
from triage.evidence.model import Deployment, Evidence
from triage.explain.code import Code
from triage.explain.explain import MOST_FRAMES, explain, explain_line
from triage.explain.launched import launch_arguments
from triage.explain.model import Explained
from triage.logs.faults.frames import module_tail
from triage.logs.model import Fault, Incident, LogSource
from triage.patching.evidence_tree import places
from triage.patching.trees import DirectoryTree, find_root

if TYPE_CHECKING:
    from triage.patching.model import SourceTree


def explained(
    incident: Incident,
    deployment: Deployment,
    evidence: Evidence,
    installed: SourceTree,
    source: Path | None,
    logs: Iterable[LogSource],
) -> Explained | None:
    """Explain the initiator. None where it has no frames, or their source cannot be read."""
    fault = incident.initiator
    if fault is None or not fault.frames:
        return None
    tree, package = installed, engine_named(deployment.engine).package.name
    if source is not None:
        root, package = find_root(source)
        tree = DirectoryTree(root)
    elif not deployment.package_root:
        return None
    settings = settings_of(package)
    if source is None:
        _foresee(fault, deployment, evidence, settings)
    run = {**_dests(deployment.arguments), **launch_arguments(logs), **incident.facts}
    return explain(fault, tree, settings, run, package)


def why(place: str, source: Path) -> Explained:
    """Explain a line of a source, `FILE:LINE`, without a log. Raises UsageError where nothing is there."""
    file, _, line = place.rpartition(":")
    root, package = find_root(source)
    next = command("why", "PACKAGE/FILE.py:LINE", "--source", str(source))
    if not file.endswith(".py") or not line.isdecimal() or len(line) > 7:
        raise UsageError("explaining", place, "it is no FILE:LINE of a Python file", next)
    tail = module_tail(file if file.startswith("/") else f"/site-packages/{file}")
    code = Code(DirectoryTree(root))
    module = code.module(tail[:-3].replace("/", ".").removesuffix(".__init__"))
    if module is None:
        raise UsageError("explaining", place, f"there is no such module in {root}", f"ls {root}/{package}")
    found = explain_line(module, int(line), code, settings_of(package), {})
    if found is None:
        raise UsageError("explaining", place, "no statement stands there", next)
    return found


def settings_of(package: str) -> tuple[str, ...]:
    """The modules of an engine that declare its options and variables."""
    return next((one.package.settings for one in ENGINES.values() if one.package.name == package), ())


def _dests(arguments: Mapping[str, str]) -> dict[str, str]:
    return {name.lstrip("-").replace("-", "_"): value for name, value in arguments.items()}


def _foresee(fault: Fault, deployment: Deployment, evidence: Evidence, settings: Iterable[str]) -> None:
    """Say which files are about to be read, so that a far host is asked for all of them at once."""
    root = deployment.package_root.rstrip("/")
    tails = (module_tail(frame.file) for frame in fault.frames[-MOST_FRAMES:])
    modules = [tail[:-3].replace("/", ".") for tail in tails if tail.endswith(".py")]
    paths = [path for module in (*modules, *settings) for path in places(root, module)[:1]]
    container = container_of(deployment)
    evidence.foresee([file_in(container, path) for path in dict.fromkeys(paths)])
