"""Which hosts there are, and what can be done on each, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from triage.common.errors import TriageError
from triage.evidence.access import Access
from triage.hosts.inventory.model import Host
from triage.report.safe import safe_line
from triage.workflows.fleet import HostOutcome
from triage.workflows.hosts import HostList, HostsChecked


def lines(found: HostList) -> Iterator[Text]:
    width = max((len(host.name) for host in found.hosts), default=0)
    for host in found.hosts:
        settings = {key: value for key, value in asdict(host.settings).items() if value not in ("", 0, None)}
        told = " ".join((*(f"{key}={value}" for key, value in settings.items()), *host.groups))
        told += f"  unusable: {host.unusable}" if host.unusable else ""
        yield Text(safe_line(f"{host.name:{width}}  {told}".rstrip(), 1000))


def document(found: HostList) -> dict[str, Any]:
    """`triage.hosts/1`."""
    rows = [
        {"name": host.name, "groups": list(host.groups), **asdict(host.settings), "unusable": host.unusable}
        for host in found.hosts
    ]
    services = {
        name: {"hosts": [host.name for host in found.inventory.select(name)], "unit": service.unit}
        for name, service in found.inventory.services.items()
    }
    return {"schema": "triage.hosts/1", "hosts": rows, "deployments": services}


def check_lines(found: HostsChecked) -> Iterator[Text]:
    """One line a host: as whom it was reached, and what can be read there."""
    width = max(len(each.host.name) for each in found.outcomes)
    for each in found.outcomes:
        yield Text.assemble(f"{safe_line(each.host.name):{width}}  ", _told(each))


def check_document(found: HostsChecked) -> dict[str, Any]:
    """`triage.hosts-check/1`."""
    rows = [
        {
            "name": each.host.name,
            "access": None if each.value is None else asdict(each.value),
            "error": None if each.error is None else str(each.error),
        }
        for each in found.outcomes
    ]
    return {"schema": "triage.hosts-check/1", "hosts": rows}


def status(host: Host, outcome: HostOutcome[Access]) -> str:
    """What is said of a host as soon as it was checked."""
    return _told(outcome).plain


def _told(outcome: HostOutcome[Access]) -> Text:
    found = outcome.value
    if found is None:
        error = outcome.error
        next = f". Next: {error.next}" if isinstance(error, TriageError) else ""
        return Text(safe_line(f"no answer: {error}{next}", 600), "bold red")
    sudo = {"root": "", "yes": "sudo", "password": "sudo wants a password", "no": "no sudo"}[found.sudo]
    parts = (
        (f"{found.user}@{found.address.rpartition('@')[2]}", True),
        (sudo, found.sudo != "no"),
        ("journal" if found.journal else "no journal", found.journal),
        (f"python {found.python}" if found.python else "no python3", bool(found.python)),
        (found.gpu or "no GPU tool", bool(found.gpu)),
        ("" if found.group_tool else "no timeout, no setsid: what a command leaves behind may stay", False),
    )
    line = Text()
    for part, good in parts:
        if part:
            line.append(f"{safe_line(part)}  ", "" if good else "yellow")
    line.rstrip()
    return line
