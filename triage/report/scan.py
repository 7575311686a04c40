"""A scan as text and as `triage.scan/1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from triage.common.wording import counted
from triage.patching.model import PlanState
from triage.report.safe import safe_line
from triage.scan.model import ScanFinding, ScanResult


def lines(scan: ScanResult) -> Iterator[Text]:
    """Known defects first, with what fixes them; then the places of the class."""
    for patch, plan in scan.plans:
        style = "bold yellow" if plan.state is PlanState.APPLICABLE else "bold"
        yield Text.assemble((patch.id, "bold"), ": ", (plan.state.value, style))
        yield Text(f"  {safe_line(patch.title)}", "dim")
        yield Text(f"  {safe_line(plan.reason)}")
        for site in plan.sites:
            yield Text(f"  {safe_line(site.path)}:{site.line}", "dim")
    for item in scan.findings:
        yield Text.assemble((item.kind, "bold"), f" ({item.confidence}): {item.reason}")
        yield Text(f"  {safe_line(item.site.path)}:{item.site.line} in {safe_line(item.where)}", "dim")
        yield Text(f"    {safe_line(item.site.before.strip().splitlines()[0])}")
    for path, why in scan.unread:
        yield Text(f"not read: {safe_line(path)}: {safe_line(why)}", "yellow")
    known, places = len(scan.plans), len(scan.findings)
    more = f"{counted(places, 'place')} more that {'assumes' if places == 1 else 'assume'} the whole model"
    yield Text(f"{counted(scan.files, 'file')}: {counted(known, 'known defect')}, {more}")


def document(scan: ScanResult) -> dict[str, Any]:
    """`triage.scan/1`."""
    from triage.report.patching import plan_document

    return {
        "schema": "triage.scan/1",
        "target": scan.target,
        "root": scan.root,
        "files": scan.files,
        "patches": [plan_document(patch, plan) for patch, plan in scan.plans],
        "findings": [_finding(item) for item in scan.findings],
        "unread": [{"path": path, "reason": why} for path, why in scan.unread],
    }


def _finding(item: ScanFinding) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "confidence": item.confidence,
        "reason": item.reason,
        "path": item.site.path,
        "line": item.site.line,
        "end_line": item.site.end_line,
        "where": item.where,
        "code": item.site.before,
    }
