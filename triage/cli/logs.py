"""`triage logs`: a log as a timeline, its records, or one file a rank."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.options import Format, FormatOption, LogFormatOption, given_logs
from triage.common.errors import ExitCode, UsageError
from triage.common.wording import counted


def logs(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Logs of one deployment, `-` is standard input.")
    ],
    split_ranks: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write one file a rank into this new directory.")
    ] = None,
    rank: Annotated[
        list[str] | None,
        typer.Option(help="Show the records of this rank, `main` for those without. Repeatable."),
    ] = None,
    since: Annotated[
        str, typer.Option(help="From this time on: as the log has it, or -10min from its last record.")
    ] = "",
    until: Annotated[str, typer.Option(help="Up to this time.")] = "",
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Show the records that match.", show_default=False)
    ] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show the last N records.")] = None,
    log_format: LogFormatOption = "",
    format: FormatOption = Format.TEXT,
) -> None:
    """Show what happened in a log, run by run: phases, faults with their roles, who came first.

    With --rank, --grep or --last show records instead. Exit code 1 when the timeline has an incident.
    """
    from triage.evidence.redaction.redactor import Redactor
    from triage.logs.views.moments import window
    from triage.logs.views.selecting import last_time

    asked = rank or grep is not None or last is not None
    if split_ranks is not None and (asked or since or until):
        raise UsageError(
            "splitting into", str(split_ranks), "it takes the whole log", "leave the selection out"
        )
    sources = [source for file in files for source in given_logs(file, log_format)]
    if split_ranks is not None:
        from triage.logs.views.splitting import split_ranks as split

        for name, lines in sorted(split(sources, split_ranks).items()):
            print(f"{split_ranks / name}.log  {counted(lines, 'line')}")
        return
    redact = Redactor().redact
    times = window(since, until, lambda: last_time(sources))
    if asked:
        from triage.logs.views.pattern import Pattern
        from triage.logs.views.selecting import Selection, select
        from triage.report.timeline import record_line, records_json

        pattern = None if grep is None else Pattern(grep)
        records = select(sources, Selection(tuple(rank or ()), times, pattern, last), redact)
        if format is Format.JSON:
            sys.stdout.writelines(records_json(records))
            return
        for record in records:
            print(record_line(record, sources))
        return
    from triage.logs import read_incidents
    from triage.logs.views.timeline import LogTimelines, timelines
    from triage.report.safe import safe_line
    from triage.workflows.diagnose import require_text

    found = timelines(read_incidents(sources), redact, times)
    if not found:
        require_text(sources)
    notes = tuple(
        f"{source.name} was cut by its limit in {source.partial}" for source in sources if source.partial
    )
    console.show(LogTimelines(tuple(found), notes), format)
    for note in notes if format is Format.TEXT else ():
        print(f"note: {safe_line(note)}", file=sys.stderr)
    raise typer.Exit(ExitCode.FOUND if found else ExitCode.OK)
