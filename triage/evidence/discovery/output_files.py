"""The file to which a unit sends what its service says, where that is not the journal.

    StandardOutput=append:/var/log/kimi.log         file: and truncate: likewise, in the unit or a drop-in
    exec python -m sglang.launch_server >>/var/log/kimi.log 2>&1        in its command or start script

`systemctl show` prints the kind alone (`append`), so the path is read from the unit's files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from triage.evidence.catalogue import PipedOutput, ProcessOutput, ReadFile, TailFile, TailLog, Unit
from triage.evidence.catalogue.journal import entries
from triage.evidence.discovery.managers import about_units_of
from triage.evidence.log_rotation import read_log_file
from triage.evidence.model import Answer, Deployment, Evidence
from triage.logs.model import LogSource

BEGINNING = 1 << 20
"""Bytes: much more than systemd says of a start."""

KINDS = ("file", "append", "truncate")

_DIRECTIVE = re.compile(
    r"\s{0,80}Standard(?P<name>Output|Error)\s{0,80}=\s{0,80}(?P<kind>\w+)(?::(?P<path>.{1,4096}))?\s*$"
)
_SPECIFIER = re.compile(r"%(.)")


def journal_holds_its_words(data: bytes) -> bool:
    """Whether somebody else than systemd speaks at the beginning of a journal in canonical form."""
    found = entries(data[:BEGINNING].decode("utf-8", "replace"))
    return any(not entry.get("SYSLOG_IDENTIFIER", "").startswith(("systemd", "(")) for entry in found)


def file_of_process(evidence: Evidence, pid: int) -> Answer[str]:
    """The file that holds what a process says, also where another program writes it there."""
    answer = evidence.ask(ProcessOutput(pid))
    return evidence.ask(PipedOutput(pid)) if "pipe:" in answer.missing else answer


def output_of(evidence: Evidence, deployment: Deployment, runs: int) -> LogSource | None:
    """The last runs in the file that the unit logs to; None where it logs to none.

    A file that cannot be read is a source without data that says why.
    """
    named = deployment.log_file  # the shell sends it there, whatever the unit says
    path = _of_process(evidence, deployment) or ("" if named else _of_unit(evidence, deployment))
    query = TailFile(path) if path else TailLog(named, deployment.user)
    if not query.path.startswith("/"):
        return None
    return read_log_file(evidence, query, runs, deployment.started if runs == 1 else "")


def _of_process(evidence: Evidence, deployment: Deployment) -> str:
    """Return where the running process writes: a script can redirect it, too."""
    if not deployment.main_pid or deployment.state not in ("active", "activating"):
        return ""
    return file_of_process(evidence, deployment.main_pid).value or ""


def _of_unit(evidence: Evidence, deployment: Deployment) -> str:
    unit = evidence.ask(about_units_of(deployment.manager).properties(deployment.unit)).value
    if unit is None:
        return ""
    kinds = [unit.properties.get(f"Standard{output}", "").partition(":")[0] for output in ("Output", "Error")]
    if any(kinds) and not any(kind in KINDS for kind in kinds):
        return ""
    texts = (evidence.ask(ReadFile(path)).value or "" for path in _files(unit))
    paths = dict(_directives(texts))
    path = paths.get("Error") or paths.get("Output") or ""
    return _SPECIFIER.sub(lambda match: _value(match[1], deployment.unit), path)


def _files(unit: Unit) -> Iterator[str]:
    """Return the files in the order in which systemd reads them: what comes later counts."""
    if unit.fragment:
        yield unit.fragment
    yield from (path for path in unit.properties.get("DropInPaths", "").split() if path.startswith("/"))


def _directives(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        for line in text.splitlines():
            match = _DIRECTIVE.match(line[:8192])
            if match is not None:
                yield match["name"], match["path"].strip() if match["path"] and match["kind"] in KINDS else ""


def _value(letter: str, unit: str) -> str:
    """The specifiers that stand for the unit's name; others stay as they are."""
    whole = unit.rpartition(".")[0] or unit
    prefix, _, instance = whole.partition("@")
    return {"n": unit, "N": whole, "p": prefix, "i": instance, "%": "%"}.get(letter, f"%{letter}")
