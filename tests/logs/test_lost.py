"""What journald says of messages that it did not keep: told, and no traceback goes on behind the hole."""

from __future__ import annotations

import json

import pytest

from tests.evidence.journal import export
from triage.logs import told_by
from triage.logs.model import LogReading, LogSource

SERVICE, JOURNALD = "86bb4fd627ec482db941d570d566d464", "255a0755aaab48be9d41ae8543195fe5"
SUPPRESSED = "Suppressed 225 messages from kimi.service"
FRAMES = [
    "[2026-11-30 02:56:33 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/x/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 3918, in run',
    "    scheduler = Scheduler(",
]
OTHER = "ValueError: of a request, much later"
END = ["[2026-11-30 02:57:33 TP0] Scheduler hit an exception: KeyError: 'w'", "KeyError: 'w'"]
ENTRIES = [
    *(("python", text) for text in FRAMES),
    ("systemd-journald", SUPPRESSED),
    *(("python", text) for text in (OTHER, *END)),
]


def in_short_form() -> bytes:
    return "".join(f"Nov 30 02:56:33 gpu01 {who}[74]: {text}\n" for who, text in ENTRIES).encode()


def fields(who: str, text: str, at: int) -> dict[str, str]:
    journald = who == "systemd-journald"
    return {
        "__REALTIME_TIMESTAMP": str(1_796_007_393_000_000 + at),
        "_TRANSPORT": "driver" if journald else "stdout",
        "_PID": "18" if journald else "74",
        "SYSLOG_IDENTIFIER": who,
        "_SYSTEMD_INVOCATION_ID": JOURNALD if journald else SERVICE,
        "MESSAGE": text,
    }


def in_json() -> bytes:
    return "".join(json.dumps(fields(*entry, at)) + "\n" for at, entry in enumerate(ENTRIES)).encode()


def in_export() -> bytes:
    return export(
        *(
            {name: value.encode() for name, value in fields(*entry, at).items()}
            for at, entry in enumerate(ENTRIES)
        )
    )


def read(data: bytes) -> LogReading:
    return told_by([LogSource("log", data)])


@pytest.mark.parametrize("form", [in_short_form, in_json, in_export])
def test_it_is_told_and_no_traceback_goes_on_behind_it(form):
    told = read(form())
    assert told.lost == {"kimi.service": 225}
    (incident,) = told.incidents
    assert not [
        fault for fault in incident.faults if fault.frames and fault.message.startswith("of a request")
    ]
    without = read(form().replace(SUPPRESSED.encode(), b"Vacuuming done, freed 0B of archived   x"))
    (incident,) = without.incidents
    assert [fault for fault in incident.faults if fault.frames and fault.message.startswith("of a request")]


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("Jan  9 09:18:07 gpu01 journal: Suppressed 7124 messages from /system.slice/kimi.service", 7124),
        (
            "Jan  9 09:18:07 gpu01 systemd-journal[90]: Suppressed 7 messages from /a.slice/kimi.service",
            7,
        ),
        ("2026-01-09T09:18:07+0000 gpu01 systemd-journald[18]: Suppressed 7 messages from kimi.service", 7),
        ("Jan  9 09:18:07 gpu01 python[74]: Suppressed 7124 messages from kimi.service", None),
        ("Jan  9 09:18:07 gpu01 systemd-journald[18]: Suppressed 7 messages from kimi.service, or so", None),
        ("Suppressed 7124 messages from kimi.service", None),
    ],
)
def test_only_journald_is_believed(line: str, lost: int | None):
    told = read(f"{line}\nJan  9 09:18:08 gpu01 python[74]: INFO: all is well\n".encode())
    assert told.lost == ({"kimi.service": lost} if lost else {})
    assert not told.incidents


def test_it_is_found_in_a_large_log_and_added_up():
    healthy = b"Nov 30 02:56:33 gpu01 python[74]: Decode batch, #running-req: 1, token usage: 0.02\n" * 60_000
    line = b"Nov 30 02:56:33 gpu01 systemd-journald[18]: " + SUPPRESSED.encode() + b"\n"
    assert read(healthy + line + healthy + line + healthy).lost == {"kimi.service": 450}


def test_units_without_end_take_no_memory():
    lines = (
        f"Nov 30 02:56:33 gpu01 systemd-journald[18]: Suppressed 9 messages from {number}.service\n"
        for number in range(1000)
    )
    assert len(read("".join(lines).encode()).lost) == 64
