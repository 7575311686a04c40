"""The options that say how hosts are reached, and the connections that they make."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import next_command
from triage.common.commands import command
from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.evidence.live import LiveEvidence
    from triage.hosts.connection import Connection
    from triage.hosts.inventory.model import Host, Inventory
    from triage.hosts.options import ConnectionOptions
    from triage.workflows.prompts import Prompts

VARIABLE = "TRIAGE_INVENTORY"


class HostKey(str, Enum):
    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


SshConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--ssh-config", "-F", envvar="TRIAGE_SSH_CONFIG", help="Instead of ~/.ssh/config.", show_default=False
    ),
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="FILE",
        help="hosts.yaml or an Ansible inventory; else $TRIAGE_INVENTORY, or that of the configuration.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Reach:
    """How hosts are reached: what the command line says, and the inventory that it names."""

    ssh_config: SshConfigOption = None
    host_key: Annotated[
        HostKey, typer.Option("--host-key", help="What to do with a host key that is not known yet.")
    ] = HostKey.STRICT
    become: Annotated[bool, typer.Option("--become", "-b", help="Run commands on the host through sudo.")] = (
        False
    )
    inventory: InventoryOption = None

    def hosts(self) -> Inventory:
        """The inventory that was named, that of the environment, that of the configuration, or an empty one.

        Raises UsageError for a broken file.
        """
        return load_hosts(self.inventory)

    def host(self, name: str) -> Host:
        """The one host of that name. Raises UsageError where it names several."""
        hosts = self.hosts().select(name)
        if len(hosts) != 1:
            names = ", ".join(host.name for host in hosts[:8])
            raise UsageError(
                "connecting to",
                name,
                f"this names several hosts ({names}); here it takes one",
                command("hosts list"),
            )
        return hosts[0]

    def options(self, host: Host, questions: Prompts | None = None) -> ConnectionOptions:
        """How to reach a host: what the command line says, then the inventory.

        `questions` where it is one of several: what sudo wants is asked for once then, for all of them.
        """
        from triage.cli.console import ask_secret
        from triage.hosts import ConnectionOptions

        settings = host.settings
        if host.unusable:
            raise UsageError(
                "connecting to",
                host.name,
                f"what the inventory says of it cannot be followed: {host.unusable}",
                "fix that, or say it in ~/.ssh/config or a hosts.yaml",
            )
        return ConnectionOptions(
            ssh_config=self.ssh_config,
            host_key=self.host_key.value,
            become=self.become or bool(settings.become),
            address=settings.address,
            user=settings.user,
            port=settings.port,
            identity_file=Path(settings.identity_file).expanduser() if settings.identity_file else None,
            ssh_arguments=tuple(shlex.split(settings.ssh_arguments)),
            stop=questions.stop if questions else None,
            ask=questions.ask if questions else cache(ask_secret),  # once, also where it is dialled again
            sudo_of="each of these hosts" if questions else "",
        )

    @contextmanager
    def connection(self, host: Host) -> Iterator[Connection]:
        """An open connection, closed afterwards. The next command of an error reaches the host as well."""
        from triage.hosts import open_connection

        options = self.options(host)
        with next_command.reached():
            connection = open_connection(host.name, options)
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def evidence(self, host: Host, keep_prompts: bool = False) -> Iterator[LiveEvidence]:
        """Evidence from the host, redacted where it enters."""
        from triage.evidence.live import LiveEvidence
        from triage.evidence.redaction.redactor import Redactor

        with self.connection(host) as connection:
            yield LiveEvidence(connection, Redactor(keep_prompts))


def load_hosts(given: Path | None) -> Inventory:
    """The inventory that was given, else that of the environment, of the configuration, or an empty one.

    Raises UsageError for a broken file.
    """
    from triage.common.config import load_config
    from triage.hosts.inventory.load import load_inventory
    from triage.hosts.inventory.model import Inventory

    named = os.environ.get(VARIABLE, "")
    path = given or (Path(named).expanduser() if named else load_config().inventory)
    return load_inventory(path) if path else Inventory()
