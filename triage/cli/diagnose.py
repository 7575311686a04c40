"""`triage diagnose`: what failed first, why, how sure, what mends it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console
from triage.cli.options import (
    BecomeOption,
    Format,
    FormatOption,
    HostKey,
    HostKeyOption,
    LogFormatOption,
    RulesOption,
    SshConfigOption,
    UnitOption,
    given_logs,
    knowledge,
    live_evidence,
)
from triage.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from triage.pipeline import Report


def diagnose(
    host: Annotated[
        str | None,
        typer.Argument(
            metavar="[HOST]",
            help="`local`, an alias of your ssh config, or user@host:port.",
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
    rules: RulesOption = None,
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """Find what failed first on HOST, confirm why, and say what mends it.

    Reads only. Exit code 0 when the last run holds no fault, 1 when it does.
    """
    from triage import pipeline
    from triage.evidence.recorded import LogEvidence, RecordedEvidence

    if case is not None and (host or log):
        raise UsageError("diagnosing", str(case), "a case stands alone", f"triage diagnose --case {case}")
    if host is None and log is None and case is None:
        raise UsageError(
            "diagnosing", "nothing", "name a HOST, a --log or a --case", "triage diagnose --help"
        )
    known = knowledge(rules)
    logs = given_logs(log, log_format)
    if case is not None:
        from triage.evidence.case import read_case

        recorded = read_case(case)
        logs = () if recorded.log is None else (recorded.log,)
        report = pipeline.diagnose(RecordedEvidence(recorded), known, unit or recorded.unit, *logs)
    elif host is None:
        report = pipeline.diagnose(LogEvidence(log or ""), known, unit, *logs)
    else:
        with (
            live_evidence(host, ssh_config, host_key, become) as evidence,
            console.working(f"reading {host}"),
        ):
            report = pipeline.diagnose(evidence, known, unit, *logs)
    show(report, format)
    if bug_report is not None:
        _write_bug_report(report, bug_report)
    raise typer.Exit(ExitCode.FOUND if report.incidents else ExitCode.OK)


def _write_bug_report(report: Report, path: Path) -> None:
    from triage.files import write_atomically
    from triage.report import bugreport
    from triage.report.safe import safe_line

    if not report.incidents:
        print("no incident, so no bug report was written", file=sys.stderr)
        return
    write_atomically(path, bugreport.bug_report(report).encode("utf-8", "backslashreplace"))
    tracker = bugreport.TRACKERS.get(report.deployment.engine, "the engine's tracker")
    print(f"wrote {safe_line(str(path))}: read it once, then file it at {tracker}", file=sys.stderr)


def show(report: Report, format: Format) -> None:
    """Print a report in the format that was asked for."""
    if format is Format.JSON:
        from triage.report import json

        print(json.dumps(json.diagnosis(report)))
    else:
        from triage.report import text

        text.render(report, console.stdout())
