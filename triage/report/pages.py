"""Reports for people, made of documents: a page, a ticket, the results of a CI system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triage.common.errors import UsageError
from triage.report.renderers import load

PAGES: Mapping[str, str] = {".html": "page.page", ".md": "markdown.markdown", ".xml": "junit.junit_of"}
"""By the end of the file's name, a function of documents; as those of `renderers`."""


def page_of(documents: Sequence[Mapping[str, Any]], output: Path) -> str:
    """The text of a report. Raises UsageError for a document that lacks what its schema has."""
    from jinja2 import UndefinedError

    try:
        text: str = load(PAGES[output.suffix])(documents)
    except (UndefinedError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UsageError(
            "making the report",
            str(output),
            f"a document is not as docs/json.md has it: {type(error).__name__}: {error}",
            "print it again with this version of triage",
        ) from None
    return text
