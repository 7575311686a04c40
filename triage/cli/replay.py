"""`triage replay`: every captured crash diagnosed again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.options import Format, FormatOption, RulesOption
from triage.common.errors import ExitCode
from triage.workflows.knowledge import knowledge


def replay(
    cases: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Cases, or directories of cases.")],
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
    score: Annotated[
        bool, typer.Option("--score", help="Say how often each part came out as labelled.")
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Score the answers of another tool, in the form of --format json, instead of diagnosing.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="REF",
            help="Show which verdicts differ from those of other rules (a directory, for the shipped ones) "
            "or of an earlier --format json result.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Diagnose captured cases again and compare with what they must give.

    Exit code 1 when a case gives something else, or its verdict is not that of REF.
    """
    from triage.report.replay import case_lines
    from triage.workflows import replay as replaying
    from triage.workflows import score as scoring
    from triage.workflows.verdict_diff import ReplayResult, flips, from_result, verdicts_of

    found = replaying.find_cases(cases)
    before = None if against is None else verdicts_of(against, found)
    results = []
    told = (
        scoring.answered(found, from_result(answers, found))
        if answers
        else replaying.replay(found, knowledge(rules))
    )
    for result in told:
        results.append(result)
        if format is Format.TEXT:
            console.print_texts(case_lines(result))
            sys.stdout.flush()
    done = ReplayResult(
        tuple(results),
        () if before is None else tuple(flips(results, before)),
        None if before is None else len(before),
        scoring.score(results) if score or answers else None,
    )
    if junit is not None:
        from triage.common.files import write_atomically
        from triage.report.junit import junit as render

        write_atomically(junit, render(done.results, done.flips).encode())
    console.show(done, format)
    raise typer.Exit(ExitCode.FOUND if done.failed or done.flips else ExitCode.OK)
