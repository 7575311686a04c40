"""What the kernel and the service manager recorded of the run."""

from __future__ import annotations

import re

from triage.evidence.log_sources import KERNEL
from triage.evidence.model import Unanswered
from triage.logs.model import Fault
from triage.rules.checks import KernelMentions, KernelSilent, LogMentions, NoOomKill, UnitResult
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult, Result


def no_oom_kill(probe: NoOomKill, context: Context) -> CheckResult:
    """Looks at the unit's result and at the incident's faults, which hold the kernel's lines of the run."""
    kills = [fault for fault in _vouched(context) if _is_oom_kill(fault)]
    if kills or context.deployment.result == "oom-kill":
        told = kills[0].message if kills else "the unit's result is oom-kill"
        return CheckResult("falsifier", "fail", f"{probe.says}: {told}")
    _require_kernel_log(context)
    status = context.deployment.exit_status
    ended = f"; the unit ended by {status}, result {context.deployment.result}" if status else ""
    return CheckResult("falsifier", "pass", f"{probe.says}{ended}")


def kernel_mentions(probe: KernelMentions, context: Context) -> CheckResult:
    for fault in _vouched(context):
        if fault.kind == "kernel" and re.search(probe.pattern, f"{fault.type} {fault.message}"):
            return CheckResult("probe", "pass", f"{probe.says}: {fault.message}")
    _require_kernel_log(context)
    return CheckResult("probe", "fail", f"{probe.says}: the kernel log of the run has no such line")


def kernel_silent(probe: KernelSilent, context: Context) -> CheckResult:
    for fault in _vouched(context):
        if fault.kind == "kernel" and re.search(probe.pattern, f"{fault.type} {fault.message}"):
            return CheckResult("probe", "fail", f"{probe.says}: {fault.message}")
    _require_kernel_log(context)
    return CheckResult("probe", "pass", f"{probe.says}: the kernel log of the run has no such line")


def log_mentions(probe: LogMentions, context: Context) -> CheckResult:
    """Look for a text among the other faults of the incident."""
    for fault in _vouched(context):
        if fault is context.incident.initiator or fault.position == context.fault.position:
            continue
        said = f"{fault.type}: {fault.message}"
        if re.search(probe.pattern, f"{said}\n{fault.header}"[:8192]):
            result: Result = "fail" if probe.absent else "pass"
            return CheckResult("probe", result, f"{probe.says}: {said[:300]}")
    result = "pass" if probe.absent else "fail"
    return CheckResult("probe", result, f"{probe.says}: no other fault of the run says so")


def unit_result(probe: UnitResult, context: Context) -> CheckResult:
    result = context.deployment.result
    if not result:
        raise Unanswered("the service manager's record of the run is not known")
    holds = re.fullmatch(probe.result, result) is not None
    return CheckResult("probe", "pass" if holds else "fail", f"{probe.says}: result {result}")


def _vouched(context: Context) -> tuple[Fault, ...]:
    """Return the faults without those that a user can have sent: they prove and refute nothing."""
    return tuple(fault for fault in context.incident.faults if not fault.doubt)


def _require_kernel_log(context: Context) -> None:
    """Silence means something only where the kernel's lines were read."""
    if not context.examined:
        raise Unanswered("the log alone does not hold the kernel's lines")
    if KERNEL in context.unread:
        raise Unanswered(f"the kernel log could not be read: {context.unread[KERNEL]}")


def _is_oom_kill(fault: Fault) -> bool:
    return fault.type == "oom-kill" or (fault.kind == "kernel" and "out of memory" in fault.message.lower())
