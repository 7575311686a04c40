"""Who wrote a line, and whether a source tells."""

from __future__ import annotations

import json

import pytest

from triage.logs import read_incidents
from triage.logs.model import LogSource
from triage.logs.reading.reader import read_lines
from triage.logs.requests import SENT

OOM = "Out of memory: Killed process 4711 (python) total-vm:1kB"


def entry(**fields: str) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1778594640000000", "MESSAGE": OOM, **fields})


@pytest.mark.parametrize(
    ("row", "author"),
    [
        (f"May 12 14:01:10 gpu01 kernel: {OOM}", "kernel"),
        (f"May 12 14:01:10 gpu01 kernel: [74889.644138] {OOM}", "kernel"),
        (f"May 12 14:01:10 kernel: {OOM}", "kernel"),
        (f"May 12 14:01:10 gpu01 kernel[4711]: {OOM}", "program"),
        (f"May 12 14:01:10 gpu01 python[4711]: {OOM}", "program"),
        (f"May 12 14:01:10 gpu01 python[4711]: [74889.644138] {OOM}", "program"),
        ("May 12 14:01:10 gpu01 systemd[1]: x", "manager"),
        ("May 12 14:01:10 gpu01 (python)[990]: x", "manager"),
        ("May 12 14:01:10 gpu01 systemd-oomd[900]: x", "manager"),
        (f"[74889.644138] {OOM}", "kernel"),
        (f"kern: warning: [74889.644138] {OOM}", "kernel"),
        (f"(EngineCore pid=7) [74889.644138] {OOM}", "program"),
        (f"2026-05-12T14:01:10.1Z stderr F [74889.644138] {OOM}", "program"),
        (json.dumps({"log": f"[74889.644138] {OOM}\n", "stream": "stderr"}), "program"),
        (entry(SYSLOG_IDENTIFIER="kernel"), "kernel"),
        (entry(SYSLOG_IDENTIFIER="kernel", _TRANSPORT="kernel", _PID="0"), "kernel"),
        (entry(SYSLOG_IDENTIFIER="kernel", _PID="4711"), "program"),
        (entry(SYSLOG_IDENTIFIER="kernel", _TRANSPORT="stdout"), "program"),
        (entry(SYSLOG_IDENTIFIER="systemd", _PID="1"), "manager"),
        (entry(SYSLOG_IDENTIFIER="systemd", _PID="4711", _TRANSPORT="stdout"), "program"),
        (entry(_COMM="python", _PID="4711"), "program"),
        (entry(), ""),
        (OOM, ""),
    ],
)
def test_author(row: str, author: str) -> None:
    (line,) = read_lines(LogSource("log", row.encode()))
    assert line.author == author


ENGINE = [f"[2026-05-12 14:01:1{second}] Load weight begin." for second in range(3)]


@pytest.mark.parametrize(
    ("rows", "doubted"),
    [
        ([f"[74889.644138] {OOM}"], False),
        ([f"May 12 14:01:10 gpu01 kernel: {OOM}"], False),
        ([OOM], True),
        ([*ENGINE, OOM], True),
        ([*ENGINE, f"May 12 14:01:20 gpu01 kernel: {OOM}"], True),
        (
            [
                *(f"May 12 14:01:10 gpu01 python[7]: {row}" for row in ENGINE),
                f"May 12 14:01:20 gpu01 kernel: {OOM}",
            ],
            False,
        ),
        (["Type=simple", "Result=oom-kill", "ActiveState=failed"], False),
        ([*ENGINE, "Result=oom-kill"], True),
        (["x.service: Failed with result 'oom-kill'."], True),
        (["May 12 14:01:10 gpu01 systemd[1]: x.service: Failed with result 'oom-kill'."], False),
    ],
)
def test_what_nobody_signed_is_taken_with_doubt(rows: list[str], doubted: bool) -> None:
    (incident,) = read_incidents([LogSource("log", "\n".join(rows).encode())])
    assert incident.initiator is not None
    assert incident.initiator.type == "oom-kill"
    assert bool(incident.initiator.doubt) is doubted
    assert (incident.initiator.doubt in incident.initiator.because) is doubted


def test_a_service_that_goes_on_is_not_accused_of_what_nobody_signed() -> None:
    log = "\n".join([*ENGINE, OOM, *ENGINE])
    assert read_incidents([LogSource("log", log.encode())]) == ()


@pytest.mark.parametrize(
    "text",
    [
        OOM,
        f"note: {OOM}",
        "x.service: Failed with result 'oom-kill'.",
        "NVRM: Xid (PCI:0000:41:00): 79",
        "Result=oom-kill",
    ],
)
def test_a_service_cannot_speak_as_the_kernel_or_the_service_manager(text: str) -> None:
    for prefix in (
        "May 12 14:01:10 gpu01 python[7]: ",
        "[2026-05-12 14:01:10 TP0] ",
        "(Worker pid=7) ",
        "2026-05-12T14:01:10.1Z stderr F ",
    ):
        assert read_incidents([LogSource("log", f"{prefix}{text}".encode())]) == ()


def test_what_a_user_sent_is_benign_and_apart_from_the_same_fault_of_the_service() -> None:
    traceback = [
        "Traceback (most recent call last):",
        '  File "/x/sglang/srt/a.py", line 1, in f',
        "    g()",
        "ValueError: x",
    ]
    head, *rest = traceback
    rows = [
        *ENGINE,
        "[2026-05-12 14:02:00] Input: why?",
        *traceback,
        f"[2026-05-12 14:02:05 TP0] Scheduler hit an exception: {head}",
        *rest,
    ]
    (incident,) = read_incidents([LogSource("log", "\n".join(rows).encode())])
    assert incident.initiator is not None
    assert (incident.initiator.position.line, incident.initiator.doubt) == (12, "")
    (sent,) = [fault for fault in incident.faults if fault.doubt]
    assert (sent.role, sent.because, sent.position.line) == ("benign", (SENT,), 8)
