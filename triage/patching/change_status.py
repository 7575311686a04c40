"""What has become of the changes on record, which services run them, and what to do next."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from triage.common.commands import NextCommand, command
from triage.evidence.model import Deployment
from triage.patching.ledger import ChangedFile, LedgerView, PatchChange
from triage.patching.observation import FileFacts, Observation, observe
from triage.patching.remote import PatchAgent

# A package was installed over it; another hand put the old bytes back, or edited the file; it is not there.
Cause = Literal["", "cut", "installed", "restored", "edited", "gone"]


@dataclass(frozen=True)
class AffectedService:
    """A service of the host, and the tree that its interpreter imports the engine from.

    `root` is the real directory that holds the package. `pid` and `started` (seconds since 1970) are
    None where it does not run. `seen` is what its own interpreter found of the files.
    """

    name: str
    root: str
    seen: Observation
    pid: int | None = None
    started: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class RunningService:
    """Whether a service runs the source as it is now: `current` is None where that is not known."""

    service: AffectedService
    current: bool | None
    why: str


@dataclass(frozen=True)
class Outlook:
    """A change, what happened to it, who runs it, and the command that comes next."""

    change: PatchChange
    happened: str = ""
    cause: Cause = ""  # of what happened
    runs: tuple[RunningService, ...] = ()
    next: NextCommand | None = None


def look(
    agent: PatchAgent, changes: Sequence[PatchChange], deployments: Iterable[Deployment]
) -> tuple[Outlook, ...]:
    """Ask the host, each service's own interpreter first. One outlook for each change, in the same order."""
    files = [(file.path, file.module, change.distribution) for change in changes for file in change.files]
    if not files:
        return outlooks(changes, agent.connection.name, Observation())
    serving = [each for each in deployments if each.package_root]
    roots = [each.package_root for each in serving]
    pids = [each.serving_pid for each in serving if each.serving_pid]
    seen = {
        python: observe(PatchAgent(agent.connection, python), files, roots, pids)
        for python in dict.fromkeys([agent.python, *(each.python for each in serving)])
    }
    services = [
        AffectedService(
            each.name,
            posixpath.dirname(seen[each.python].roots[each.package_root]),
            seen[each.python],
            each.serving_pid,
            seen[each.python].started.get(each.serving_pid or 0),
            each.unit,
        )
        for each in serving
    ]
    return outlooks(changes, agent.connection.name, seen[agent.python], services)


def not_running(agent: PatchAgent, changes: Sequence[PatchChange], deployment: Deployment) -> tuple[str, ...]:
    """The patches that are applied to the tree of a service, and that it was started before."""
    return tuple(
        outlook.change.patch
        for outlook in look(agent, changes, (deployment,))
        if outlook.change.state == "applied" and any(run.current is False for run in outlook.runs)
    )


def outlooks(
    changes: Sequence[PatchChange], host: str, seen: Observation, services: Sequence[AffectedService] = ()
) -> tuple[Outlook, ...]:
    """Return the outlook of each change. `seen` counts where no service imports from the tree of a change."""
    ledger = LedgerView(tuple(changes))
    return tuple(_outlook(change, ledger, host, seen, services) for change in changes)


def _outlook(
    change: PatchChange, ledger: LedgerView, host: str, seen: Observation, services: Sequence[AffectedService]
) -> Outlook:
    if change.interrupted:
        return Outlook(
            change, "cut short", "cut", (), command("patch", host, "--id", change.patch, "--apply")
        )
    if change.state not in ("applied", "reverted"):
        return Outlook(change)
    here = [service for service in services if service.root == change.root]
    if change.state == "applied":
        seen = here[0].seen if here else seen
        cause, happened = _happened(change, ledger, {file.path: seen.of(file.path) for file in change.files})
        if cause:
            return Outlook(change, happened, cause, (), command("patch rebase", host))
    elif any(file.now != file.before for file in change.files):
        return Outlook(change)  # something else was made of it since
    runs = tuple(_run(service, change) for service in here) or _elsewhere(services)
    behind = [run.service for run in runs if run.current is False]
    unit = ("--unit", behind[0].unit) if behind and behind[0].unit else ()
    return Outlook(change, "", "", runs, command("verify", host, *unit) if behind else None)


def _happened(change: PatchChange, ledger: LedgerView, facts: Mapping[str, FileFacts]) -> tuple[Cause, str]:
    """Why an applied change is not in the source any more; nothing where it is."""
    for file in change.files:
        standing = ledger.standing(change.patch, file.path, file.now or "")
        if standing.kind != "applied":  # nor is it ever so of another version than was changed
            return _lost(change, file, facts[file.path])
    return "", ""


def _lost(change: PatchChange, file: ChangedFile, facts: FileFacts) -> tuple[Cause, str]:
    package, when = f"{change.distribution} {change.version}", ""
    if facts.placed:
        when = f" at {_time(facts.placed)}"
    if change.superseded:
        new = f"replaced by {change.installed}" if change.installed else "removed"
        return "installed" if change.installed else "gone", f"{package} was {new}, and the change with it"
    if file.now is None:
        return "gone", f"{file.path} is gone"
    if file.now == "":
        return "edited", f"{file.path} cannot be read"
    if file.now == facts.recorded:
        what = "as it was" if file.now == file.before else "another build of it"
        return "installed", f"{package} was installed again{when}, {what}: {file.path}"
    if file.now == file.before:
        return "restored", f"another hand put the old bytes of {file.path} back{when}"
    return "edited", f"another hand edited {file.path}{when}"


def _elsewhere(services: Iterable[AffectedService]) -> tuple[RunningService, ...]:
    return tuple(RunningService(service, None, f"imports from {service.root}") for service in services)


def _run(service: AffectedService, change: PatchChange) -> RunningService:
    if service.pid is None or service.started is None:
        return RunningService(service, None, "it does not run; its next start takes the source as it is")
    stale = [path for file in change.files for path in service.seen.of(file.path).bytecode]
    if stale:
        return RunningService(service, False, f"remove the bytecode that it runs instead: {', '.join(stale)}")
    times = [service.seen.of(file.path).written for file in change.files]
    if None in times:
        return RunningService(service, None, "when the file was written is not known")
    written = max(time for time in times if time is not None)
    if service.started > written:
        return RunningService(service, True, f"started {_time(service.started)}, after it")
    return RunningService(service, False, f"started {_time(service.started)}, before it")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
