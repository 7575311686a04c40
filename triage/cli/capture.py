"""`triage capture`: what a diagnosis read, redacted, so that it can be diagnosed again anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
    RulesOption,
    UnitOption,
    given_logs,
)
from triage.cli.reach import Reach
from triage.workflows.knowledge import knowledge


@with_groups
def capture(
    host: HostArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="CASE", help="Where the case goes: a directory, or NAME.tar.zst."
        ),
    ],
    unit: UnitOption = "",
    log: Annotated[
        str | None, typer.Option(help="Take the log from this file instead of the journal.")
    ] = None,
    source: Annotated[bool, typer.Option(help="Keep the engine's program text that the probes read.")] = True,
    full: Annotated[
        bool,
        typer.Option("--full", help="Read what a bug report needs besides: the whole journal, and more."),
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a case that is there.")] = False,
    keep_prompts: Annotated[
        bool,
        typer.Option(
            "--keep-prompts", help="Keep what users asked and models answered, where it was logged."
        ),
    ] = False,
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
    *,
    reach: Reach,
) -> None:
    """Diagnose HOST and keep everything that was read, redacted, as a case.

    `expected.yaml` in it holds the verdict that `triage replay CASE` will ask for.
    """
    from triage.evidence.cases.case import check_place
    from triage.workflows import capture

    check_place(output, replace)
    known = knowledge(rules)
    logs = given_logs(log)
    reached = reach.host(host)
    unit = unit or reached.settings.unit
    with (
        reach.evidence(reached, keep_prompts) as evidence,
        console.working(f"reading {host}"),
    ):
        case = capture.capture(
            evidence, known, output, unit, *logs, source=source, full=full, replacing=replace
        )
    console.show(case, format)
