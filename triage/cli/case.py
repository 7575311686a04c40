"""`triage case`: what is in a captured case."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.options import Format, FormatOption

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
    from triage.workflows.capture import CaseContents

    console.show(CaseContents(case.name, *list_case(case)), format)
