from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.evidence.conftest import ScriptedHost, unit_text
from triage.evidence.catalogue import Journal, TailLog, UnitProperties
from triage.evidence.discovery.output_files import journal_holds_its_words, output_of
from triage.evidence.log_sources import log_sources
from triage.evidence.model import Deployment

UNIT = Deployment(
    "kimi@a.service", unit="kimi@a.service", state="failed", result="signal", invocation="f" * 32
)
SERVICE = "[Service]\nExecStart=/opt/x\n"


def unit(host: ScriptedHost, fragment: str, drop_in: str = "", **properties: object) -> None:
    told = {
        "FragmentPath": "/etc/kimi.service",
        "DropInPaths": "/etc/kimi.d/a.conf" if drop_in else "",
        **properties,
    }
    host.commands[" ".join(UnitProperties(UNIT.unit).argv())] = unit_text(UNIT.unit, **told)
    host.files |= {"/etc/kimi.service": fragment, "/etc/kimi.d/a.conf": drop_in}


@pytest.mark.parametrize(
    ("fragment", "drop_in", "path"),
    [
        (f"{SERVICE}StandardOutput=append:/var/log/kimi.log\n", "", "/var/log/kimi.log"),
        (f"{SERVICE}StandardOutput = file:/var/log/kimi.log\n", "", "/var/log/kimi.log"),
        (
            f"{SERVICE}StandardOutput=truncate:/var/log/o\nStandardError=truncate:/var/log/e\n",
            "",
            "/var/log/e",
        ),
        (
            f"{SERVICE}StandardOutput=append:/var/log/%n-%p-%i-%N-%%.log\n",
            "",
            "/var/log/kimi@a.service-kimi-a-kimi@a-%.log",
        ),
        (
            f"{SERVICE}StandardOutput=append:/var/log/old\n",
            "[Service]\nStandardOutput=append:/var/log/new\n",
            "/var/log/new",
        ),
    ],
)
def test_the_file_that_a_unit_logs_to(host: ScriptedHost, fragment: str, drop_in: str, path: str) -> None:
    unit(host, fragment, drop_in, StandardOutput="append")
    host.files[path] = b"its words \xff\n"
    source = output_of(host.evidence, UNIT, 1)
    assert source is not None
    assert (source.name, source.data, source.last_runs) == (path, b"its words \xff\n", 1)


def test_the_file_that_its_start_script_names(host: ScriptedHost) -> None:
    unit(host, f"{SERVICE}StandardOutput=append:/var/log/unit.log\n", StandardOutput="append")
    started = replace(UNIT, log_file="/var/log/kimi.log")
    host.commands[" ".join(TailLog("/var/log/kimi.log").argv())] = b"its words\n"
    source = output_of(host.evidence, started, 1)
    assert source is not None
    assert (source.name, source.data) == ("/var/log/kimi.log", b"its words\n")


@pytest.mark.parametrize(
    ("fragment", "drop_in", "kind"),
    [
        (SERVICE, "", "journal"),
        (f"{SERVICE}StandardOutput=append:/var/log/old\n", "", "journal"),  # systemd says what counts
        (f"{SERVICE}StandardOutput=append:/var/log/old\n", "[Service]\nStandardOutput=journal\n", ""),
        (f"{SERVICE}StandardOutput=null\n", "", "null"),
    ],
)
def test_a_unit_that_logs_to_no_file(host: ScriptedHost, fragment: str, drop_in: str, kind: str) -> None:
    unit(host, fragment, drop_in, StandardOutput=kind)
    host.files["/var/log/old"] = b"old words\n"
    assert output_of(host.evidence, UNIT, 1) is None


def test_where_the_running_process_writes_counts(host: ScriptedHost) -> None:
    running = Deployment("k", unit="k.service", state="active", main_pid=7)
    host.files |= {"/proc/7/fd/2": "/var/log/redirected\n", "/var/log/redirected": b"words\n"}
    source = output_of(host.evidence, running, 2)
    assert source is not None
    assert (source.name, source.data, source.last_runs) == ("/var/log/redirected", b"words\n", 2)


def test_a_file_that_may_not_be_read_is_named_with_its_command(host: ScriptedHost) -> None:
    unit(host, f"{SERVICE}StandardOutput=append:/var/log/kimi.log\n", StandardOutput="append")
    source = output_of(host.evidence, UNIT, 1)
    assert source is not None
    assert (source.name, source.data) == ("/var/log/kimi.log", b"")
    assert "No such file" in source.missing
    assert source.missing.endswith("-- /var/log/kimi.log")


def journal(*entries: dict[str, str]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def test_who_speaks_in_a_journal() -> None:
    manager = (
        {"SYSLOG_IDENTIFIER": "systemd", "MESSAGE": "Started"},
        {"SYSLOG_IDENTIFIER": "(python)", "MESSAGE": "x"},
    )
    assert not journal_holds_its_words(journal(*manager))
    assert not journal_holds_its_words(b"")
    assert journal_holds_its_words(journal(*manager, {"SYSLOG_IDENTIFIER": "python", "MESSAGE": "x"}))


def test_the_file_is_read_only_where_the_journal_has_no_word_of_the_service(host: ScriptedHost) -> None:
    unit(host, f"{SERVICE}StandardOutput=append:/var/log/kimi.log\n", StandardOutput="append")
    host.files["/var/log/kimi.log"] = b"words\n"
    entry = b"__REALTIME_TIMESTAMP=1000000\nSYSLOG_IDENTIFIER=%s\nMESSAGE=x\n\n"
    command = " ".join(Journal(UNIT.unit, UNIT.invocation).argv())
    for writer, names in ((b"systemd", ["/var/log/kimi.log"]), (b"python", [])):
        host.commands[command] = entry % writer
        names = ["journal of kimi@a.service", *names, "kernel log"]
        assert [source.name for source in log_sources(host.evidence, UNIT)] == names


def test_an_empty_journal_of_a_run_that_failed_is_missing_and_no_end(host: ScriptedHost) -> None:
    unit(host, SERVICE, StandardOutput="journal")
    host.commands[" ".join(Journal(UNIT.unit, UNIT.invocation).argv())] = b""
    host.commands["journalctl"] = b""
    journal, kernel = log_sources(host.evidence, UNIT)
    assert "rotated" in journal.missing
    assert "journalctl --disk-usage" in journal.missing
    assert (kernel.name, kernel.data) == ("kernel log", b"")  # its silence says nothing
    assert "nothing of the time of the run" in kernel.missing
    (asked,) = [argv for argv in host.asked if "_TRANSPORT=kernel" in argv]
    assert "--since=@1795971570" in asked
