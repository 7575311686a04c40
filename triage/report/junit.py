"""JUnit XML for CI systems: of a replay, and of whatever has parts that can fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

from triage.common.errors import UsageError
from triage.report.documents import Overview, ReportSection, overviews, sections
from triage.report.json import replay
from triage.report.levels import levels
from triage.report.safe import safe as shown
from triage.workflows.replay import Replayed
from triage.workflows.verdict_diff import Flip

BAD = ("failed", "refused", "confirmed", "likely", "possible", "unknown")  # what a part's status can be


@dataclass(frozen=True)
class TestCase:
    """One test case; `failures` say why it failed, `skipped` why it was not done."""

    name: str
    failures: tuple[str, ...] = ()
    skipped: str = ""
    seconds: float = 0.0


def junit(results: Sequence[Replayed], flips: Sequence[Flip] = ()) -> str:
    """One test suite, one test case a captured case, a failure with every difference and what flipped."""
    cases = [
        replace(case, seconds=item.seconds)
        for case, item in zip(_replayed(replay(results, flips)), results, strict=True)
    ]
    return _text(_suite("triage replay", "triage.workflows.replay", cases))


def junit_of(documents: Sequence[Mapping[str, Any]]) -> str:
    """A test suite for each run, host or result, with a test case for each of its parts.

    Raises UsageError for documents of which nothing can fail.
    """
    root = ElementTree.Element("testsuites")
    for document in documents:
        wholes = list(overviews(document))
        suites = [_suite(whole.title, "triage", list(_parts(whole))) for whole in wholes]
        for part in () if wholes else sections(document):
            suites.append(_suite(part.title or document["schema"], "triage", list(_checks(part))))
        root.extend(suite for suite in suites if len(suite))
    if not len(root):
        raise UsageError(
            "making the report",
            "as JUnit XML",
            "nothing in it can fail",
            "make a page of it: --output FILE.html",
        )
    return _text(root)


def _parts(whole: Overview) -> Iterator[TestCase]:
    for part in whole.parts:
        bad, left = part.status in BAD, part.status == "skipped"
        told = part.summary or part.status
        yield TestCase(part.title, (told,) if bad else (), told if left else "")


def _checks(part: ReportSection) -> Iterator[TestCase]:
    """What of a result can fail."""
    document = part.document
    if part.kind == "diagnosis":
        for incident in document["incidents"]:
            verdict = incident["verdict"]
            yield TestCase(incident["id"], (f"{verdict['category']}, {verdict['certainty']}",))
        if not document["incidents"]:
            yield TestCase("no incident")
    elif part.kind == "verification":
        yield from _verified(document, part.alone)
    elif part.kind == "bench":
        for layout in document.get("left", ()):  # which an older document lacks
            yield TestCase(layout, skipped="not measured")
    elif part.kind == "patch":
        for patch in document["patches"]:
            yield TestCase(f"{patch['id']}: {patch['state']}")
    elif document["schema"] == "triage.replay/1":
        yield from _replayed(document)
    elif document["schema"] == "triage.hosts-check/1":
        for host in document["hosts"]:
            yield TestCase(host["name"], () if host["error"] is None else (host["error"],))


def _replayed(document: Mapping[str, Any]) -> Iterator[TestCase]:
    """The captured cases of a replay."""
    flips = {flip["name"]: flip["changed"] for flip in document["flips"]}
    for case in document["cases"]:
        told = [f"{one['part']} {one['text']}" for one in case["differences"]]
        for part, changed in flips.get(case["name"], {}).items():
            told.append(f"{part} was {changed['before'] or '-'}, is {changed['now'] or '-'}")
        yield TestCase(case["name"], tuple(told))


def _verified(document: Mapping[str, Any], alone: bool) -> Iterator[TestCase]:
    start = document["start"]
    yield TestCase(
        "it starts and answers", () if start["ready"] else (start["failure"],), seconds=start["seconds"]
    )
    for one in levels(document["metrics"]):
        name = one["level"] if "/" in one["level"] else f"{one['level']} at once"
        yield TestCase(name, tuple(f"{count} x {kind}" for kind, count in one["failures"].items()))
    verdict = document["verdict"]
    worse = verdict == "failed" or (alone and verdict == "worse")
    yield TestCase("the verdict", (f"{verdict}: {document['reason']}",) if worse else ())


def _suite(name: str, of: str, cases: Sequence[TestCase]) -> ElementTree.Element:
    suite = ElementTree.Element(
        "testsuite",
        name=safe(name),
        tests=str(len(cases)),
        failures=str(sum(bool(case.failures) for case in cases)),
        errors="0",
        skipped=str(sum(bool(case.skipped) for case in cases)),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    for case in cases:
        node = ElementTree.SubElement(
            suite, "testcase", classname=of, name=safe(case.name), time=f"{case.seconds:.3f}"
        )
        if case.failures:
            told = [safe(each) for each in case.failures]
            ElementTree.SubElement(node, "failure", message=told[0]).text = "\n".join(told)
        elif case.skipped:
            ElementTree.SubElement(node, "skipped", message=safe(case.skipped))
    return suite


def safe(text: str) -> str:
    """Return a text without what is harmful anywhere and the two characters that XML does not allow."""
    return shown(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _text(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
