"""Commands of rules as they can be pasted: for the service that ran, and for what is known of it.

A part that names the service's unit, its model or a pid where none is known is left out. Where there is only
the file of a log, the service's lines are read from there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import timedelta

from triage.evidence.catalogue.namespaces import in_namespace
from triage.evidence.model import Deployment
from triage.rules.context import Context
from triage.rules.remedies.placeholders import fill, placeholders

LEAD = timedelta(minutes=10)  # before the fault, from when on a log is read
_PARTS = re.compile(r";\s+(?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*$)")
_JOURNAL = re.compile(r"\b(?:sudo )?journalctl -u UNIT\b[^|;]*?(?= \||$)")
_CONTROL = re.compile(r"\b(?:sudo )?systemctl (restart|stop|start) UNIT\b")
_NEEDED = re.compile(r"(?<![\w-])(?:UNIT|MODEL_PATH|PID)(?![\w-])")
_SINCE = re.compile(r"--since SINCE\b")


def runnable(command: str, context: Context) -> str:
    """ "" where nothing is left that could be run."""
    known = {"PYTHON": "python3", **placeholders(context)}
    parts = (_of_service(part, context) for part in _PARTS.split(command))
    return fill("; ".join(part for part in parts if part and not _lacks(part, known)), known)


def _of_service(part: str, context: Context) -> str:
    part = _SINCE.sub(_moment(context) or ("-b" if "journalctl" in part else ""), part).rstrip()
    deployment = context.deployment
    if "UNIT" not in part or context.ran.unit:
        return _of_user(part) if deployment.manager == "systemd-user" else _in_namespace(part, deployment)
    if deployment.manager in ("docker", "podman"):
        name = shlex.quote(deployment.name)
        part = _JOURNAL.sub(lambda _: f"{deployment.manager} logs {name} 2>&1", part)
        part = _CONTROL.sub(lambda found: f"{deployment.manager} {found[1]} {name}", part)
    elif context.evidence.origin.kind == "log" and (log := _file(context)):
        part = _JOURNAL.sub(lambda _: f"cat {shlex.quote(log)}", part)
    return part


def _lacks(part: str, known: Mapping[str, str]) -> bool:
    return any(name not in known for name in _NEEDED.findall(part))


def _of_user(part: str) -> str:
    """Put to the systemd of the user: `systemctl --user`, `journalctl --user-unit`."""
    part = re.sub(r"\b(?:sudo )?systemctl (?=[a-z-]+ UNIT\b)", "systemctl --user ", part)
    return part.replace("journalctl -u UNIT", "journalctl --user-unit UNIT")


def _in_namespace(part: str, deployment: Deployment) -> str:
    if not deployment.log_namespace:
        return part
    option = shlex.quote(in_namespace(deployment.log_namespace))
    return part.replace("journalctl -u UNIT", f"journalctl {option} -u UNIT")


def _moment(context: Context) -> str:
    """Some minutes before the fault, by the clock of the log: in seconds where its zone is known."""
    time = context.fault.time or context.incident.started
    if time is None:
        return ""
    before = time - LEAD
    said = f"@{before.timestamp():.0f}" if before.tzinfo else shlex.quote(f"{before:%Y-%m-%d %H:%M:%S}")
    return f"--since {said}"


def _file(context: Context) -> str:
    source = context.fault.position.source
    return "" if source == "standard input" else source
