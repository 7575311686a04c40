"""`triage hosts`: which hosts there are, and what can be done on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command, targets
from triage.cli.option_groups import with_groups
from triage.cli.options import Format, FormatOption
from triage.cli.reach import InventoryOption, Reach, SshConfigOption, load_hosts
from triage.cli.targets import FORKS, ForksOption

if TYPE_CHECKING:
    from triage.hosts.inventory.model import Host
    from triage.hosts.options import ConnectionOptions

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
    from triage.workflows.hosts import choose_hosts

    console.show(choose_hosts(hosts, load_hosts(inventory), ssh_config), format)


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

    from triage.report.hosts import status
    from triage.workflows.hosts import HostsChecked, check_hosts, choose_hosts
    from triage.workflows.prompts import Prompts

    chosen = choose_hosts(hosts, reach.hosts(), reach.ssh_config).hosts
    questions = Prompts(Event(), console.ask_secret)

    def options(host: Host) -> ConnectionOptions:
        return reach.options(host, questions)

    with targets.progress(chosen, status, questions) as told:
        outcomes = check_hosts(chosen, options, forks, questions, told)
    found = HostsChecked(tuple(next_command.told(outcomes)))
    console.show(found, format)
    raise typer.Exit(found.exit_code)
