from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.common.errors import UnreachableError
from triage.evidence.catalogue import Journal, JournalAccess, NamespaceJournal, UnitRuns
from triage.evidence.live import LiveEvidence
from triage.evidence.log_sources import KERNEL, log_sources
from triage.evidence.model import Deployment
from triage.hosts import Output, open_connection

RECORDED = Path(__file__).parent / "catalogue" / "recorded"
RUN = "c915d3cfd26845938b76a4178eaab2e1"
UNIT = Deployment("kimi.service", manager="systemd", unit="kimi.service", state="failed", invocation=RUN)


def journal(host: ScriptedHost, run: str, answer: bytes | Output) -> None:
    host.commands[" ".join(Journal("kimi.service", run).argv())] = answer


def test_the_journal_of_the_run_and_the_kernel_of_its_time(host: ScriptedHost) -> None:
    journal(host, RUN, (RECORDED / "journal").read_bytes())
    host.commands["journalctl"] = b"__REALTIME_TIMESTAMP=1795972538000000\nMESSAGE=Out of memory: Killed\n\n"
    service, kernel = log_sources(host.evidence, UNIT)
    assert (service.name, kernel.name) == ("journal of kimi.service", "kernel log")
    assert json.loads(service.data.splitlines()[0])["MESSAGE"].startswith("Started")
    assert b"Out of memory" in kernel.data
    (asked,) = [argv for argv in host.asked if "_TRANSPORT=kernel" in argv]
    assert "--since=@1795972507" in asked
    assert "--until=@1795972568" in asked


APART = replace(UNIT, log_namespace="models")


def test_the_journal_of_a_namespace_is_read_beside_the_systems(host: ScriptedHost) -> None:
    asked = NamespaceJournal("kimi.service", RUN, "models").argv()
    host.commands |= {" ".join(asked): (RECORDED / "journal").read_bytes(), "journalctl": b""}
    (service,) = log_sources(host.evidence, APART)
    assert b"server_args" in service.data
    assert "--namespace=+models" in asked
    assert {"--namespace=+models" in argv for argv in host.asked if "journal-windows" in argv} == {True}


def test_a_journalctl_that_knows_no_namespaces_says_so(host: ScriptedHost) -> None:
    apart = " ".join(NamespaceJournal("kimi.service", RUN, "models").argv())
    host.commands[apart] = Output(1, b"", b"journalctl: unrecognized option '--namespace=+models'\n")
    journal(host, RUN, (RECORDED / "journal").read_bytes())
    host.commands["journalctl"] = b""
    unread, service = log_sources(host.evidence, APART)
    assert unread.name == "journal of kimi.service in namespace models"
    assert "older than systemd 245" in unread.missing
    assert service.data


def test_a_kernel_log_that_cannot_be_read_says_why(host: ScriptedHost) -> None:
    journal(host, RUN, (RECORDED / "journal").read_bytes())
    run, kernel = log_sources(host.evidence, UNIT)
    assert run.data
    assert not run.missing
    assert (kernel.name, kernel.data) == (KERNEL, b"")
    assert kernel.missing


def test_an_empty_kernel_log_is_left_out(host: ScriptedHost) -> None:
    journal(host, RUN, (RECORDED / "journal").read_bytes())
    host.commands["journalctl"] = b""
    assert len(log_sources(host.evidence, UNIT)) == 1


def test_a_journal_that_may_not_be_read(host: ScriptedHost) -> None:
    denied = b"No journal files were opened due to insufficient permissions.\n"
    journal(host, RUN, Output(1, b"", denied))
    with pytest.raises(UnreachableError) as caught:
        log_sources(host.evidence, UNIT)
    assert "systemd-journal" in caught.value.happened
    assert "usermod -aG systemd-journal" in caught.value.next
    assert "--become" in caught.value.next


ACCESS = " ".join(JournalAccess().argv())
HINT = b"Hint: You are currently not seeing messages from other users and the system.\n"


def test_a_journal_of_ones_own_is_not_the_systems(host: ScriptedHost) -> None:
    host.commands |= {"journalctl": b"", ACCESS: Output(0, b"-- No entries --\n", HINT)}
    for result in ("exit-code", "success"):
        with pytest.raises(UnreachableError) as caught:
            log_sources(host.evidence, replace(UNIT, result=result))
        assert "may not read the system's journal" in caught.value.happened
        assert "usermod -aG systemd-journal" in caught.value.next


