"""`triage bench`: which parallel layout serves best here."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console
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
from triage.cli.verify import MAX_WAIT, DrainOption, listener
from triage.common.errors import ExitCode, TriageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from triage.evidence.model import Layout
    from triage.workflows.bench import Bench
    from triage.workflows.bench_unit import BenchListener


@with_groups
def bench(
    host: HostArgument,
    layouts: Annotated[
        str, typer.Option("--layouts", help="Parallel layouts to measure: `tp8,pp8,ep8,tp2pp4`.")
    ],
    unit: UnitOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Restart without asking.")] = False,
    drain: DrainOption = 30.0,
    timeout: Annotated[
        float, typer.Option(min=1, max=MAX_WAIT, help="Seconds that each start may take.")
    ] = 900.0,
    requests: Annotated[int, typer.Option(min=1, max=10_000, help="Requests a load.")] = 8,
    *,
    loads: LoadChoice,
    api_key_env: ApiKeyOption = "",
    format: FormatOption = Format.TEXT,
    report: ReportOption = None,
    rules: RulesOption = None,
    reach: Reach,
) -> None:
    """Restart the service on HOST with each layout, measure it, and say which serves best.

    The unit's file is not touched: another command is put above it for a while, and taken away at the
    end, by the host itself if need be. What was measured is shown also when the rest was cut.
    Exit code 1 when no layout became ready, 3 when the unit is not as it was yet.
    """
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.report.renderers import document
    from triage.workflows.bench_unit import agree_to_restarts, bench_unit, layouts_of
    from triage.workflows.knowledge import knowledge

    require_suffix(report)
    wanted = layouts_of(layouts)
    options = replace(loads.options("bench", requests, api_key_env), drain=drain, timeout=timeout)
    known = knowledge(rules)
    reached = reach.host(host)
    unit = unit or reached.settings.unit
    with reach.connection(reached) as connection:
        deployment = discover(LiveEvidence(connection), unit)[0]
        agree_to_restarts(connection, deployment, wanted, options, yes, console.agreed)
        measured: list[Bench] = []
        try:
            with bench_listener(measured.append) as told:
                result = bench_unit(connection, deployment, wanted, options, known, document, told)
        except (KeyboardInterrupt, TriageError):
            if measured:
                _show(measured[-1], format, report)
            raise
    _show(result, format, report)
    if result.notes:
        raise typer.Exit(ExitCode.UNREACHABLE)
    raise typer.Exit(ExitCode.OK if result.best else ExitCode.FOUND)


def _show(result: Bench, format: Format, report: Path | None) -> None:
    console.show(result, format)
    write_result(result, report)


@contextmanager
def bench_listener(on_measured: Callable[[Bench], None] = lambda so_far: None) -> Iterator[BenchListener]:
    """What a bench tells, on standard error; events and layouts on a terminal only."""
    from triage.verify.layouts.launch_commands import name_of
    from triage.workflows.bench_unit import BenchListener

    def on_layout(layout: Layout) -> None:
        if sys.stderr.isatty():
            console.stderr().print(name_of(layout), style="bold")

    def on_note(note: str) -> None:
        print(f"note: {note}", file=sys.stderr)

    def on_interrupt(left: str) -> None:
        print(f"interrupted; {left}", file=sys.stderr)

    with listener() as on_event:
        yield BenchListener(on_event, on_layout, on_measured, on_note, on_interrupt)
