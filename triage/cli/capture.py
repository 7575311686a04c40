"""`triage capture`: what a diagnosis read, redacted, so that it can be diagnosed again anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.options import (
    BecomeOption,
    Format,
    FormatOption,
    HostArgument,
    HostKey,
    HostKeyOption,
    RulesOption,
    SshConfigOption,
    UnitOption,
    given_logs,
    knowledge,
    live_evidence,
)


def capture(
    host: HostArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the case goes.")],
    unit: UnitOption = "",
    log: Annotated[
        str | None, typer.Option(help="Take the log from this file instead of the journal.")
    ] = None,
    source: Annotated[bool, typer.Option(help="Keep the engine's program text that the probes read.")] = True,
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """Diagnose HOST and keep everything that was read, redacted, as a case in DIR.

    `expected.yaml` beside it holds the verdict that `triage replay DIR` will ask for.
    """
    from triage import capturing

    known = knowledge(rules)
    logs = given_logs(log)
    with live_evidence(host, ssh_config, host_key, become) as evidence, console.working(f"reading {host}"):
        case = capturing.capture(evidence, known, output, unit, *logs, source=source)
    if format is Format.JSON:
        from triage.report import json

        print(json.dumps(json.capture(case)))
    else:
        from triage.report.safe import safe_line

        print(f"captured {safe_line(str(case.directory))}: {case.answered} answers, {case.missing} missing")
        print(f"diagnose it again: triage replay {safe_line(str(case.directory))}")
