"""What hosts answer whose tools are busybox's, old or missing: recorded in a box with busybox 1.35."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.evidence.catalogue import (
    DirectoryEntry,
    Journal,
    KernelLog,
    ListDirectory,
    Listener,
    ListeningPorts,
    Processes,
    UnitCommand,
    UnitRuns,
    WhoAmI,
)
from triage.hosts import Output

Ask = Callable[..., Any]
NO_OPTION = "journalctl: unrecognized option '--output-fields=MESSAGE'\n"
REFUSALS = {
    Processes(): [
        Output(1, b"", b"ps: invalid option -- 'w'\nBusyBox v1.35.0\n"),
        Output(127, b"", b"sh: ps: not found\n"),
    ],
    ListDirectory("/m"): [Output(1, b"", b"find: unrecognized: -printf\n"), Output(127, b"")],
    ListeningPorts(): [Output(127, b"", b"sh: ss: not found\n")],
    Journal("a.service", "1" * 32): [Output(1, b"", NO_OPTION.encode())],
    KernelLog(1, 2): [Output(1, b"", NO_OPTION.encode())],
    UnitRuns("a.service"): [Output(1, b"", NO_OPTION.encode())],
    UnitCommand("a.service"): [Output(1, b"", b"Unknown interface or property ExecStartEx.\n")],
}


def _but_who_we_are(host: ScriptedHost) -> list[tuple[str, ...]]:
    """What was asked, without what decides whose rights are used."""
    return [argv for argv in host.asked if argv != WhoAmI().argv()]


@pytest.mark.parametrize("query", REFUSALS, ids=lambda query: query.name)
def test_a_host_whose_tool_refuses_is_asked_in_another_way(host: ScriptedHost, query: Any) -> None:
    for refusal in REFUSALS[query]:
        host.asked.clear()
        host.commands = {" ".join(query.argv()): refusal}
        host.evidence.ask(query)
        assert _but_who_we_are(host) == [query.argv(), query.lesser()]


def test_what_is_wrong_otherwise_is_not_asked_again(host: ScriptedHost) -> None:
    for query in REFUSALS:
        host.asked.clear()
        host.commands = {" ".join(query.argv()): Output(1, b"some", b"Permission denied\n")}
        assert host.evidence.ask(query).missing == "Permission denied"
        assert _but_who_we_are(host) == [query.argv()]


def test_processes_as_a_shell_reads_them(ask: Ask) -> None:
    found = ask(Processes(), "processes-busybox")
    by_name = {process.args.split()[0]: process for process in found}
    init, sleeper = found[0], by_name["sleep"]
    assert (init.pid, init.ppid, init.user) == (1, 0, "root")
    assert (sleeper.user, sleeper.args) == ("svc", "sleep 500")
    assert by_name["/usr/bin/dbus-daemon"].user == "messagebus"
    assert init.started == "2026-11-29T23:39:29+00:00"


def test_a_directory_as_a_shell_lists_it(ask: Ask) -> None:
    found = ask(ListDirectory("/srv/a model"), "ls-busybox")
    assert [entry for entry in found if not entry.name.startswith(".")] == [
        DirectoryEntry("file", 0, "config.json"),
        DirectoryEntry("link", 7, "weights"),
    ]


def test_ports_as_the_kernel_lists_them(ask: Ask) -> None:
    listeners = ask(ListeningPorts(), "ports-proc")
    assert Listener("127.0.1.39", 22, "sshd", 33) in listeners


def test_a_port_of_ipv6_and_of_nobody_known(ask: Ask) -> None:
    line = b"   1: 00000000000000000000000001000000:7530 00000000000000000000000000000000:0000 0A"
    line += b" 00000000:00000000 00:00000000 00000000     0        0 99 1 0 100 0\n"
    assert ask(ListeningPorts(), stdout=line) == (Listener("::1", 30000),)
