"""A run for a ticket, in Markdown: what happened, why, what was changed, what it measured.

Every text of a log or host stands in a code span or block, so none of it is markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from triage.report.documents import Overview, ReportSection, overviews, sections
from triage.report.levels import rows
from triage.report.markup import block, code, word
from triage.report.page import story
from triage.report.tables import tables

MAX_FOLLOWERS = 8


def markdown(documents: Sequence[Mapping[str, Any]]) -> str:
    """Raises KeyError for a document that lacks what its schema has."""
    parts = [section for document in documents for section in sections(document)]
    wholes = [whole for document in documents for whole in overviews(document)]
    lines = [f"# {code(story.title(wholes, parts))}", ""]
    for whole in wholes:
        lines += _overview(whole, first=whole is wholes[0])
    for part in parts:
        if part.kind == "step":
            continue  # the overview has it
        if part.title:
            lines += [f"## {code(part.title)}", ""]
        if part.status:
            lines += [f"{word(part.status)}: {code(part.summary)}", ""]
        elif part.summary:
            lines += [code(part.summary), ""]
        lines += _PARTS[part.kind](part)
    return "\n".join(lines).rstrip() + "\n"


def _overview(whole: Overview, first: bool) -> Iterator[str]:
    """What became of the whole, and of each part of it; the first has its title above all."""
    if not first:
        yield from (f"## {code(whole.title)}", "")
    told = [word(whole.status)] if whole.status else []
    told += [code(whole.reason)] if whole.reason else []
    if told:
        yield from (": ".join(told), "")
    for part in whole.parts:
        summary = f": {code(part.summary)}" if part.summary else ""
        yield f"- {code(part.title)} {word(part.status)}{summary}"
    yield ""


def _diagnosis(part: ReportSection) -> Iterator[str]:
    document = part.document
    deployment = document["deployment"]
    about = (
        deployment["name"],
        f"{deployment['engine']} {deployment['version']}".strip(),
        deployment["model"],
    )
    yield ", ".join(code(fact) for fact in about if fact)
    yield ""
    if not document["incidents"]:
        failed = document.get("outcome") == "not-recognised"
        yield from ("Nothing recognised: this is no proof of health." if failed else "No incident.", "")
        yield from _list(code(line["text"]) for line in document.get("suspicious", ()))
    for incident in document["incidents"]:
        yield from _incident(incident, deployment)


def _incident(incident: Mapping[str, Any], deployment: Mapping[str, Any]) -> Iterator[str]:
    why = story.explanation(incident)
    verdict = incident["verdict"]
    yield f"**{word(story.certainty(incident))}**: {code(why['title'] if why else 'no rule explains this')}"
    yield from ("", f"category {code(verdict['category'])}, fingerprint {code(incident['fingerprint'])}", "")
    yield from ("From the symptom to the cause:", "")
    for link in story.chain(incident, deployment):
        who = f" {code(link.who)}" if link.who else ""
        where = f" at {code(link.where)}" if link.where else ""
        yield f"1. {word(link.kind)}{who}: {code(link.told)}{where}"
    yield ""
    if why is None:
        return
    yield from ("Evidence:", "")
    yield from _list(map(_finding, why["evidence"]))
    yield from ("What can be done:", "")
    for remedy in why["remedies"]:
        if remedy["helps"] is not False:
            yield f"- {word(remedy['kind'])}: {code(remedy['summary'])}"
            if remedy["command"]:
                yield from ("", *(f"  {line}" for line in block(remedy["command"]).splitlines()), "")
    yield ""


def _finding(item: Mapping[str, Any]) -> str:
    return f"{word(item['kind'])} {word(item['result'])}: {code(item['detail'])}"


def _patch(part: ReportSection) -> Iterator[str]:
    for patch in part.document["patches"]:
        yield from (f"{code(patch['id'])}: {code(patch['state'])}, {code(patch['reason'])}", "")
        if patch["diff"]:
            yield from (block(patch["diff"], "diff"), "")
    yield from _list(f"{code(one['id'])}: {code(one['state'])}" for one in part.document["changes"])


def _verification(part: ReportSection) -> Iterator[str]:
    document = part.document
    if part.alone or document["verdict"] == "failed":
        yield from (f"**{word(document['verdict'])}**: {code(document['reason'])}", "")
    start = document["start"]
    if start["ready"]:
        yield from (f"ready after {start['seconds']:.1f} s", "")
    if document["metrics"]:
        yield "| streams | TTFT ms | ITL ms | decode tok/s | all tok/s | completed | failed |"
        yield "|---|---|---|---|---|---|---|"
        for one in rows(document):
            figures = (one["ttft_ms"], one["itl_ms"], one["decode_rate"], one["output_throughput"])
            level = f"{one['level']}, {code(one['by'])}" if one["by"] else one["level"]
            cells = (level, *map(story.figure, figures), one["completed"], one["failed"])
            yield f"| {' | '.join(map(str, cells))} |"
        yield ""
    yield from _list(code(note) for note in document["notes"])


def _bench(part: ReportSection) -> Iterator[str]:
    document = part.document
    left = document.get("left", ())  # an older document lacks it
    best = "best so far" if left else "recommended"
    yield from (f"{best}: **{word(document['best'] or 'none')}**, {code(document['reason'])}", "")
    if left:
        yield from (f"not measured: {', '.join(map(word, left))}", "")
    yield "| layout | decode tok/s | all tok/s | TTFT ms | start s | |"
    yield "|---|---|---|---|---|---|"
    for one in document["layouts"]:
        failed = one["verification"]["verdict"] == "failed"
        mark = "failed" if failed else best if one["name"] == document["best"] else ""
        figures = (one["decode_rate"], one["output_throughput"], one["ttft_ms"], one["start"])
        cells = (word(one["name"]), *map(story.figure, figures), mark)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from _list(code(note) for note in document["notes"])


def _plain(part: ReportSection) -> Iterator[str]:
    for table in tables(part.document):
        if table.title:
            yield from (f"### {code(table.title)}", "")
        columns = table.columns or ("", "")
        yield _row(columns)
        yield f"|{'---|' * len(columns)}"
        yield from map(_row, table.rows)
        yield ""
        if table.hidden:
            yield from (f"{table.hidden} more are not shown", "")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell and code(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _list(items: Iterable[str]) -> Iterator[str]:
    found = [f"- {item}" for item in items]
    if found:
        yield from (*found, "")


_PARTS = {
    "diagnosis": _diagnosis,
    "patch": _patch,
    "verification": _verification,
    "bench": _bench,
    "plain": _plain,
}
