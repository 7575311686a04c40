"""`triage.diagnosis/1`: its names are fixed, and other programs rely on them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.report.test_text import CONFIRMED, FIRST, KNOWLEDGE, STORY_INCIDENT, SURE, UNKNOWN, report
from tests.rules.world import incident
from triage.evidence.recorded import LogEvidence
from triage.logs.model import Fault, Frame
from triage.logs.reading.load import open_log
from triage.report import json as rendered
from triage.workflows import diagnose
from triage.workflows.capture import Captured
from triage.workflows.diagnose import Report
from triage.workflows.replay import Difference, Replayed
from triage.workflows.unit_record import Restarts

ROOT = Path(__file__).resolve().parents[2]

# The names as they were promised. More may be added; none may go or change its type.
TEXT, NUMBER, FLAG, NONE = str, int, bool, type(None)
FRAME = {"file": TEXT, "line": NUMBER, "function": TEXT, "code": TEXT}
POSITION = {"source": TEXT, "line": NUMBER, "cursor": (TEXT, NONE)}
FAULT = {
    "type": TEXT, "message": TEXT, "ranks": [TEXT], "pid": (NUMBER, NONE), "time": (TEXT, NONE),
    "frame": (FRAME, NONE), "position": POSITION, "kind": TEXT, "frames": [FRAME], "because": [TEXT],
    "chain": [{"link": TEXT, "type": TEXT, "message": TEXT}], "members": [{"type": TEXT, "message": TEXT}],
    "count": NUMBER, "doubt": TEXT,
}  # fmt: skip
DIAGNOSIS = {
    "rule": TEXT, "category": TEXT, "role": TEXT, "outcome": TEXT, "title": TEXT, "explanation": TEXT,
    "evidence": [{
        "kind": TEXT, "result": TEXT, "detail": TEXT, "command": TEXT,
        "excerpts": [{"path": TEXT, "lines": [{"line": NUMBER, "text": TEXT, "meant": FLAG}]}],
        "table": ({"columns": [TEXT], "rows": [[TEXT]]}, NONE),
    }],
    "remedies": [{
        "kind": TEXT, "id": TEXT, "summary": TEXT, "command": TEXT, "cost": TEXT, "proof": TEXT,
        "helps": (FLAG, NONE),
    }],
}  # fmt: skip
REPORT = {
    "schema": TEXT,
    "source": {"kind": TEXT, "name": TEXT},
    "deployment": {
        "engine": TEXT, "version": TEXT, "unit": TEXT, "state": TEXT, "arguments": {}, "python": TEXT,
        "layout": {"tp": NUMBER, "pp": NUMBER, "dp": NUMBER, "ep": NUMBER},
        "package_root": TEXT, "disagreements": [TEXT],
    },
    "incidents": [{
        "id": TEXT, "fingerprint": TEXT, "started": (TEXT, NONE), "ended": (TEXT, NONE),
        "silent_ranks": [TEXT], "initiator": (FAULT, NONE), "candidates": [FAULT],
        "faults": [{"role": TEXT, **FAULT}], "diagnoses": [DIAGNOSIS],
        "verdict": {"category": TEXT, "certainty": TEXT, "basis": TEXT},
        "families": [{
            "family": TEXT, "category": TEXT, "title": TEXT, "weight": NUMBER, "seen": [TEXT],
            "look": [{"summary": TEXT, "command": TEXT}],
        }],
    }],
    "outcome": TEXT, "health": [TEXT],
    "suspicious": [{"source": TEXT, "number": NUMBER, "text": TEXT, "worth": NUMBER}],
    "restarts": ({"count": NUMBER, "since": TEXT, "last": TEXT, "result": TEXT, "loop": FLAG}, NONE),
    "others": [{"name": TEXT, "state": TEXT}],
    "notes": [TEXT],
}  # fmt: skip


def check(value: Any, shape: Any, where: str) -> None:
    """Is the value of this shape? A mapping may have more keys than its shape."""
    if isinstance(shape, tuple):
        if value is None and NONE in shape:
            return
        shape = shape[0]
    if isinstance(shape, Mapping):
        assert isinstance(value, Mapping), where
        for name, inner in shape.items():
            assert name in value, f"{where} has no {name}"
            check(value[name], inner, f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for number, each in enumerate(value):
            check(each, shape[0], f"{where}.{number}")
    else:
        assert type(value) is shape, f"{where} is {value!r}"


def loaded(of: Report) -> Any:
    text = rendered.dumps(rendered.diagnosis(of))
    assert text.isascii()
    return json.loads(text)


CARRIER = dataclasses.replace(FIRST, chain=(dataclasses.replace(FIRST, link="cause"),), members=(FIRST,))
FULL = report(
    dataclasses.replace(STORY_INCIDENT, initiator=CARRIER, candidates=(FIRST,)),
    others=(report().deployment,),
    restarts=Restarts(3, "2026-05-12T14:03:50+00:00", "2026-05-12T14:03:59+00:00", "signal", True),
    notes=("cut",),
)


def test_every_name_is_there() -> None:
    shown = loaded(FULL)
    check(shown, REPORT, "report")
    check(shown["incidents"][0]["initiator"], FAULT, "initiator")
    check(shown["incidents"][0]["initiator"]["frame"], FRAME, "frame")
    assert shown["schema"] == "triage.diagnosis/1"


def test_the_values() -> None:
    (shown,) = loaded(FULL)["incidents"]
    first = shown["initiator"]
    assert (first["type"], first["ranks"], first["time"]) == (
        "IndexError",
        ["PP2", "PP3"],
        "2026-05-12T14:03:59",
    )
    assert first["frame"]["line"] == 120
    assert first["position"] == {"source": "journal of kimi.service", "line": 156, "cursor": None}
    assert first["chain"][0]["link"] == "cause"
    assert [fault["role"] for fault in shown["faults"]] == ["initiator", "victim", "benign"]
    assert shown["silent_ranks"] == ["PP0", "PP1"]
    assert shown["verdict"] == {"category": "pp-rank-assumption", "certainty": "confirmed", "basis": "rule"}
    best = shown["diagnoses"][0]
    assert [step["result"] for step in best["evidence"]].count("missing") == 2
    assert best["evidence"][1]["excerpts"][0]["lines"][1] == {"line": 120, "text": "  x[0]", "meant": True}
    assert best["evidence"][5]["table"]["rows"] == [["PP0", ""], ["PP11", "raised"]]
    assert [remedy["helps"] for remedy in best["remedies"]] == [False, None, True]


def test_the_order_of_the_engine_is_kept() -> None:
    second = dataclasses.replace(CONFIRMED, rule="a-first-by-name")
    (shown,) = loaded(report(diagnoses=(CONFIRMED, second)))["incidents"]
    assert [item["rule"] for item in shown["diagnoses"]] == [CONFIRMED.rule, "a-first-by-name"]


def test_nothing_happened() -> None:
    assert loaded(report(incidents=()))["incidents"] == []


def test_nothing_explains_it() -> None:
    (shown,) = loaded(report(diagnoses=(), verdict=UNKNOWN))["incidents"]
    assert shown["initiator"]["type"] == "IndexError"
    assert (shown["diagnoses"], shown["verdict"]["certainty"]) == ([], "unknown")
    assert shown["fingerprint"]


def test_the_log_does_not_decide() -> None:
    (shown,) = loaded(report(incident(None, FIRST, candidates=(FIRST,)), verdict=SURE))["incidents"]
    assert (shown["initiator"], len(shown["candidates"])) == (None, 1)


def test_a_zone_is_kept_where_there_is_one() -> None:
    at = datetime(2026, 5, 12, 14, 3, 59, 500_000, tzinfo=timezone.utc)
    (shown,) = loaded(report(incident(dataclasses.replace(FIRST, time=at))))["incidents"]
    assert shown["initiator"]["time"] == "2026-05-12T14:03:59.500000+00:00"
    assert datetime.fromisoformat(shown["initiator"]["time"]) == at


def test_text_is_as_it_stood() -> None:
    odd = "\x1b[31m\u202e\ud800[bold]\n世界\x00"
    (shown,) = loaded(report(incident(dataclasses.replace(FIRST, message=odd))))["incidents"]
    assert shown["initiator"]["message"] == odd


@pytest.mark.parametrize(
    ("model", "rendering", "elsewhere"),
    [
        (Frame, FRAME, set()),
        (Fault, FAULT, {"role", "header", "link", "cut"}),
    ],
)
def test_a_field_of_the_model_is_not_forgotten(model: Any, rendering: Any, elsewhere: set[str]) -> None:
    """A new field is either in the document or said here to be left out."""
    assert {field.name for field in dataclasses.fields(model)} - elsewhere == set(rendering)


@pytest.mark.parametrize("case", sorted((ROOT / "tests/corpus").glob("*-pp*")), ids=lambda case: case.name)
def test_real_logs_have_the_same_names(case: Path) -> None:
    logs = [open_log(str(path)) for path in sorted(case.iterdir()) if path.name != "expected.yaml"]
    check(loaded(diagnose.diagnose(LogEvidence(case.name), KNOWLEDGE, "", *logs)), REPORT, "report")


# The others.


def test_replay() -> None:
    results = [
        Replayed("a", 0.1, ()),
        Replayed("b", 0.1, (Difference("rule", "is x, expected y"),)),
    ]
    shown = rendered.replay(results)
    assert (shown["schema"], shown["failed"]) == ("triage.replay/1", 1)
    assert [(case["name"], case["passed"]) for case in shown["cases"]] == [("a", True), ("b", False)]
    assert shown["cases"][1]["differences"] == [{"part": "rule", "text": "is x, expected y"}]


def test_capture() -> None:
    assert rendered.capture(Captured(Path("/tmp/case"), 12, 3)) == {
        "schema": "triage.capture/1", "directory": "/tmp/case", "answered": 12, "missing": 3,
    }  # fmt: skip


def test_the_documentation_names_what_there_is() -> None:
    """Each key that docs/json.md names for a diagnosis is one of the document."""
    text = (ROOT / "docs" / "json.md").read_text()
    table = text.partition("## `triage.diagnosis/1`")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| .*?`\.?([a-z_.\[\]]+)`", table, re.MULTILINE))
    assert len(named) > 10
    document = json.dumps(loaded(FULL))
    for path in named:
        for name in re.split(r"[.\[\]]+", path):
            assert not name or f'"{name}"' in document, path
