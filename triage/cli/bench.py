"""`triage bench`: which parallel layout serves best here."""

from __future__ import annotations

import sys
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
    knowledge,
)
from triage.cli.reach import Reach
from triage.cli.report import ReportOption, require_suffix, write_report
from triage.cli.verify import MAX_WAIT, DrainOption, listener
from triage.common.errors import ExitCode, RefusedError, TriageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from triage.evidence.model import Deployment, Layout
    from triage.hosts.connection import Connection
    from triage.workflows.bench import Bench
    from triage.workflows.diagnose import Knowledge
    from triage.workflows.verify import Options


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

    require_suffix(report)
    wanted = layouts_of(layouts)
    options = replace(loads.options("bench", requests, api_key_env), drain=drain, timeout=timeout)
    known = knowledge(rules)
    reached = reach.host(host)
    unit = unit or reached.settings.unit
    with reach.connection(reached) as connection:
        deployment = discover(LiveEvidence(connection), unit)[0]
        _agree(connection, deployment, wanted, options, yes)
        measured: list[Bench] = []
        try:
            result = bench_on(connection, deployment, wanted, options, known, measured.append)
        except (KeyboardInterrupt, TriageError):
            if measured:
                _show(measured[-1], format, report)
            raise
    _show(result, format, report)
    if result.notes:
        raise typer.Exit(ExitCode.UNREACHABLE)
    raise typer.Exit(ExitCode.OK if result.best else ExitCode.FOUND)


def _show(result: Bench, format: Format, report: Path | None) -> None:
    from triage.report import bench as rendered
    from triage.report import documents, json

    document = rendered.document(result)
    if format is Format.JSON:
        print(json.dumps(document))
    else:
        screen = console.stdout()
        for line in rendered.lines(result):
            screen.print(line, soft_wrap=True)
    if report is not None:
        write_report([documents.cleaned(document)], report)


def layouts_of(names: str) -> list[Layout]:
    """Of `tp8,pp8`. Raises UsageError."""
    from triage.verify.layouts.layouts import parse_layout

    return list(dict.fromkeys(map(parse_layout, names.split(","))))


def bench_on(
    connection: Connection,
    deployment: Deployment,
    layouts: Sequence[Layout],
    options: Options,
    known: Knowledge,
    on_measured: Callable[[Bench], None] = lambda so_far: None,
) -> Bench:
    """What the layouts do here; a start that died is diagnosed, Ctrl-C says how the service is left.

    What is measured is kept after each layout: a lost connection, Ctrl-C and a kill leave it there.
    """
    from triage.verify.layouts.bench_progress import BenchProgress
    from triage.verify.layouts.layouts import name_of
    from triage.verify.service.exclusion import alone
    from triage.workflows.bench import bench

    kept = BenchProgress(connection.name, deployment.name)

    def keep(so_far: Bench) -> None:
        from triage.report import bench as report

        on_measured(so_far)
        kept.write(report.document(so_far))

    def on_layout(layout: Layout) -> None:
        if sys.stderr.isatty():
            console.stderr().print(name_of(layout), style="bold")

    def cause() -> str:
        return _cause(connection, deployment, known)

    with alone(connection, deployment) as note, listener() as on_event:
        if note:
            print(f"note: {note}", file=sys.stderr)
        try:
            return bench(connection, deployment, layouts, options, on_event, on_layout, keep, cause)
        except KeyboardInterrupt:
            print(f"interrupted; the command of {deployment.name} is as it was{kept}", file=sys.stderr)
            raise
        except TriageError as error:
            error.happened += str(kept)
            raise


def _agree(
    connection: Connection, deployment: Deployment, wanted: list[Layout], options: Options, yes: bool
) -> None:
    from triage.verify.service.drain import outlook

    where, times = f"{deployment.name} on {connection.name}", len(wanted)
    running = "" if yes else outlook(connection, deployment, options.api_key)
    question = f"restart {where} {times + 1} times, {times} with other arguments?{running}"
    if not console.agreed(question, yes):
        raise RefusedError("restarting", where, "nobody agreed to it", "repeat it with --yes")


def _cause(connection: Connection, deployment: Deployment, known: Knowledge) -> str:
    """What a diagnosis says of the start that died."""
    from triage.evidence.live import LiveEvidence
    from triage.workflows import diagnose

    try:
        report = diagnose.diagnose(LiveEvidence(connection), known, deployment.unit)
    except TriageError as error:
        return f"not diagnosed: {error}"
    if not report.incidents:
        return ""
    found = report.incidents[-1]
    titles = [item.title for item in found.diagnoses if item.outcome != "refuted"]
    if titles:
        return f"{found.verdict.certainty}: {titles[0]}"
    fault = found.incident.initiator
    first = "".join(fault.message.splitlines()[:1]) if fault else ""
    return f"no rule explains {fault.type}: {first}" if fault else "its log leaves open what came first"
