"""What is found in windows around the places of a large log is what is found in the whole of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bounds import many
from tests.logs.corpus import cases, sources
from tests.logs.test_hostile import mutations
from triage.logs import read_incidents, repeats
from triage.logs.model import Incident, LogSource
from triage.logs.reading import windows
from triage.logs.reading.places import finder
from triage.logs.reading.reader import read_lines
from triage.logs.requests import Requests
from triage.logs.streams import Streams

PAD = int(float(os.environ.get("TRIAGE_PAD_MB", "0.3")) * (1 << 20))
"""Bytes of healthy lines before, in the middle of, and after a log. More of them: TRIAGE_PAD_MB=4."""

needs_hyperscan = pytest.mark.skipif(finder() is None, reason="needs hyperscan; logs are read whole without")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of a size that pays for logs of less than a megabyte."""
    monkeypatch.setattr(windows, "SMALL", 0)
    monkeypatch.setattr(windows, "HEAD", min(windows.HEAD, PAD // 4))
    monkeypatch.setattr(windows, "STEP", min(windows.STEP, PAD // 16))


def padded(data: bytes, size: int) -> bytes:
    """A log with healthy lines of its own kind around it, and where nothing is being read, be it a traceback
    or a request."""
    find = finder()
    assert find is not None
    rows = data.splitlines(keepends=True)
    calm, healthy = [], {}
    streams, requests = Streams(), Requests()
    for line in read_lines(LogSource("log", data)):
        sent = requests.holds(line)
        list(streams.feed(line))
        raw, text = rows[line.number - 1], line.text.rstrip("\r").encode()
        if streams.quiet() and not sent and raw.endswith(b"\n"):
            calm.append(line.number)
        if len(text) > 3 and raw.count(text) == 1 and (line.head or line.enveloped or line.repeating):
            said = raw.replace(text, b"waiting for requests")
            if find(said) == []:
                healthy.setdefault(line.writer or line.ranks, said)
    many = b"".join(healthy.values()) or b"waiting for requests\n"
    pad = many * (size // len(many) + 1)
    middle = calm[len(calm) // 2] if calm else 0
    return b"".join((pad, *rows[:middle], pad, *rows[middle:], b"" if data.endswith(b"\n") else b"\n", pad))


def in_whole(logs: list[LogSource], monkeypatch: pytest.MonkeyPatch) -> tuple[Incident, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(windows, "finder", lambda: None)
        return read_incidents(logs)


@needs_hyperscan
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_windows_of_a_padded_log(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [LogSource(log.name, padded(bytes(log.data), PAD)) for log in sources(case)]
    assert read_incidents(logs) == in_whole(logs, monkeypatch)


@needs_hyperscan
def test_mutated_logs_in_small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a gap leaves out, nothing breaks, and every fault stands on a line of the log. More of them:
    TRIAGE_FUZZ=100000."""
    for name, value in {"SMALL": 0, "HEAD": 600, "STEP": 500, "PATIENCE": 3}.items():
        monkeypatch.setattr(windows, name, value)
    monkeypatch.setattr(windows, "LEAD", (200, 1))
    monkeypatch.setattr(windows, "TAIL", (200, 1))
    monkeypatch.setattr(repeats, "OFTEN", 2)
    mutations(3, int(os.environ.get("TRIAGE_FUZZ", many(150))))
