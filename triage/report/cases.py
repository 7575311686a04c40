"""Captured cases as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from triage.common.wording import counted
from triage.report.safe import safe_line
from triage.workflows.capture import Captured, CaseContents

if TYPE_CHECKING:
    from triage.evidence.cases.case import CaseEntry


def captured_lines(case: Captured) -> Iterator[Text]:
    place = safe_line(str(case.directory))
    yield Text(f"captured {place}: {counted(case.answered, 'answer')}, {case.missing} missing")
    yield Text(f"diagnose it again: triage replay {place}")


def lines(case: CaseContents) -> Iterator[Text]:
    """What the case was asked and what it answered, then what is missing."""
    answered = [entry for entry in case.entries if entry.file]
    size = counted(sum(entry.size for entry in case.entries), "byte")
    yield Text(
        safe_line(f"{case.name}: captured {case.created}, {counted(len(answered), 'answer')} of {size}")
    )
    for entry in answered:
        yield Text(safe_line(f"  {entry.size:10} {entry.query} {entry.about}".rstrip() + _remarks(entry)))
    if case.prompts_kept:
        yield Text("what users asked and models answered was kept (--keep-prompts)", "yellow")
    missing = [entry for entry in case.entries if not entry.file]
    if missing:
        yield Text("missing:")
    for entry in missing:
        yield Text(safe_line(f"  {f'{entry.query} {entry.about}'.rstrip()}: {entry.missing}"))


def _remarks(entry: CaseEntry) -> str:
    cut = [f"cut by its limit in {entry.partial}"] if entry.partial else []
    redacted = [f"{count} x <{kind}>" for kind, count in sorted(entry.redacted.items())]
    return f"   ({', '.join((*cut, *redacted))})" if cut or redacted else ""
