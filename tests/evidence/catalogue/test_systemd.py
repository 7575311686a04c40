from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

import pytest

from triage.evidence.catalogue import ServiceUnits, UnitCommand, UnitProperties
from triage.evidence.model import Unanswered
from triage.hosts import Output

Ask = Callable[..., Any]


def test_units_as_systemd_252_shows_them(ask: Ask) -> None:
    units = {unit.id: unit for unit in ask(ServiceUnits(), "service-units")}
    assert set(units) == {"sglang-kimi.service", "ssh.service", "crashloop.service", "apt-daily.service"}
    failed = units["sglang-kimi.service"]
    assert (failed.active_state, failed.result, failed.exit_status) == ("failed", "signal", "9/KILL")
    assert failed.main_pid is None
    assert failed.invocation == "c915d3cfd26845938b76a4178eaab2e1"
    assert failed.started == "2026-11-29T17:15:37+00:00"
    assert failed.program == "/opt/sglang/bin/python"
    assert failed.argv[:4] == ("/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path")
    assert failed.environment_files == ("/etc/default/sglang",)
    running = units["ssh.service"]
    assert (running.active_state, running.main_pid, running.exit_status) == ("active", 33, "")
    assert units["crashloop.service"].restarts == 1
    never_ran = units["apt-daily.service"]
    assert (never_ran.started, never_ran.invocation, never_ran.exit_status) == ("", "", "")


def test_the_canonical_text_has_no_environment_but_what_matters() -> None:
    text = ServiceUnits().decode(
        Output(0, b'Id=a.service\nEnvironment=HF_TOKEN=hf_x "NCCL_DEBUG=a b" DB_URL=postgres://u:p@h\n')
    )
    assert text == "Id=a.service\nEnvironment='NCCL_DEBUG=a b'\n"
    (unit,) = ServiceUnits().parse(text)
    assert unit.environment == {"NCCL_DEBUG": "a b"}


@pytest.mark.parametrize(
    ("told", "namespace"),
    [
        ("models", "models"),
        ("kimi-2.6@<host-1>", "kimi-2.6@<host-1>"),
        ("", ""),
        ("*", ""),
        ("../x", ""),
        ("a b; reboot", ""),
        ("\x1b[31m", ""),
        ("x" * 256, ""),
    ],
)
def test_the_journal_namespace_of_a_unit_is_a_name_or_none(ask: Ask, told: str, namespace: str) -> None:
    shown = f"Id=a.service\nLogNamespace={told}\n".encode()
    assert ask(UnitProperties("a.service"), stdout=shown).log_namespace == namespace


def test_an_argument_with_newlines_does_not_part_a_unit(ask: Ask) -> None:
    shown = (
        b"MainPID=1\nExecStart={ path=/bin/sh ; argv[]=/bin/sh -c a\n\nb=1\n ; ignore_errors=no ; }\n"
        b"Id=a.service\n\n"
        b"MainPID=2\nId=b.service\n"
    )
    units = ask(ServiceUnits(), stdout=shown)
    assert [(unit.id, unit.main_pid) for unit in units] == [("a.service", 1), ("b.service", 2)]


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        (b"1", b"1", "1"),
        (b"1", b"0", "0"),
        (b"2", b"9", "9/KILL"),
        (b"3", b"6", "6/ABRT"),
        (b"2", b"99", "99"),
    ],
)
def test_exit_status(ask: Ask, code: bytes, status: bytes, told: str) -> None:
    shown = b"Id=a.service\nExecMainCode=%s\nExecMainStatus=%s\n" % (code, status)
    ended = b"ExecMainExitTimestamp=Sun 2026-11-29 17:15:38 UTC\n"
    assert ask(UnitProperties("a"), stdout=shown + ended).exit_status == told
    assert ask(UnitProperties("a"), stdout=shown).exit_status == ""  # still running, or never ran


def test_a_unit_that_is_not_there(ask: Ask) -> None:
    assert ask(UnitProperties("nonesuch.service"), "unit-properties-not-found").load_state == "not-found"


def test_the_exact_command(ask: Ask) -> None:
    command = ask(UnitCommand("sglang-kimi.service"), "unit-command")
    assert command.program == "/opt/sglang/bin/python"
    assert command.argv[3:7] == ("--model-path", "/srv/models/Kimi-K2.6", "--pp-size", "8")


@pytest.mark.parametrize(
    ("unit", "label"),
    [
        ("a.service", "a_2eservice"),
        ("9-x@é.service", "_39_2dx_40_c3_a9_2eservice"),
        ("a/../b", "a_2f_2e_2e_2fb"),
    ],
)
def test_a_unit_name_is_escaped_for_the_bus(unit: str, label: str) -> None:
    assert UnitCommand(unit).argv()[4] == f"/org/freedesktop/systemd1/unit/{label}"


@pytest.mark.parametrize(
    "answer",
    [b"", b"{}", b'{"data":[]}', b'{"data":[[1]]}', b"[]", b"null", b'"x"', b"\xff\xfe", b'{"data":5}'],
)
def test_garbage_is_no_answer(ask: Ask, answer: bytes) -> None:
    with pytest.raises(Unanswered):
        ask(UnitCommand("a.service"), stdout=answer)


@pytest.mark.parametrize("answer", [b"", b"\n\n\n", b"hello", b"Id", b"\xff\xfe\x00=1"])
def test_garbage_is_no_list_of_units(ask: Ask, answer: bytes) -> None:
    with pytest.raises(Unanswered):
        ask(ServiceUnits(), stdout=answer)
    with pytest.raises(Unanswered):
        ask(UnitProperties("a.service"), stdout=answer)


def test_where_systemd_does_not_run(ask: Ask) -> None:
    told = b"System has not been booted with systemd as init system (PID 1). Can't operate.\n"
    with pytest.raises(Unanswered, match="not been booted with systemd"):
        ask(ServiceUnits(), code=1, stderr=told)
    with pytest.raises(Unanswered, match="not on this host"):
        ask(ServiceUnits(), code=127)


def test_odd_values_do_not_break_a_unit(ask: Ask) -> None:
    shown = (
        b"Id=a.service\nMainPID=[not set]\nNRestarts=\nExecMainStartTimestamp=n/a\n"
        b'Environment=A="unclosed\nExecStart={ broken\nWorkingDirectory=!/srv\n'
    )
    unit = ask(UnitProperties("a.service"), stdout=shown)
    assert (unit.main_pid, unit.restarts, unit.started, unit.argv) == (None, 0, "", ())
    assert unit.working_directory == "/srv"


@pytest.mark.parametrize(
    "letters", ["s", "sys", "systemd", "kimi", "sglang@0", "systemx-", "systemd_x", "S", "_"]
)
def test_of_services_only_those_of_systemd_itself_are_left_out(letters: str) -> None:
    patterns = ServiceUnits().argv()[ServiceUnits().argv().index("--state=loaded") + 1 :]
    assert sum(fnmatch.fnmatchcase(f"{letters}.service", pattern) for pattern in patterns) == 1
    assert not any(fnmatch.fnmatchcase(f"systemd-{letters}.service", pattern) for pattern in patterns)
