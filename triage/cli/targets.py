"""From what the user calls a host, or several, to how they are reached."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from triage.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from triage.cli.options import HostKey
    from triage.hosts.inventory.inventory import Host, Inventory
    from triage.hosts.options import ConnectionOptions
    from triage.workflows.fleet import HostOutcome
    from triage.workflows.prompts import Prompts

T = TypeVar("T")
VARIABLE = "TRIAGE_INVENTORY"
FORKS = 8

ForksOption = Annotated[int, typer.Option("--forks", min=1, max=256, help="How many hosts at a time.")]


def inventory(given: Path | None = None) -> Inventory:
    """The inventory that was named, that of the environment, that of the configuration, or an empty one.

    Raises UsageError for a broken file.
    """
    from triage.common.config import load_config
    from triage.hosts.inventory.inventory import Inventory, load_inventory

    named = os.environ.get(VARIABLE, "")
    path = given or (Path(named).expanduser() if named else load_config().inventory)
    return load_inventory(path) if path else Inventory()


def one_host(name: str, given: Path | None = None) -> Host:
    """The one host of that name. Raises UsageError where it names several."""
    hosts = inventory(given).select(name)
    if len(hosts) != 1:
        names = ", ".join(host.name for host in hosts[:8])
        raise UsageError(
            "connecting to",
            name,
            f"this names several hosts ({names}); here it takes one",
            "triage hosts list",
        )
    return hosts[0]


def connection_options(
    host: Host, ssh_config: Path | None, host_key: HostKey, become: bool, questions: Prompts | None = None
) -> ConnectionOptions:
    """How to reach a host: what the command line says, then the inventory. `questions` where it is one of
    several: what sudo wants is asked for once then, for all of them.
    """
    from triage.cli.console import ask_secret
    from triage.hosts import ConnectionOptions

    settings = host.settings
    if host.unusable:
        raise UsageError(
            "connecting to",
            host.name,
            f"what the inventory says of it cannot be followed: {host.unusable}",
            "mend that, or say it in ~/.ssh/config or a hosts.yaml",
        )
    return ConnectionOptions(
        ssh_config=ssh_config,
        host_key=host_key.value,
        become=become or bool(settings.become),
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
def progress(
    hosts: Sequence[Host], status: Callable[[Host, HostOutcome[T]], str], questions: Prompts
) -> Iterator[Callable[[Host, HostOutcome[T] | None], None]]:
    """One line a host on a terminal; elsewhere nothing. Yields what is to be told of beginnings and ends.

    It makes way for questions.
    """
    import sys

    if not sys.stderr.isatty():
        yield lambda host, outcome: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    from triage.cli import console
    from triage.report.safe import safe_line

    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[status]}", markup=False, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console.stderr()) as shown:

        def answer(question: str) -> str | None:
            shown.stop()
            try:
                return console.ask_secret(question)
            finally:
                shown.start()

        questions.answer = answer
        tasks = {
            host.name: shown.add_task(safe_line(host.name), total=1, start=False, status="waiting")
            for host in hosts
        }

        def told(host: Host, outcome: HostOutcome[T] | None) -> None:
            if outcome is None:
                shown.start_task(tasks[host.name])
                shown.update(tasks[host.name], status="reading")
            else:
                shown.update(tasks[host.name], status=status(host, outcome), completed=1)

        yield told
