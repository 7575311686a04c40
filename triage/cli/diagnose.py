"""`triage diagnose`: what failed first, why, how sure, what fixes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command, targets
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    LogFormatOption,
    RulesOption,
    UnitOption,
    given_logs,
)
from triage.cli.reach import Reach
from triage.cli.report import ReportOption, require_suffix, write_result
from triage.cli.targets import FORKS, ForksOption
from triage.common.commands import command
from triage.common.errors import ExitCode, TriageError, UsageError
from triage.workflows.knowledge import knowledge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triage.hosts.inventory.model import Host
    from triage.hosts.options import ConnectionOptions
    from triage.workflows.diagnose import Knowledge, Report


@with_groups
def diagnose(
    host: Annotated[
        str | None,
        typer.Argument(
            metavar="[HOST]",
            help="`local`, an alias of your ssh config, or user@host:port; several as HOST,HOST, or the name "
            "of a group or deployment of the inventory.",
            show_default=False,
        ),
    ] = None,
    unit: UnitOption = "",
    log: Annotated[
        str | None,
        typer.Option(help="Read the log from this file, `-` for stdin; with HOST, the rest from there."),
    ] = None,
    log_format: LogFormatOption = "",
    case: Annotated[Path | None, typer.Option(help="Diagnose a captured case.")] = None,
    bug_report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a redacted report for the engine's tracker, in Markdown.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = Format.TEXT,
    page: ReportOption = None,
    rules: RulesOption = None,
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The engine's source (package, environment or checkout), to explain what no rule knows.",
            show_default=False,
        ),
    ] = None,
    without_rules: Annotated[
        bool, typer.Option("--without-rules", help="Ask no rule: only the kind of fault, and the source.")
    ] = False,
    *,
    reach: Reach,
    forks: ForksOption = FORKS,
) -> None:
    """Find what failed first on HOST, confirm why, and say what fixes it.

    Reads only. Exit code 0 when the last run holds no fault, 1 when it does; of several hosts, the
    greatest of theirs.
    """
    from triage.evidence.recorded import LogEvidence, RecordedEvidence
    from triage.patching.trees import find_root
    from triage.workflows import diagnose

    require_suffix(page)
    if case is not None and (host or log):
        raise UsageError(
            "diagnosing", str(case), "a case stands alone", command("diagnose", "", "--case", str(case))
        )
    if host is None and log is None and case is None:
        raise UsageError(
            "diagnosing", "nothing", "name a HOST, a --log or a --case", command("diagnose --help")
        )
    hosts = reach.hosts()
    known = knowledge(rules)
    if source is not None:
        find_root(source)  # what cannot be read is told before anything else is
    if without_rules:
        known = replace(known, rules=())
    if host is not None and hosts.is_several(host):
        if log or bug_report or source:
            wrong = "a log, a bug report and a source are of one host"
            raise UsageError("diagnosing", host, wrong, command("diagnose HOST --log FILE"))
        raise typer.Exit(_diagnose_all(hosts.select(host), known, unit, format, forks, reach, page))
    logs = given_logs(log, log_format)
    if case is not None:
        from triage.evidence.cases.case import read_case

        recorded = read_case(case)
        logs = () if recorded.log is None else (recorded.log,)
        unit = unit or recorded.unit
        report = diagnose.diagnose(RecordedEvidence(recorded), known, unit, *logs, source=source)
    elif host is None:
        report = diagnose.diagnose(LogEvidence(log or ""), known, unit, *logs, source=source)
    else:
        (one,) = hosts.select(host)
        with (
            _hinting_at_case(host),
            reach.evidence(one) as evidence,
            console.working(f"reading {host}"),
        ):
            unit = unit or one.settings.unit
            report = diagnose.diagnose(evidence, known, unit, *logs, source=source)
    report = next_command.in_report(report)
    console.show(report, format)
    if bug_report is not None:
        _write_bug_report(report, bug_report)
    write_result(report, page)
    raise typer.Exit(ExitCode.OK if report.outcome == "nothing-failed" else ExitCode.FOUND)


@contextmanager
def _hinting_at_case(host: str) -> Iterator[None]:
    """An error of connecting to what is the place of a case says how that is diagnosed."""
    try:
        yield
    except TriageError as error:
        from triage.evidence.cases.case import is_one

        if error.doing == "connecting to" and is_one(host):
            of_case = command("diagnose", "", "--case", host)
            error.next = f"{of_case} if the case is meant; else {error.next}"
        raise


def _diagnose_all(
    hosts: Sequence[Host],
    known: Knowledge,
    unit: str,
    format: Format,
    forks: int,
    reach: Reach,
    page: Path | None,
) -> int:
    """Diagnose each, show what they have in common once. Returns the exit code."""
    from threading import Event

    from triage.report.fleet import status
    from triage.workflows.fleet import FleetResult, diagnose_hosts
    from triage.workflows.prompts import Prompts

    questions = Prompts(Event(), console.ask_secret)

    def options(host: Host) -> ConnectionOptions:
        return reach.options(host, questions)

    with targets.progress(hosts, status, questions) as told:
        outcomes = diagnose_hosts(hosts, known, unit, options, forks, questions, told)
    found = FleetResult(next_command.in_outcomes(outcomes))
    console.show(found, format)
    write_result(found, page)
    return found.exit_code


def _write_bug_report(report: Report, path: Path) -> None:
    from triage.common.files import write_atomically
    from triage.engines import engine_named
    from triage.report import bugreport
    from triage.report.safe import safe_line

    if not report.incidents:
        print("no incident, so no bug report was written", file=sys.stderr)
        return
    write_atomically(path, bugreport.bug_report(report).encode("utf-8", "backslashreplace"))
    tracker = engine_named(report.deployment.engine).tracker
    print(f"wrote {safe_line(str(path))}: read it once, then file it at {tracker}", file=sys.stderr)
