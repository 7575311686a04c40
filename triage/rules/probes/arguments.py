"""Launch arguments: what the run that failed logged of them, else what the deployment has now."""

from __future__ import annotations

import re

from triage.evidence.model import Unanswered
from triage.rules.checks import LaunchArgumentCheck
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult


def argument(probe: LaunchArgumentCheck, context: Context) -> CheckResult:
    found = context.argument(probe.names)
    if found is None:
        raise Unanswered(f"neither the launch arguments nor the log name --{probe.names[0]}")
    value = found.value
    if probe.at_least is not None:
        holds = value.isascii() and value.isdigit() and len(value) < 10 and int(value) >= probe.at_least
    else:
        holds = re.search(probe.equals, value) is not None
    detail = f"{probe.says}: {probe.names[0]} is {value}"
    if found.now is not None:
        detail += f" in the log of the run, and {found.now or 'without a value'} now"
    return CheckResult("probe", "pass" if holds else "fail", detail)
