"""Who failed first: a role for every fault of a run, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from triage.logs.faults.frames import engine_package
from triage.logs.faults.weight import Weight
from triage.logs.model import Fault, Role
from triage.logs.requests import SENT
from triage.logs.run import FoundFault, LogRun

CAUSES = (Weight.ROOT, Weight.DEATH, Weight.TIMEOUT)
HOST_FAULTS = ("io-error", "hung-task")
"""What the kernel says that a service may outlive: a cause only where nothing else is."""

OUTLIVED = "requests were answered long after it"
EXPLAINS_A_DEATH = timedelta(seconds=10)
"""How long after "it died" the traceback of the same process may still arrive."""


@dataclass(frozen=True)
class RoleVerdict:
    """Who it was, or who it could be, and every fault with its role in order of appearance."""

    initiator: FoundFault | None
    candidates: tuple[FoundFault, ...]
    faults: tuple[Fault, ...]


def is_incident(run: LogRun) -> bool:
    """Whether anything failed before the run was asked to stop."""
    if not run.active and run.found and all(map(_of_host, run.found.values())):
        return True  # a kernel's log alone
    return any(
        found.weight in (*CAUSES, Weight.CONSEQUENCE, Weight.SERVICE)
        and run.before_stop(found)
        and not run.outlived(found)
        for found in run.found.values()
    )


def _of_host(found: FoundFault) -> bool:
    return found.fault.kind == "kernel" and found.fault.type in HOST_FAULTS


def assign(run: LogRun) -> RoleVerdict:
    everything = _in_order(run, [*run.found.values(), *run.errors.values()])
    live = [found for found in everything if run.before_stop(found)]
    causes = [found for found in live if found.weight in CAUSES]
    vouched = [found for found in causes if not found.fault.doubt]
    initiator = _first_cause(_fatal(run, vouched if any(map(_is_root, vouched)) else causes))
    candidates: list[FoundFault] = []
    if initiator is None:
        follow = [found for found in live if found.weight is Weight.CONSEQUENCE]
        service = [found for found in live if found.weight is Weight.SERVICE]
        errors = [found for found in live if found.weight is Weight.ERROR]
        if not follow and all(map(_of_host, errors)) and (errors or service):
            initiator = [*errors, *service][0]
        else:
            candidates = [*errors, *follow, *service][:20]
    faults = tuple(_with_role(run, found, initiator, everything) for found in everything)
    place = {id(found): fault for found, fault in zip(everything, faults, strict=True)}
    chosen = replace(initiator, fault=place[id(initiator)]) if initiator else None
    return RoleVerdict(chosen, tuple(replace(found, fault=place[id(found)]) for found in candidates), faults)


def _fatal(run: LogRun, causes: list[FoundFault]) -> list[FoundFault]:
    """Return the causes without those that the service survived, if another cause ended it."""
    survived = [found for found in causes if run.survived(found)]
    rest = [found for found in causes if found not in survived]
    return rest if survived and any(map(_is_root, rest)) else causes


def _is_root(found: FoundFault) -> bool:
    return found.weight is Weight.ROOT


def _in_order(run: LogRun, found: list[FoundFault]) -> list[FoundFault]:
    """Return the faults by time if all share a clock, else in the order of the log."""
    times = [each.fault.time for each in found]
    if (
        not run.stepped
        and all(time is not None for time in times)
        and len({time.tzinfo is None for time in times if time}) == 1
    ):
        return sorted(found, key=lambda each: (each.fault.time or datetime.min, each.order))
    return sorted(found, key=lambda each: each.order)


def _first_cause(causes: Sequence[FoundFault]) -> FoundFault | None:
    if not causes:
        return None
    first = causes[0]
    if first.weight is Weight.DEATH:
        own = [each for each in causes if each.weight is Weight.ROOT and _explains(each.fault, first.fault)]
        if own:
            return own[0]
    return first


def _explains(root: Fault, death: Fault) -> bool:
    """Whether a fault is what a process died of, though the parent told of the death first."""
    close = root.time is None or death.time is None or _apart(root.time, death.time) <= EXPLAINS_A_DEATH
    if not close:
        return False
    if root.kind in ("kernel", "native") or (root.kind == "service" and root.type == "oom-kill"):
        return death.type not in ("exit-code", "died") and (
            not root.ranks or not death.ranks or bool(root.ranks & death.ranks)
        )
    if death.type not in ("exit-code", "died"):
        return False
    return (
        not death.ranks or bool(root.ranks & death.ranks) or (root.pid is not None and root.pid == death.pid)
    )


def _apart(one: datetime, other: datetime) -> timedelta:
    if (one.tzinfo is None) != (other.tzinfo is None):
        return timedelta(0)
    return abs(one - other)


def _with_role(
    run: LogRun, found: FoundFault, initiator: FoundFault | None, everything: Sequence[FoundFault]
) -> Fault:
    fault, weight = found.fault, found.weight
    if found is initiator and not fault.doubt and run.survived(found):
        fault = replace(fault, doubt=OUTLIVED)
    said = tuple(filter(None, (found.weighed.because, fault.doubt)))
    if found is initiator:
        return replace(fault, role="initiator", because=(*said, *_why_first(run, found, everything)))
    role: Role = "victim"
    because = said
    if weight is Weight.BENIGN or fault.doubt == SENT:
        role = "benign"
    elif weight is Weight.TEARDOWN:
        role = "teardown"
    elif not run.before_stop(found):
        role, because = "teardown", ("it came after the service was asked to stop", *said)
    elif weight is Weight.SERVICE:
        role = "teardown"
    elif initiator is not None and weight in CAUSES and found.order < initiator.order and run.survived(found):
        because = (*said, OUTLIVED)
    elif initiator is not None and weight in CAUSES:
        because = (*said, _later(found, initiator))
    elif not because:
        because = ("an error line that came with the failure",)
    return replace(fault, role=role, because=because)


def _later(found: FoundFault, initiator: FoundFault) -> str:
    if found.order < initiator.order:
        return "it reports what the initiator explains"
    one, other = found.fault.time, initiator.fault.time
    if (
        one is not None
        and other is not None
        and (one.tzinfo is None) == (other.tzinfo is None)
        and one > other
    ):
        return f"it came {(one - other).total_seconds():.0f} s after the initiator"
    return "it came after the initiator"


def _why_first(run: LogRun, found: FoundFault, everything: Sequence[FoundFault]) -> tuple[str, ...]:
    fault = found.fault
    reasons = []
    others = [each for each in everything if each is not found and not each.weight >= Weight.TEARDOWN]
    if found.weight is Weight.SERVICE:
        reasons.append("the log holds nothing else that failed")
        if fault.type == "signal":
            reasons.append("who sent the signal is not said")
        return tuple(reasons)
    causes = [each for each in others if each.weight in CAUSES]
    if not others:
        reasons.append("it is the only fault of this run")
    elif not causes:
        reasons.append("every other fault of this run is a known consequence")
    else:
        reasons.append("it came first of the faults that can be a cause")
    if fault.frame is not None and engine_package(fault.frame):
        reasons.append(f"it was raised in the code of {engine_package(fault.frame)}, not in communication")
    if len(fault.ranks) > 1 and fault.count > 1:
        reasons.append(f"{len(fault.ranks)} ranks report the same")
    if any("refers to a cause" in each.weighed.because for each in others):
        reasons.append("later messages refer to a root cause above")
    return tuple(reasons)
