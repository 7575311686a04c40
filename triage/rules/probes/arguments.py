"""Launch arguments, from the command line or from what the log says of it."""

from __future__ import annotations

import re

from triage.evidence.model import Unanswered
from triage.rules.context import Context
from triage.rules.diagnosis import Finding
from triage.rules.schema import Argument


def argument(probe: Argument, context: Context) -> Finding:
    value = context.argument(probe.names)
    if value is None:
        raise Unanswered(f"neither the launch arguments nor the log name --{probe.names[0]}")
    if probe.at_least is not None:
        holds = value.isascii() and value.isdigit() and len(value) < 10 and int(value) >= probe.at_least
    else:
        holds = re.search(probe.equals, value) is not None
    return Finding("probe", "pass" if holds else "fail", f"{probe.says}: {probe.names[0]} is {value}")
