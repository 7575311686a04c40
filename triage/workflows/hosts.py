"""Which hosts there are, and what can be done on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.common.commands import command
from triage.common.errors import UsageError
from triage.evidence.access import access
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection
from triage.hosts.inventory.model import Host, Inventory
from triage.hosts.ssh.aliases import aliases
from triage.workflows.fleet import HostOutcome, on_each

if TYPE_CHECKING:
    from triage.evidence.access import Access
    from triage.hosts.options import ConnectionOptions
    from triage.workflows.prompts import Prompts


@dataclass(frozen=True)
class HostList:
    """The hosts that were chosen, and the inventory that they are of."""

    hosts: tuple[Host, ...]
    inventory: Inventory


@dataclass(frozen=True)
class HostsChecked:
    outcomes: tuple[HostOutcome[Access], ...]

    @property
    def exit_code(self) -> int:
        """The greatest of those of hosts that were not reached."""
        return max((each.failure for each in self.outcomes), default=0)


def choose_hosts(words: str, inventory: Inventory, ssh_config: Path | None) -> HostList:
    """What is meant by the words; without words all hosts, or the aliases of the ssh configuration.

    Raises UsageError where there are none.
    """
    if words:
        return HostList(tuple(inventory.select(words)), inventory)
    chosen = tuple(inventory.hosts.values()) or tuple(Host(name) for name in aliases(ssh_config))
    if not chosen:
        raise UsageError(
            "listing hosts",
            "of no inventory",
            "none is given, and the ssh configuration names no host",
            command("hosts list --inventory hosts.yaml"),
        )
    return HostList(chosen, inventory)


def check_hosts(
    hosts: Sequence[Host],
    reach: Callable[[Host], ConnectionOptions],
    forks: int,
    questions: Prompts,
    told: Callable[[Host, HostOutcome[Access] | None], None],
) -> tuple[HostOutcome[Access], ...]:
    """Connect to each as `reach` says, and find out what can be read there."""

    def one(host: Host) -> Access:
        with closing(open_connection(host.name, reach(host))) as connection:
            return access(LiveEvidence(connection), connection.address)

    return on_each(hosts, one, forks, questions, told)
