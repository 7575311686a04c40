"""`triage hosts`: which hosts there are, and what can be done on each."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command, targets
from triage.cli.option_groups import with_groups
from triage.cli.options import Format, FormatOption
from triage.cli.reach import InventoryOption, Reach, SshConfigOption, load_hosts
from triage.cli.targets import FORKS, ForksOption
from triage.common.commands import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from triage.evidence.access import Access
    from triage.hosts.inventory.inventory import Host
    from triage.workflows.fleet import HostOutcome

app = typer.Typer(help="Which hosts there are, and what can be done on each.", no_args_is_help=True)
HostsArgument = Annotated[
    str,
    typer.Argument(metavar="[HOSTS]", help="A group, a deployment, HOST,HOST or `all`.", show_default=False),
]


@app.command("list")
def list_(
    hosts: HostsArgument = "",
    inventory: InventoryOption = None,
    ssh_config: SshConfigOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """List the hosts of the inventory; without one, the aliases of the ssh configuration."""
    from triage.report.safe import safe_line

    known = load_hosts(inventory)
    chosen = _chosen(hosts, inventory, ssh_config)
    if format is Format.JSON:
        from triage.report import json

        rows = [
            {
                "name": host.name,
                "groups": list(host.groups),
                **asdict(host.settings),
                "unusable": host.unusable,
            }
            for host in chosen
        ]
        services = {
            name: {"hosts": [host.name for host in known.select(name)], "unit": service.unit}
            for name, service in known.services.items()
        }
        print(json.dumps({"schema": "triage.hosts/1", "hosts": rows, "deployments": services}))
        return
    width = max((len(host.name) for host in chosen), default=0)
    for host in chosen:
        settings = {key: value for key, value in asdict(host.settings).items() if value not in ("", 0, None)}
        told = " ".join((*(f"{key}={value}" for key, value in settings.items()), *host.groups))
        told += f"  unusable: {host.unusable}" if host.unusable else ""
        print(safe_line(f"{host.name:{width}}  {told}".rstrip(), 1000))


@app.command()
@with_groups
def check(
    hosts: HostsArgument = "",
    forks: ForksOption = FORKS,
    format: FormatOption = Format.TEXT,
    *,
    reach: Reach,
) -> None:
    """Reach each host, and say in one line what can be read there: journal, sudo, Python, GPU tool.

    Exit code 0 when all were reached, else the greatest of the codes of those that were not.
    """
    from threading import Event

    from triage.evidence.access import access
    from triage.evidence.live import LiveEvidence
    from triage.hosts import open_connection
    from triage.workflows.fleet import on_each
    from triage.workflows.prompts import Prompts

    chosen, questions = (
        _chosen(hosts, reach.inventory, reach.ssh_config),
        Prompts(Event(), console.ask_secret),
    )

    def one(host: Host) -> Access:
        with closing(open_connection(host.name, reach.options(host, questions))) as connection:
            return access(LiveEvidence(connection), connection.address)

    with targets.progress(chosen, _status, questions) as told:
        outcomes = tuple(next_command.told(on_each(chosen, one, forks, questions, told)))
    if format is Format.JSON:
        from triage.report import json

        rows = [
            {
                "name": each.host.name,
                "access": None if each.value is None else asdict(each.value),
                "error": None if each.error is None else str(each.error),
            }
            for each in outcomes
        ]
        print(json.dumps({"schema": "triage.hosts-check/1", "hosts": rows}))
    else:
        _print(outcomes)
    raise typer.Exit(max((each.failure for each in outcomes), default=0))


def _chosen(hosts: str, inventory: Path | None, ssh_config: Path | None) -> Sequence[Host]:
    from triage.common.errors import UsageError
    from triage.hosts.inventory.inventory import Host
    from triage.hosts.ssh.aliases import aliases

    known = load_hosts(inventory)
    if hosts:
        return known.select(hosts)
    chosen = tuple(known.hosts.values()) or tuple(Host(name) for name in aliases(ssh_config))
    if not chosen:
        raise UsageError(
            "listing hosts",
            "of no inventory",
            "none is given, and the ssh configuration names no host",
            command("hosts list --inventory hosts.yaml"),
        )
    return chosen


def _print(outcomes: Sequence[HostOutcome[Access]]) -> None:
    from rich.text import Text

    from triage.report.safe import safe_line

    width = max(len(each.host.name) for each in outcomes)
    for each in outcomes:
        line = Text.assemble(f"{safe_line(each.host.name):{width}}  ", _told(each))
        console.stdout().print(line, soft_wrap=True)


def _status(host: Host, outcome: HostOutcome[Access]) -> str:
    return _told(outcome).plain


def _told(outcome: HostOutcome[Access]) -> Text:
    from rich.text import Text

    from triage.common.errors import TriageError
    from triage.report.safe import safe_line

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
