"""Timelines and records as they are shown: order, marks, limits, and nothing that steers a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from triage.logs.model import Fault, Incident, LogSource, Phase, Position, Record
from triage.logs.views.timeline import LogTimelines, Timeline, timelines
from triage.report.timeline import SHOWN, document, lines, record_line, records_json

AT = datetime(2026, 5, 12, 14, 3, 59)
SECOND = timedelta(seconds=1)


def fault(type: str, time: datetime | None = AT, role: str = "victim", **more: object) -> Fault:
    return Fault("exception", type, "", Position("log", 1), time=time, role=role, **more)  # type: ignore[arg-type]


def incident(*faults: Fault, **more: object) -> Incident:
    first = next((each for each in faults if each.role == "initiator"), None)
    return Incident("id", "f1", AT, AT, first, faults, **more)  # type: ignore[arg-type]


def shown(*incidents: Incident) -> list[str]:
    return [line.plain for line in lines(LogTimelines(timelines(incidents, str)))]


def roles(of: Incident) -> list[str]:
    (timeline,) = timelines([of], str)
    return [entry.text if entry.role == "phase" else entry.role for entry in timeline.entries]


FIRST = fault("IndexError", role="initiator", ranks=frozenset({"PP3", "PP10"}))


def test_phases_stand_where_they_were():
    phases = (Phase("load", AT - SECOND), Phase("pool", AT), Phase("graph", AT), Phase("ready", AT + SECOND))
    of = incident(
        fault("Early", AT - SECOND, "benign"), FIRST, fault("Late", AT + SECOND), phases=phases, phase="pool"
    )
    assert roles(of) == ["load", "benign", "pool", "initiator", "graph", "victim", "ready"]


def test_phases_of_a_log_without_times():
    phases = (Phase("load", None), Phase("pool", None), Phase("graph", None))
    of = incident(replace(FIRST, time=None), fault("Late", None), phases=phases, phase="pool")
    assert roles(of) == ["load", "pool", "initiator", "victim", "graph"]


def test_clocks_that_cannot_be_compared():
    zoned = replace(FIRST, time=AT.replace(tzinfo=timezone.utc))
    assert roles(incident(zoned, phases=(Phase("load", AT),), phase="load")) == ["load", "initiator"]


def test_who_came_first_is_marked():
    rows = shown(incident(FIRST, fault("EOFError", count=7)))
    assert rows == [
        "RUN 1 of 1  2026-05-12 14:03:59 to 14:03:59 · f1",
        "  14:03:59  PP3, PP10  ▶ initiator  IndexError",
        "  14:03:59               victim     EOFError  (7 times)",
    ]


def test_candidates_are_marked():
    one, other = fault("EOFError"), fault("BrokenPipeError")
    rows = shown(incident(one, other, candidates=(one,)))
    assert [row.split()[1:3] for row in rows[1:3]] == [["?", "candidate"], ["victim", "BrokenPipeError"]]
    assert rows[-1] == "  the log does not decide which of those marked ? came first"


def test_many_ranks_are_counted_and_many_entries_too():
    many = [
        fault(f"Error{number}", ranks=frozenset(f"TP{n}" for n in range(8))) for number in range(SHOWN + 5)
    ]
    rows = shown(incident(FIRST, *many))
    assert len(rows) == SHOWN + 2
    assert "8 ranks" in rows[2]
    assert rows[-1] == "  ... and 6 more: --format json has them all"
    (run,) = document(LogTimelines(timelines([incident(FIRST, *many)], str)))["incidents"]
    assert len(run["entries"]) == SHOWN + 6


def test_days_are_told_where_there_are_several():
    rows = shown(incident(fault("Early", AT - timedelta(days=1), "benign"), FIRST))
    assert rows[1].startswith("  05-11 14:03:59  ")


def test_what_the_log_said_of_the_deployment():
    of = incident(
        FIRST, facts={"engine": "sglang", "version": "0.5.11", "pp_size": "8", "tp_size": "1"}, count=3
    )
    assert shown(of)[0].startswith("RUN 1 of 1  sglang 0.5.11 · pp8 · ")
    assert "failed 3 times alike" in shown(of)[0]


def test_nothing_to_tell():
    assert shown() == ["No incident: the log holds no fault."]


@given(st.text(), st.text())
def test_nothing_steers_a_terminal(message: str, name: str):
    of = incident(
        replace(FIRST, message=message, ranks=frozenset({name})), facts={"engine": name}, silent_ranks=(name,)
    )
    rows = [
        *shown(of),
        record_line(Record(AT, None, frozenset({name}), name, "", message, Position("l", 1)), []),
    ]
    assert not [
        c for row in rows for c in row if c < " " or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066\u2028"
    ]


def test_everything_shown_is_redacted():
    of = incident(replace(FIRST, message="secret here"), phases=(Phase("secret", AT),), phase="secret")
    (timeline,) = timelines([of], lambda text: text.replace("secret", "<token>"))
    assert [entry.text for entry in timeline.entries] == ["<token>", "IndexError: <token> here"]


def test_records_are_json_however_many():
    record = Record(AT, 7, frozenset({"TP1", "PP3"}), "ERROR", "x", "a\x1b\u202e\n", Position("log", 3, "c"))
    for count in range(3):
        parsed = json.loads("".join(records_json([record] * count)))
        assert parsed["schema"] == "triage.records/1"
        assert len(parsed["records"]) == count
    assert parsed["records"][0] == {
        "time": "2026-05-12T14:03:59",
        "ranks": ["PP3", "TP1"],
        "pid": 7,
        "level": "ERROR",
        "identifier": "x",
        "text": "a\x1b\u202e\n",
        "position": {"source": "log", "line": 3, "cursor": "c"},
    }
    assert "".join(records_json([record])).isascii()


def test_the_file_is_named_where_there_are_several():
    record = Record(None, None, frozenset(), "", "", "text", Position("/a/node1.log", 3))
    two = [LogSource("/a/node0.log", b""), LogSource("/a/node1.log", b"")]
    assert record_line(record, two[:1]).split() == ["-", "text"]
    assert record_line(record, two).split() == ["node1.log", "-", "text"]


def test_the_timeline_as_json():
    found: tuple[Timeline, ...] = timelines(
        [incident(FIRST, phases=(Phase("load", AT, ("PP0",)),), phase="load")], str
    )
    assert json.loads(json.dumps(document(LogTimelines(found, ("cut",))))) == {
        "schema": "triage.timeline/1",
        "incidents": [
            {
                "id": "id",
                "fingerprint": "f1",
                "started": "2026-05-12T14:03:59",
                "ended": "2026-05-12T14:03:59",
                "count": 1,
                "facts": {},
                "silent_ranks": [],
                "entries": [
                    {"time": "2026-05-12T14:03:59", "ranks": ["PP0"], "role": "phase", "text": "load"},
                    {
                        "time": "2026-05-12T14:03:59",
                        "ranks": ["PP3", "PP10"],
                        "role": "initiator",
                        "text": "IndexError",
                        "count": 1,
                        "because": [],
                        "position": {"source": "log", "line": 1},
                    },
                ],
            }
        ],
        "notes": ["cut"],
    }
