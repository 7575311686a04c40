from __future__ import annotations

from triage.common.wording import counted


def test_one_and_several() -> None:
    assert [counted(number, "host") for number in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert counted(2, "entry", "entries") == "2 entries"
