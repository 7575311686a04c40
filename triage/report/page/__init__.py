"""One self-contained HTML page of a run: no scripts, nothing loaded, nothing of a log is markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from triage.report import levels
from triage.report.documents import overviews, sections
from triage.report.page import charts, lanes, story
from triage.report.tables import tables

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent


def page(documents: Sequence[Mapping[str, Any]]) -> str:
    """The documents as one page. Raises jinja2.UndefinedError for one that lacks what its schema has."""
    template = _environment().get_template("page.html.jinja")
    parts = [section for document in documents for section in sections(document)]
    wholes = [whole for document in documents for whole in overviews(document)]
    return template.render(
        css=Markup((HERE / "page.css").read_text()),  # noqa: S704 - ours, and not to be escaped
        title=story.title(wholes, parts),
        overviews=wholes,
        parts=parts,
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        lanes=lanes.lanes,
        chain=story.chain,
        explanation=story.explanation,
        curves=charts.curves,
        level=levels.level,
        rows=levels.rows,
        starts=charts.phases,
        tables=tables,
    )
    environment.filters.update(figure=story.figure, clock=story.clock, diff=story.diff)
    return environment
