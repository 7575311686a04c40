"""`triage report`: a page for people of what `--format json` printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from triage.common.errors import UsageError

ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write a report too: .html for a page, .md for a ticket, .xml for a CI system (JUnit).",
        show_default=False,
    ),
]


def report(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="DOCUMENT...",
            help="What a command printed with --format json; - is stdin.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The report: .html for a page, .md for a ticket, .xml for a CI system (JUnit).",
        ),
    ],
) -> None:
    """Make one self-contained HTML page, Markdown for a ticket, or JUnit XML, of the results in DOCUMENTs."""
    from triage.report.documents import read_document

    require_suffix(output)
    write_report([read_document(path) for path in documents], output)


def write_report(documents: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Raises UsageError for a document that lacks what its schema has."""
    from triage.common.files import write_atomically
    from triage.report.pages import page_of

    write_atomically(output, page_of(documents, output).encode("utf-8", "backslashreplace"))
    print(f"wrote {output}", file=sys.stderr)


def write_result(result: object, output: Path | None) -> None:
    """A report of what a command has just found, where one is asked for. Raises UsageError."""
    if output is not None:
        from triage.report import documents, renderers

        write_report([documents.cleaned(renderers.document(result))], output)


def require_suffix(output: Path | None) -> None:
    """Raises UsageError, before anything is done, where no report could be written in the end."""
    from triage.report.pages import PAGES

    if output is not None and output.suffix not in PAGES:
        raise UsageError(
            "making the report", str(output), "a report ends in .html, .md or .xml", "name such a file"
        )
