from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.evidence.catalogue import Journal, KernelLog, UnitRuns
from triage.evidence.catalogue.journal import COREDUMP, STARTED, read_export
from triage.evidence.model import Unanswered
from triage.hosts import Output

Ask = Callable[..., Any]
RUN = "c915d3cfd26845938b76a4178eaab2e1"


def export(*entries: dict[str, bytes], binary: bool = False) -> bytes:
    """Entries in export form, each value binary if asked for or needed."""
    out = b""
    for entry in entries:
        for name, value in entry.items():
            if binary or b"\n" in value or not value.isascii():
                out += name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
            else:
                out += name.encode() + b"=" + value + b"\n"
        out += b"\n"
    return out


def lines(text: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_as_journald_252_exports_it(ask: Ask) -> None:
    entries = lines(ask(Journal("sglang-kimi.service", RUN), "journal"))
    told = [entry["MESSAGE"] for entry in entries]
    assert told[0] == "Started sglang-kimi.service - SGLang."
    assert told[-1] == "sglang-kimi.service: Failed with result 'signal'."
    assert [entry["_PID"] for entry in entries if "_SYSTEMD_INVOCATION_ID" in entry] == ["238"] * 3
    long = next(text for text in told if "server_args" in text)
    assert len(long) > 5000  # journalctl -o json would have given null
    assert list(entries[0])[:2] == ["__CURSOR", "__REALTIME_TIMESTAMP"]
    assert entries[0]["INVOCATION_ID"] == entries[1]["_SYSTEMD_INVOCATION_ID"] == RUN


def test_bytes_that_are_no_text_come_as_escapes(ask: Ask) -> None:
    entries = lines(ask(Journal("sglang-kimi.service", RUN), "journal"))
    assert "bad \\xff utf8 \x1b[31mred\x1b[0m" in [entry["MESSAGE"].rstrip("\r") for entry in entries]


def test_every_value_survives_both_forms() -> None:
    entry = {"__REALTIME_TIMESTAMP": b"5", "_PID": b"7", "MESSAGE": b"two\nlines = \x00\r\x1b"}
    for binary in (False, True):
        assert list(read_export(export(entry, entry, binary=binary))) == [entry, entry]


def test_a_field_that_repeats_keeps_its_values() -> None:
    assert list(read_export(b"MESSAGE=a\nMESSAGE=b\n\n")) == [{"MESSAGE": b"a\nb"}]


def test_an_entry_that_was_cut_is_left_out_and_said(ask: Ask) -> None:
    whole = export({"MESSAGE": b"one"}, {"MESSAGE": b"two\n\x00"})
    for size in range(len(export({"MESSAGE": b"one"})), len(whole) - 2):
        output = Output(None, whole[:size], cut="bytes")
        assert [entry["MESSAGE"] for entry in lines(Journal("u", RUN).decode(output))] == ["one"]


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    list(read_export(data))
    for query in (Journal("u", RUN), Journal("u"), KernelLog(0, 1), UnitRuns("u")):
        query.parse(query.decode(Output(0, data)))


def test_core_dumps_of_other_runs_are_left_out(ask: Ask) -> None:
    dump = {"MESSAGE_ID": COREDUMP.encode(), "COREDUMP_UNIT": b"u", "MESSAGE": b"Process 7 dumped core."}
    own = {"_SYSTEMD_INVOCATION_ID": RUN.encode(), "MESSAGE": b"own"}
    data = export(
        {**dump, "__REALTIME_TIMESTAMP": b"1000000", "MESSAGE": b"dump before"},
        {**own, "__REALTIME_TIMESTAMP": b"500000000"},
        {**dump, "__REALTIME_TIMESTAMP": b"501000000"},
        {**dump, "__REALTIME_TIMESTAMP": b"900000000", "MESSAGE": b"dump much later"},
    )
    told = [entry["MESSAGE"] for entry in lines(ask(Journal("u", RUN), stdout=data))]
    assert told == ["own", "Process 7 dumped core."]


def test_what_a_journal_query_asks_for() -> None:
    argv = Journal("a.service", RUN).argv()
    assert f"_SYSTEMD_INVOCATION_ID={RUN}" in argv
    assert f"INVOCATION_ID={RUN}" in argv
    assert f"OBJECT_SYSTEMD_INVOCATION_ID={RUN}" in argv  # journald's words on it
    assert "--all" in argv
    assert "--quiet" not in argv  # it would hide that entries were left out for want of permission


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (1, b"No journal files were opened due to insufficient permissions.\n"),
        (0, b"Hint: You are currently not seeing messages from other users and the system.\n"),
    ],
)
def test_without_permission_there_is_no_answer_but_the_privilege(ask: Ask, code: int, told: bytes) -> None:
    for query in (Journal("u", RUN), KernelLog(0, 1), UnitRuns("u")):
        with pytest.raises(Unanswered, match="systemd-journal"):
            ask(query, code=code, stderr=told)


def test_runs_of_a_service_that_keeps_dying(ask: Ask) -> None:
    first, second = ask(UnitRuns("crashloop.service"), "unit-runs")
    assert first.invocation == "eeadb9684d184a339adb59ab7d542701"
    assert (first.started, first.ended, first.result) == (
        "2026-11-29T17:28:09+00:00",
        "2026-11-29T17:28:10+00:00",
        "signal",
    )
    assert second.result == "signal"


def test_a_run_that_was_stopped(ask: Ask) -> None:
    (run,) = ask(UnitRuns("vllm.service"), "unit-runs-vllm")
    assert run.result == "success"


@pytest.mark.parametrize(
    "said",
    [
        "Condition check resulted in SGLang being skipped.",  # systemd 247
        "a.service - SGLang was skipped because of an unmet condition check (ConditionUser=x).",  # 252
        "a.service was skipped because no trigger condition checks were met.",
        "a.service skipped, unmet condition check ConditionPathExists=/srv/models ready",  # 257
        "Assertion failed for a.service - SGLang.",
    ],
)
def test_a_start_that_was_skipped_is_no_run_and_counts_while_it_is_the_last(ask: Ask, said: str) -> None:
    start = {"MESSAGE_ID": STARTED.encode(), "INVOCATION_ID": RUN.encode(), "MESSAGE": b"Started skipped x."}
    skip = {**start, "MESSAGE": said.encode()}  # a unit keeps the invocation of its last run
    run, last = ask(UnitRuns("a.service"), stdout=export(start, skip))
    assert (run.invocation, last.invocation, last.skipped) == (RUN, "", said.rstrip("."))
    (run,) = ask(UnitRuns("a.service"), stdout=export(skip, start))
    assert (run.invocation, run.skipped) == (RUN, "")
