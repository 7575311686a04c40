"""Several hosts at a time: how many, and a line on the terminal for each while it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from triage.hosts.inventory.model import Host
    from triage.workflows.fleet import HostOutcome
    from triage.workflows.prompts import Prompts

T = TypeVar("T")
FORKS = 8

ForksOption = Annotated[int, typer.Option("--forks", min=1, max=256, help="How many hosts at a time.")]


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
