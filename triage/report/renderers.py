"""The one way from a result to what is printed: a function for each type of result and each format.

A function is named by its module below `triage.report`, which is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

LINES = "text"

RENDERERS: Mapping[str, Mapping[str, str]] = {
    "triage.workflows.diagnose.Report": {LINES: "text.lines", "json": "json.diagnosis"},
    "triage.workflows.fleet.FleetResult": {LINES: "fleet.lines", "json": "fleet.document"},
    "triage.workflows.patch.PatchResult": {LINES: "patching.lines", "json": "patching.document"},
    "triage.workflows.patch.PatchStatus": {
        LINES: "patching.status_lines",
        "json": "patching.status_document",
    },
    "triage.workflows.patch.RebaseResult": {
        LINES: "patching.rebase_lines",
        "json": "patching.rebase_document",
    },
    "triage.workflows.verify_unit.VerifiedUnit": {
        LINES: "verification.unit_lines",
        "json": "verification.unit_document",
    },
    "triage.workflows.bench.Bench": {LINES: "bench.lines", "json": "bench.document"},
    "triage.workflows.links.LinksResult": {LINES: "links.lines", "json": "links.document"},
    "triage.workflows.capture.Captured": {LINES: "cases.captured_lines", "json": "json.capture"},
    "triage.workflows.capture.CaseContents": {LINES: "cases.lines", "json": "json.case"},
    "triage.workflows.verdict_diff.ReplayResult": {LINES: "replay.summary_lines", "json": "replay.document"},
    "triage.workflows.hosts.HostList": {LINES: "hosts.lines", "json": "hosts.document"},
    "triage.workflows.hosts.HostsChecked": {LINES: "hosts.check_lines", "json": "hosts.check_document"},
    "triage.scan.model.ScanResult": {
        LINES: "scan.lines",
        "json": "scan.document",
        "sarif": "sarif.document",
    },
    "triage.verify.history.Listing": {LINES: "history.lines", "json": "history.document"},
    "triage.logs.views.timeline.LogTimelines": {LINES: "timeline.lines", "json": "timeline.document"},
    "triage.evidence.catalogue.policy.Policy": {LINES: "policy.lines", "json": "policy.document"},
    "triage.workflows.rules.RuleList": {LINES: "rules.list_lines", "json": "rules.list_document"},
    "triage.workflows.rules.ExplainedRule": {LINES: "rules.rule_lines", "json": "rules.rule_document"},
    "triage.workflows.rules.RulesMatrix": {LINES: "rules.matrix_lines", "json": "rules.matrix_document"},
    "triage.explain.model.Explained": {LINES: "explained.lines", "json": "explained.document"},
    "triage.playbook.model.Result": {LINES: "playbook.run_lines", "json": "playbook.run_document"},
    "triage.playbook.waves.RollOut": {LINES: "playbook.rollout_lines", "json": "playbook.rollout_document"},
    "triage.playbook.plan.PlannedRun": {LINES: "playbook.plan_lines", "json": "playbook.plan_document"},
}


def lines(result: object) -> Iterator[Text]:
    """A result as lines for people."""
    found: Iterator[Text] = renderer(result, LINES)(result)
    return found


def document(result: object, format: str = "json") -> dict[str, Any]:
    """A result as a document: of a versioned schema of our own, or in another format that is JSON."""
    found: dict[str, Any] = renderer(result, format)(result)
    return found


def renderer(result: object, format: str) -> Callable[[Any], Any]:
    """The function of a result's type for a format. Raises LookupError where there is none."""
    kind = type(result)
    return load(RENDERERS[f"{kind.__module__}.{kind.__qualname__}"][format])


def load(path: str) -> Callable[[Any], Any]:
    module, _, name = path.rpartition(".")
    found: Callable[[Any], Any] = getattr(import_module(f"triage.report.{module}"), name)
    return found
