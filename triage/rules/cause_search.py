"""A consequence says where its cause must be; this looks there.

What is found speaks for the consequence (`pass`); what could not be read is `missing`, with the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping

from triage.common.commands import Next, command
from triage.engines import engine_named
from triage.evidence.log_sources import KERNEL
from triage.logs.model import Fault
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult
from triage.rules.remedies.commands import runnable
from triage.rules.schema import Place

SHOWN = 3  # faults
MAX_RANKS = 16  # that are named


def findings(places: Iterable[Place], context: Context) -> Iterator[CheckResult]:
    """What each place tells, in the order of the rule."""
    for place in places:
        yield from _PLACES[place](context)


def _kernel_log(context: Context) -> Iterator[CheckResult]:
    told = [fault for fault in _others(context) if fault.kind == "kernel"]
    since = context.incident.started
    moment = f"--since {shlex.quote(f'{since:%Y-%m-%d %H:%M:%S}')}" if since else "-b"
    command = f"journalctl -k {moment} --no-pager"
    if told:
        yield _found(f"the kernel log of the run: {_said(told)}")
    elif not context.examined:
        yield _missing("the kernel log: only a log was given", command)
    elif KERNEL in context.unread:
        yield _missing(f"the kernel log: {context.unread[KERNEL]}", f"sudo {command}")
    else:
        yield _found("the kernel log of the run tells of no fault")


def _other_ranks(context: Context) -> Iterator[CheckResult]:
    own = context.fault.ranks
    told = [fault for fault in _others(context) if fault.kind != "kernel" and fault.ranks - own]
    if told:
        yield _found(f"other ranks: {_said(told)}")
    silent = [rank for rank in context.incident.silent_ranks if rank not in own]
    if silent:
        named = ", ".join(silent[:MAX_RANKS]) + (", ..." if len(silent) > MAX_RANKS else "")
        pattern = shlex.quote("|".join(silent[:MAX_RANKS]))
        command = _journal(context, f"grep -nwE {pattern}")
        yield _missing(f"other ranks: {named} ended without a word of it", command)
    elif not told:
        yield _found("other ranks: none of them reports a fault in this log")


def _other_hosts(context: Context) -> Iterator[CheckResult]:
    nodes, own = context.argument(("nnodes",)), context.argument(("node-rank",))
    if nodes is None or not nodes.value.isdecimal() or int(nodes.value) < 2:
        return
    which = f", this is number {own.value}" if own is not None else ""
    yield _missing(f"the other hosts: the run has {nodes.value}{which}", command("diagnose OTHER_HOST"))


def _worker_log(context: Context) -> Iterator[CheckResult]:
    """The engine's own processes, of which a log of its front end alone holds nothing."""
    told = [fault for fault in _others(context) if fault.kind == "exception" and fault.role != "teardown"]
    if told:
        yield _found(f"the engine's processes: {_said(told)}")
        return
    pattern = engine_named(context.engine).processes.failures
    yield _missing(
        "the engine's processes: this log holds no exception of theirs",
        _journal(context, f"grep -nE {shlex.quote(pattern)} | head -40"),
    )


def _earlier_lines(context: Context) -> Iterator[CheckResult]:
    told = [fault for fault in _others(context) if fault.position.line < context.fault.position.line]
    if told:
        yield _found(f"earlier in the log: {_said(told)}")
        return
    yield _missing("the lines before it, of the same process", _journal(context, "less"))


_PLACES: Mapping[Place, Callable[[Context], Iterator[CheckResult]]] = {
    "kernel-log": _kernel_log,
    "other-ranks": _other_ranks,
    "other-hosts": _other_hosts,
    "worker-log": _worker_log,
    "earlier-lines": _earlier_lines,
}


def _others(context: Context) -> list[Fault]:
    own = context.fault.position
    return [fault for fault in context.incident.faults if fault.position != own and fault.role != "benign"]


def _said(faults: list[Fault]) -> str:
    said = [_one(fault) for fault in faults[:SHOWN]]
    more = f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return "; ".join(said) + more


def _one(fault: Fault) -> str:
    ranks = f"{', '.join(sorted(fault.ranks))} " if fault.ranks else ""
    message = fault.message.strip().split("\n", 1)[0]
    return f"{ranks}{fault.type}: {message[:120]}" if message else f"{ranks}{fault.type}"


def _journal(context: Context, then: str) -> str:
    """The service's own lines, put through a pipe; "" where nothing tells where they are."""
    lines = runnable("journalctl -u UNIT -b -o cat --no-pager", context)
    return f"{lines} | {then}" if lines else ""


def _found(detail: str) -> CheckResult:
    return CheckResult("log", "pass", detail)


def _missing(detail: str, command: Next) -> CheckResult:
    return CheckResult("log", "missing", detail, command=command)
