"""JUnit XML of a replay, for CI systems."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from triage.replay import Replayed
from triage.report.safe import safe


def junit(results: Sequence[Replayed]) -> str:
    """One test suite, one test case a captured case, a failure with every difference."""
    failed = sum(bool(result.differences) for result in results)
    seconds = sum(result.seconds for result in results)
    suite = ElementTree.Element(
        "testsuite",
        name="triage replay",
        tests=str(len(results)),
        failures=str(failed),
        errors="0",
        skipped="0",
        time=f"{seconds:.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname="triage.replay", name=safe(result.name), time=f"{result.seconds:.3f}"
        )
        if result.differences:
            told = [safe(f"{difference.part} {difference.text}") for difference in result.differences]
            failure = ElementTree.SubElement(case, "failure", message=told[0])
            failure.text = "\n".join(told)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
