"""The commands that look at a host, as text and as `triage.policy/1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from triage.evidence.catalogue.policy import Policy


def lines(policy: Policy) -> Iterator[Text]:
    for line in _texts(policy):
        yield Text(line)


def document(policy: Policy) -> dict[str, Any]:
    """`triage.policy/1`."""
    queries = [vars(entry) for entry in policy.entries]
    return {"schema": "triage.policy/1", "queries": queries, "sudoers": list(policy.sudoers)}


def _texts(policy: Policy) -> Iterator[str]:
    yield "Looking at a host runs these commands and no others. None of them changes anything."
    yield "`or` is what an older host is asked, or one that has less."
    yield "podman and crictl are asked as docker and kubectl are here (ps, logs, exec)."
    yield ""
    for entry in policy.entries:
        yield f"{entry.query}: {entry.purpose}"
        yield f"    {entry.command}"
        if entry.lesser:
            yield f"    or  {entry.lesser}"
        if entry.privilege:
            yield f"    needs {entry.privilege}"
        if entry.absence:
            yield f"    without: {entry.absence}"
    yield ""
    yield "An account in group systemd-journal can diagnose units whose source it may read:"
    yield ""
    yield "    usermod -aG systemd-journal USER"
    yield ""
    yield "To let it read more with --become, without letting it do more (sudo 1.9.10 or newer):"
    yield ""
    for line in policy.sudoers:
        yield f"    {line}"
