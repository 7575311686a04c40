"""`triage case`: what is in a captured case."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli.options import Format, FormatOption
from triage.common.wording import counted

if TYPE_CHECKING:
    from triage.evidence.cases.case import CaseEntry

app = typer.Typer(help="Look into captured cases.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def cases() -> None:
    """Look into captured cases."""


@app.command()
def show(
    case: Annotated[Path, typer.Argument(metavar="CASE", help="A directory, or an archive (.tar.zst).")],
    format: FormatOption = Format.TEXT,
) -> None:
    """Show what a case was asked, what it answered, and what is missing, cut or redacted."""
    from triage.evidence.cases.case import list_case
    from triage.report import json
    from triage.report.safe import safe_line

    created, entries = list_case(case)
    if format is Format.JSON:
        print(json.dumps(json.case(created, entries)))
        return
    answered = [entry for entry in entries if entry.file]
    size = sum(entry.size for entry in entries)
    print(
        safe_line(
            f"{case.name}: captured {created}, {counted(len(answered), 'answer')} of {counted(size, 'byte')}"
        )
    )
    for entry in answered:
        print(safe_line(f"  {entry.size:10} {entry.query} {entry.about}".rstrip() + _remarks(entry)))
    missing = [entry for entry in entries if not entry.file]
    if missing:
        print("missing:")
    for entry in missing:
        print(safe_line(f"  {f'{entry.query} {entry.about}'.rstrip()}: {entry.missing}"))


def _remarks(entry: CaseEntry) -> str:
    cut = [f"cut by its limit in {entry.partial}"] if entry.partial else []
    redacted = [f"{count} x <{kind}>" for kind, count in sorted(entry.redacted.items())]
    return f"   ({', '.join((*cut, *redacted))})" if cut or redacted else ""