def test_a_kernel_log_without_a_line_proves_nothing_to_who_may_not_read_it(host: ScriptedHost) -> None:
    """A system unit that runs as the user who asks: its words stand in that user's own journal."""
    own = b"__REALTIME_TIMESTAMP=1795972537000000\nMESSAGE=hello\nSYSLOG_IDENTIFIER=python\n\n"
    journal(host, RUN, own)
    host.commands |= {"journalctl": b"", ACCESS: Output(0, b"-- No entries --\n", HINT)}
    run, kernel = log_sources(host.evidence, UNIT)
    assert b"hello" in run.data
    assert (kernel.name, kernel.data) == (KERNEL, b"")
    assert "may not read the system's journal" in kernel.missing
    host.commands[ACCESS] = b"Started something\n"
    assert len(log_sources(host.evidence, UNIT)) == 1


def test_a_journal_that_cannot_be_read_for_another_reason_names_the_command(host: ScriptedHost) -> None:
    journal(host, RUN, Output(1, b"", b"Failed to open files: Input/output error\n"))
    with pytest.raises(UnreachableError, match="Input/output") as caught:
        log_sources(host.evidence, UNIT)
    assert caught.value.next.startswith("journalctl ")


def test_a_journal_without_a_line_is_not_a_healthy_one(host: ScriptedHost) -> None:
    journal(host, RUN, b"")
    with pytest.raises(UnreachableError, match=RUN) as caught:
        log_sources(host.evidence, UNIT)
    assert "--log" in caught.value.next


def test_a_cut_journal_is_marked(host: ScriptedHost) -> None:
    journal(host, RUN, Output(None, (RECORDED / "journal").read_bytes()[:-50], cut="bytes"))
    assert log_sources(host.evidence, UNIT)[0].partial == "bytes"


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (Output(None, b"y\n" * 600_000, cut="bytes"), "printed 1 MiB and more, and no entry of a journal"),
        (Output(None, b"", cut="time"), "no answer within 120 s"),
    ],
)
def test_a_journalctl_that_never_ends_is_asked_once_and_says_nothing_of_the_run(
    host: ScriptedHost, output: Output, why: str
) -> None:
    host.commands |= {"sh -c": output, "journalctl": output}
    with pytest.raises(UnreachableError, match=why):
        log_sources(host.evidence, UNIT)
    assert len([argv for argv in host.asked if "journal-windows" in argv or argv[0] == "journalctl"]) == 1


def test_of_a_service_that_restarts_the_run_that_failed_comes_first(host: ScriptedHost) -> None:
    host.commands[" ".join(UnitRuns("kimi.service").argv())] = (RECORDED / "unit-runs").read_bytes()
    failed, now = "0e65b234759a44ee938acecbe1236b35", "f" * 32
    journal(host, failed, b"__REALTIME_TIMESTAMP=1000000\nMESSAGE=failed run\n\n")
    journal(host, now, b"__REALTIME_TIMESTAMP=2000000\nMESSAGE=present run\n\n")
    looping = Deployment("k", unit="kimi.service", state="activating", restarts=3, invocation=now)
    first, second, _ = log_sources(host.evidence, looping)
    assert b"failed run" in first.data
    assert b"present run" in second.data


def test_a_process_that_logs_to_a_file(host: ScriptedHost) -> None:
    host.files |= {"/proc/241/fd/2": "/var/log/a b.log\n", "/var/log/a b.log": b"line \xff\n"}
    source, kernel = log_sources(host.evidence, Deployment("pid 241", manager="process", main_pid=241))
    assert (source.name, source.data) == ("/var/log/a b.log", b"line \xff\n")
    assert (kernel.name, kernel.data) == (KERNEL, b"")
    assert kernel.missing.startswith("when the run failed is not known")


def test_a_log_file_that_was_deleted_while_its_process_writes_to_it(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(["sh", "-c", "echo words >&2; exec sleep 60"], stderr=file) as process,
    ):
        try:
            while not log.stat().st_size:
                time.sleep(0.01)
            log.unlink()
            evidence = LiveEvidence(open_connection("local"))
            source, _ = log_sources(evidence, Deployment("pid 1", manager="process", main_pid=process.pid))
        finally:
            process.kill()
    assert (source.name, source.data) == (f"/proc/{process.pid}/fd/2", b"words\n")
    assert "was deleted" in source.notes[0]


@pytest.mark.parametrize("target", ["/dev/pts/3\n", "pipe:[1234]\n", "/memfd:x (deleted)\n"])
def test_a_process_that_logs_elsewhere(host: ScriptedHost, target: str) -> None:
    host.files["/proc/241/fd/2"] = target
    with pytest.raises(UnreachableError) as caught:
        log_sources(host.evidence, Deployment("pid 241", manager="process", main_pid=241))
    assert "--log" in caught.value.next
