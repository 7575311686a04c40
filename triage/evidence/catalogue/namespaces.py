"""What journald kept of a unit with `LogNamespace=`, of systemd 245 and newer.

    $ journalctl --namespace=+kimi --no-pager --all --output=export ... _SYSTEMD_INVOCATION_ID=f9d3... + ...

A journald of its own keeps what the unit's processes say; what systemd, journald and the kernel say of them
stands in the host's journal. The `+` asks for both, in the order of time. Seen with systemd 252.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.catalogue.journal import Journal
from triage.evidence.catalogue.windows import JournalWindows
from triage.evidence.model import Unanswered
from triage.hosts.connection import Output


@dataclass(frozen=True)
class NamespaceJournal(Journal):
    name: ClassVar[str] = "namespace-journal"
    purpose: ClassVar[str] = "read what a service with LogNamespace= logged in its run that failed"
    absence: ClassVar[str] = "what systemd says of the service is all that is read"

    namespace: str = ""

    def matches(self) -> tuple[str, ...]:
        return (in_namespace(self.namespace), *super().matches())

    def decode(self, output: Output) -> str:
        if output.code and b"option '--namespace" in output.stderr:
            raise Unanswered("journalctl there knows no namespaces: it is older than systemd 245")
        return super().decode(output)


@dataclass(frozen=True)
class NamespaceJournalWindows(JournalWindows):
    name: ClassVar[str] = "namespace-journal-windows"
    purpose: ClassVar[str] = (
        "find the places in a long run of a service with LogNamespace= that tell of a fault"
    )
    absence: ClassVar[str] = "the whole run is read"

    namespace: str

    def matches(self) -> tuple[str, ...]:
        return (in_namespace(self.namespace), *super().matches())


def in_namespace(namespace: str) -> str:
    """The option with which journalctl reads a namespace beside the host's journal."""
    return f"--namespace=+{namespace}"
