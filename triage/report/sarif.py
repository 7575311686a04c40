"""A scan as SARIF 2.1.0, with the patches' edits as fixes."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from triage import __version__
from triage.patching.model import FileEdit, Plan, PlanState, Site
from triage.patching.schema import Patch
from triage.report.safe import safe
from triage.scan.model import REASONS, ScanFinding, ScanResult

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"high": "warning", "medium": "note"}


def document(scan: ScanResult) -> dict[str, Any]:
    """One run: a rule a patch and a kind of finding, a result a site."""
    kinds = [{"id": kind, "shortDescription": {"text": reason}} for kind, reason in REASONS.items()]
    known = [
        {
            "id": patch.id,
            "shortDescription": {"text": patch.title},
            "fullDescription": {"text": patch.explanation or patch.title},
            **({"helpUri": patch.references[0]} if patch.references else {}),
        }
        for patch, _ in scan.plans
    ]
    results = [*_known(scan), *(_finding(item, scan.root) for item in scan.findings)]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "triage", "version": __version__, "rules": [*known, *kinds]}},
                "originalUriBaseIds": {"ROOT": {"uri": _uri(scan.root) + "/"}},
                "results": results,
            }
        ],
    }


def _known(scan: ScanResult) -> Iterator[dict[str, Any]]:
    for patch, plan in scan.plans:
        for site in plan.sites:
            yield _result(patch.id, _level(plan), f"{plan.state.value}: {plan.reason}", site, scan.root) | (
                {"fixes": [_fix(patch, plan, scan.root)]} if plan.edits else {}
            )


def _level(plan: Plan) -> str:
    return "error" if plan.state is PlanState.APPLICABLE else "note"


def _finding(item: ScanFinding, root: str) -> dict[str, Any]:
    return _result(item.kind, _LEVELS[item.confidence], item.reason, item.site, root)


def _result(rule: str, level: str, message: str, site: Site, root: str) -> dict[str, Any]:
    region = {"startLine": site.line, "endLine": site.end_line, "snippet": {"text": safe(site.before)}}
    place = {"physicalLocation": {"artifactLocation": _artifact(site.path, root), "region": region}}
    return {"ruleId": rule, "level": level, "message": {"text": safe(message)}, "locations": [place]}


def _fix(patch: Patch, plan: Plan, root: str) -> dict[str, Any]:
    changes = [
        {"artifactLocation": _artifact(edit.path, root), "replacements": list(_replacements(edit))}
        for edit in plan.edits
    ]
    return {"description": {"text": patch.title}, "artifactChanges": changes}


def _replacements(edit: FileEdit) -> Iterator[dict[str, Any]]:
    old, new = (text.splitlines(keepends=True) for text in (edit.before, edit.after))
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            text = b"".join(new[first:last]).decode("utf-8", "backslashreplace")
            region = {"startLine": start + 1, "startColumn": 1, "endLine": end + 1, "endColumn": 1}
            yield {"deletedRegion": region, "insertedContent": {"text": text}}


def _artifact(path: str, root: str) -> dict[str, str]:
    place = PurePosixPath(path)
    if place.is_relative_to(root):
        return {"uri": quote(bytes(place.relative_to(root))), "uriBaseId": "ROOT"}
    return {"uri": _uri(path)}


def _uri(path: str) -> str:
    return PurePosixPath(path).as_uri() if path.startswith("/") else quote(os.fsencode(path))
