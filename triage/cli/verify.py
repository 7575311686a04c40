"""`triage verify`: restarted, really ready, answers, and how fast against before."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
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
    knowledge,
)
from triage.cli.reach import Reach
from triage.cli.report import ReportOption, require_suffix, write_report
from triage.common.commands import command
from triage.common.errors import ExitCode, TriageError, UnreachableError

if TYPE_CHECKING:
    from triage.evidence.model import Deployment
    from triage.hosts.connection import Connection
    from triage.verify.events import Event, Listener
    from triage.verify.model import Verification
    from triage.workflows.diagnose import Report
    from triage.workflows.verify import Options


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
        result, diagnosis = verify_on(connection, unit, options, rules)
        behind = () if restart else _not_running(connection, unit)
    diagnosis = diagnosis and next_command.in_report(diagnosis)
    _show(result, diagnosis, format)
    if behind and format is Format.TEXT:
        print(
            f"applied but not running: {', '.join(behind)}; restart the service, which --no-restart did not"
        )
    if report is not None:
        from triage.report import documents, json

        write_report([documents.cleaned(json.verification(result, diagnosis))], report)
    raise typer.Exit(ExitCode.FOUND if result.verdict == "failed" else ExitCode.OK)


def verify_on(
    connection: Connection, unit: str, options: Options, rules: Iterable[Path] | None = None
) -> tuple[Verification, Report | None]:
    """The verification, and the diagnosis of the run that it started when that run died.

    Raises RefusedError while somebody else verifies the same service.
    """
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.evidence.truncation import NotingCuts
    from triage.verify.service.exclusion import alone
    from triage.workflows import diagnose, verify

    evidence = NotingCuts(LiveEvidence(connection))
    with evidence.in_errors():
        deployment = discover(evidence, unit)[0]
    options = replace(options, patches=_patches_in_place(connection, deployment))
    with (
        alone(connection, deployment) as note,
        listener() as shown,
        _told_when_cut(shown, connection.name) as on_event,
    ):
        result = verify.verify(connection, deployment, options, on_event)
    notes = (*deployment.disagreements, *evidence.notes, *filter(None, [note]))
    result = replace(result, notes=(*result.notes, *notes))
    if not result.start.died:
        return result, None
    afterwards = LiveEvidence(connection)
    return result, diagnose.diagnose(afterwards, knowledge(rules), unit or deployment.unit)


def _patches_in_place(connection: Connection, deployment: Deployment) -> tuple[str, ...]:
    """Ids of the patches that the ledger has for the tree that serves; none where it cannot be read."""
    from triage.patching import transaction

    try:
        changes = transaction.status(transaction.HostTree(connection, ()))
    except TriageError:
        return ()
    root = f"{deployment.package_root}/"
    here = (change for change in changes if any(file.path.startswith(root) for file in change.files))
    return tuple(sorted({change.patch for change in here if change.state == "applied"}))


def _not_running(connection: Connection, unit: str) -> tuple[str, ...]:
    """The patches that are applied to the service's source, and that it was started before."""
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.patching import transaction
    from triage.patching.change_status import not_running
    from triage.patching.transaction import HostTree

    try:
        deployment = discover(LiveEvidence(connection), unit)[0]
        tree = HostTree(connection, (), deployment.python, os.environ.get("TRIAGE_LEDGER", ""))
        return not_running(tree.agent, transaction.status(tree), deployment)
    except TriageError:  # the verification stands without it
        return ()


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


@contextmanager
def _told_when_cut(shown: Listener, host: str) -> Iterator[Listener]:
    """Ctrl-C and a lost connection say what has become of the service; `shown` gets every event."""
    from triage.verify.events import Restarting, ServiceStarted

    done = "the service was not restarted"

    def on_event(event: Event) -> None:
        nonlocal done
        if isinstance(event, Restarting):
            done = f"{event.service} was to be restarted, and no new start was seen yet"
        elif isinstance(event, ServiceStarted):
            done = f"the service was restarted (pid {event.pid}), and goes on by itself"
        shown(event)

    try:
        yield on_event
    except UnreachableError as error:
        error.happened += f"; {done}"
        raise
    except KeyboardInterrupt:
        from triage.report.safe import safe_line

        next = next_command.reaching(command("verify", host, "--no-restart"))
        print(f"interrupted; {safe_line(done)}. Next: {next}", file=sys.stderr)
        raise


def _show(result: Verification, diagnosis: Report | None, format: Format) -> None:
    if format is Format.JSON:
        from triage.report import json

        print(json.dumps(json.verification(result, diagnosis)))
        return
    from triage.report import text, verification

    screen = console.stdout()
    for line in verification.lines(result):
        screen.print(line, soft_wrap=True)
    if diagnosis is not None:
        screen.print()
        text.render(diagnosis, screen)
