"""`triage verify`: restarted, really ready, answers, and how fast against before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command
from triage.cli.loads import ApiKeyOption, LoadChoice
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
    RulesOption,
    UnitOption,
)
from triage.cli.reach import Reach
from triage.cli.report import ReportOption, require_suffix, write_result
from triage.common.commands import command
from triage.common.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from triage.verify.events import Event, Listener


MAX_WAIT = 86_400.0  # seconds
DrainOption = Annotated[
    float,
    typer.Option(
        min=0,
        max=MAX_WAIT,
        metavar="SECONDS",
        help="How long a restart waits for running requests to end; 0: not at all.",
    ),
]


@with_groups
def verify(
    host: HostArgument,
    unit: UnitOption = "",
    restart: Annotated[bool, typer.Option(help="Restart the service first.")] = True,
    drain: DrainOption = 30.0,
    timeout: Annotated[
        float, typer.Option(min=1, max=MAX_WAIT, help="Seconds that the start may take.")
    ] = 900.0,
    restart_budget: Annotated[
        int,
        typer.Option(min=0, max=100, help="Restarts by its own manager that the service may need to start."),
    ] = 0,
    patience: Annotated[
        float,
        typer.Option(
            min=0, max=MAX_WAIT, help="Seconds of silence and idleness that are a hang; 0 for never."
        ),
    ] = 300.0,
    requests: Annotated[int, typer.Option(min=0, max=10_000, help="Requests a load; 0 for none.")] = 8,
    *,
    loads: LoadChoice,
    tool: Annotated[
        bool, typer.Option("--tool", help="Measure with the engine's own benchmark as well.")
    ] = False,
    api_key_env: ApiKeyOption = "",
    format: FormatOption = Format.TEXT,
    report: ReportOption = None,
    rules: RulesOption = None,
    reach: Reach,
) -> None:
    """Restart the service on HOST, wait for a real completion, measure, and compare with last time.

    Exit code 1 when it does not become ready or requests fail; then with the new diagnosis.
    """
    from triage.workflows.knowledge import knowledge
    from triage.workflows.verify_unit import patches_behind, verify_unit

    require_suffix(report)
    options = replace(
        loads.options("verify", requests, api_key_env),
        restart=restart,
        drain=drain,
        timeout=timeout,
        restart_budget=restart_budget,
        patience=patience,
        tool=tool,
    )
    reached = reach.host(host)
    unit = unit or reached.settings.unit
    with reach.connection(reached) as connection:
        with listener() as on_event:
            found = verify_unit(
                connection, unit, options, lambda: knowledge(rules), on_event, interrupted(connection.name)
            )
        if not restart:
            found = replace(found, behind=patches_behind(connection, unit))
    found = replace(found, diagnosis=found.diagnosis and next_command.in_report(found.diagnosis))
    console.show(found, format)
    write_result(found, report)
    raise typer.Exit(ExitCode.FOUND if found.verification.verdict == "failed" else ExitCode.OK)


@contextmanager
def listener() -> Iterator[Listener]:
    """Events as lines above a spinner on a terminal; nothing elsewhere."""
    from triage.verify.events import ignore

    if not sys.stderr.isatty():
        yield ignore
        return
    from triage.report.safe import safe_line
    from triage.report.verification import progress

    screen = console.stderr()
    with screen.status("waiting for the service") as status:

        def show(event: Event) -> None:
            if line := progress(event):
                screen.print(safe_line(line), style="dim")
                status.update(safe_line(line))

        yield show


def interrupted(host: str) -> Callable[[str], None]:
    """What is said at Ctrl-C of a verification on the host."""

    def say(done: str) -> None:
        from triage.report.safe import safe_line

        next = next_command.reaching(command("verify", host, "--no-restart"))
        print(f"interrupted; {safe_line(done)}. Next: {next}", file=sys.stderr)

    return say
