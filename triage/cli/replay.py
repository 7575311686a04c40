"""`triage replay`: every captured crash diagnosed again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.options import Format, FormatOption, RulesOption
from triage.errors import ExitCode


def replay(
    cases: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Cases, or directories of cases.")],
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
) -> None:
    """Diagnose captured cases again and compare with what they must give.

    Exit code 1 when a case gives something else.
    """
    from triage import replay as replaying
    from triage.pipeline import load_knowledge
    from triage.report.safe import safe_line

    knowledge = load_knowledge(rules or ())
    found = replaying.find_cases(cases)
    results = []
    for result in replaying.replay(found, knowledge):
        results.append(result)
        if format is Format.TEXT:
            print(f"{'FAIL' if result.differences else 'ok  '} {safe_line(result.name)}", flush=True)
            for difference in result.differences:
                print(f"       {safe_line(f'{difference.part} {difference.text}')}")
    if junit is not None:
        from triage.files import write_atomically
        from triage.report.junit import junit as render

        write_atomically(junit, render(results).encode())
    failed = sum(bool(result.differences) for result in results)
    if format is Format.JSON:
        from triage.report import json

        print(json.dumps(json.replay(results)))
    else:
        parts = Counter(part for item in results for part in {found.part for found in item.differences})
        told = "".join(f", {part} of {count}" for part, count in parts.most_common())
        print(f"{len(results)} cases, {failed} differ{told}")
    raise typer.Exit(ExitCode.FOUND if failed else ExitCode.OK)
