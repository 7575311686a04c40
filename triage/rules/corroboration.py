"""Whether what a log says of the kernel and the service manager comes from them, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterator

from triage.logs.model import Fault
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult
from triage.rules.remedies.commands import runnable

RESULTS = ("exit-code", "signal", "core-dump", "oom-kill", "timeout", "watchdog", "protocol", "resources")


def findings(context: Context) -> Iterator[CheckResult]:
    """What another source says of a fault that only the kernel or the service manager can tell.

    Of another fault, what makes it doubtful. `missing` where the log does not tell who wrote the line and
    nobody else says the same, or where the service manager's own record is another.
    """
    fault, deployment = context.fault, context.deployment
    if fault.kind not in ("kernel", "service"):
        if fault.doubt:
            yield CheckResult("log", "missing", fault.doubt)
        return
    recorded = deployment.result if deployment.state == "failed" else ""
    if recorded and recorded == fault.type:
        yield CheckResult("log", "pass", f"systemd's own record of the unit says the same: {recorded}")
    elif fault.kind == "service" and fault.type in RESULTS and recorded in RESULTS:
        yield CheckResult("log", "missing", f"systemd's own record of the unit is another: {recorded}")
    elif fault.doubt and not any(_agrees(other, fault) for other in context.incident.faults):
        yield CheckResult("log", "missing", fault.doubt, command=_command(context))


def _agrees(other: Fault, fault: Fault) -> bool:
    return other.kind in ("kernel", "service") and other.type == fault.type and not other.doubt


def _command(context: Context) -> str:
    if context.fault.kind == "kernel":
        return "journalctl -k -b | grep -iE 'oom|out of memory|xid|segfault'"
    return runnable("systemctl show UNIT -p Result -p ExecMainCode -p ExecMainStatus", context)
