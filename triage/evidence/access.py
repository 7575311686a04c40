"""What an account may do on a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triage.evidence.catalogue import (
    GpuInventory,
    GroupTool,
    JournalAccess,
    PythonVersion,
    RocmInventory,
    SudoRights,
    WhoAmI,
)
from triage.evidence.model import NOT_THERE, Evidence


@dataclass(frozen=True)
class Access:
    """`python` is the version of the host's python3, `gpu` the tool that answers and how many it sees, or why
    it sees none; "" where there is no such tool. `group_tool` ends a command as a whole; where it is "", what
    that leaves behind may stay."""

    address: str
    user: str
    sudo: Literal["root", "yes", "password", "no"]
    journal: bool
    python: str
    gpu: str
    group_tool: str


def access(evidence: Evidence, address: str) -> Access:
    """Raises UnreachableError when the host is lost."""
    user = evidence.ask(WhoAmI()).value or "?"
    return Access(
        address,
        user,
        "root" if user == "root" else evidence.ask(SudoRights()).value or "no",
        bool(evidence.ask(JournalAccess()).value),
        evidence.ask(PythonVersion()).value or "",
        _gpu_tool(evidence),
        evidence.ask(GroupTool()).value or "",
    )


def _gpu_tool(evidence: Evidence) -> str:
    answers = [evidence.ask(query) for query in (GpuInventory(), RocmInventory())]
    for answer in answers:
        if answer.value:
            return f"{answer.command.partition(' ')[0]} ({len(answer.value.gpus)})"
    failed = [answer for answer in answers if answer.missing != NOT_THERE]
    return f"{failed[0].command.partition(' ')[0]}: {failed[0].missing}" if failed else ""
