"""What the service manager knows.

    $ systemctl show --no-pager --all --property=Id,... --type=service --state=loaded '[!s]*' 's[!y]*' ...
    Id=sglang-kimi.service
    ActiveState=failed
    Result=signal
    ExecMainCode=2
    ExecMainStatus=9
    ExecStart={ path=/opt/sglang/bin/python ; argv[]=/opt/sglang/bin/python -m sglang... ; ... }
    Environment=PYTHONUNBUFFERED=1 "NCCL_DEBUG=WARN"

`show` joins argv with blanks and so loses its bounds; `busctl` keeps
them. Seen with systemd 252.
"""

from __future__ import annotations

import re
import shlex
import signal
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType
from typing import ClassVar, Literal

from triage.common.json import parse_json
from triage.evidence.discovery.environment import relevant
from triage.evidence.model import EMPTY, MEBI, Query, Unanswered
from triage.hosts.connection import Output

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
    "MainPID",
    "InvocationID",
    "NRestarts",
    "ExecStart",
    "Environment",
    "EnvironmentFiles",
    "WorkingDirectory",
    "User",
    "ExecMainStartTimestamp",
    "ExecMainExitTimestamp",
    "InactiveExitTimestamp",
    "FragmentPath",
    "DropInPaths",
    "StandardOutput",
    "StandardError",
    "LogNamespace",
    "NeedDaemonReload",
    "ConditionResult",
    "ConditionTimestamp",
    "AssertResult",
    "AssertTimestamp",
    "Restart",
    "LimitMEMLOCK",
    "LimitNOFILE",
    "LimitNPROC",
    "MemoryMax",
    "MemoryDenyWriteExecute",
    "PrivateDevices",
    "TasksMax",
    "TimeoutStartUSec",
)
Manager = Literal["systemd", "systemd-user"]
REPEATING = ("ExecStart", "EnvironmentFiles")  # a line for each
_SIGNALLED = ("2", "3")  # ExecMainCode: CLD_KILLED, CLD_DUMPED


@dataclass(frozen=True)
class Unit:
    """A service unit. Times are ISO 8601 in UTC, "" when there is none. `argv` is split at blanks."""

    id: str
    load_state: str = ""
    active_state: str = ""
    sub_state: str = ""
    result: str = ""
    exit_status: str = ""  # of the main process: "9/KILL", "1", "0"; "" while it runs or never ran
    main_pid: int | None = None
    invocation: str = ""
    restarts: int = 0
    program: str = ""  # path of ExecStart's program
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    environment_files: tuple[str, ...] = ()
    working_directory: str = ""
    user: str = ""
    log_namespace: str = ""
    started: str = ""
    ended: str = ""
    fragment: str = ""
    needs_reload: bool = False
    unmet: bool = False  # as `is_unmet`
    manager: Manager = "systemd"
    properties: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True)
class ServiceUnits(Query[tuple[Unit, ...]]):
    """Every service unit that systemd has in memory but its own; failed and enabled ones always are.

    It takes systemd most of a millisecond to tell of one, and half of a host's units are its own.
    """

    name: ClassVar[str] = "service-units"
    purpose: ClassVar[str] = "find inference services, and how they ended"
    absence: ClassVar[str] = "only processes and containers are found"
    limit: ClassVar[int] = 8 * MEBI

    def argv(self) -> tuple[str, ...]:
        return (*_SHOW, "--type=service", "--state=loaded", *_NOT_ITS_OWN)

    def decode(self, output: Output) -> str:
        return _relevant(super().decode(output))

    def parse(self, text: str) -> tuple[Unit, ...]:
        units = tuple(_unit(block) for block in _blocks(text) if "Id" in block)
        if not units:
            raise Unanswered("systemd names no service unit")
        return units


@dataclass(frozen=True)
class KnownServiceUnits(ServiceUnits):
    """Every service unit that has a file, or of which the journal speaks; one that is gone is `not-found`.

    systemd forgets a unit that does not run, where nothing wants it: after a reboot, or when it ended well.
    """

    name: ClassVar[str] = "known-service-units"
    purpose: ClassVar[str] = (
        "find a service that ended and was forgotten by systemd, where none else is found"
    )
    absence: ClassVar[str] = "a service that does not run is only found by its name"

    def argv(self) -> tuple[str, ...]:
        return ("sh", "-c", " ".join(_KNOWN.split()), "known-units", *_SHOW)


_KNOWN = r"""
set -f;
names=$({
    systemctl list-unit-files --no-pager --no-legend --type=service; journalctl --no-pager --field=UNIT;
} 2>/dev/null | sed -n "s/^\([A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*\.service\)\( .*\)*\$/\1/p"
    | grep -v "@\.service\$" | sort -u | head -n 1000);
exec "$@" -- $names
"""


@dataclass(frozen=True)
class UnitProperties(Query[Unit]):
    """One unit, loaded from disk if need be. Its `load_state` is `not-found` where there is none."""

    name: ClassVar[str] = "unit-properties"
    purpose: ClassVar[str] = "read the state, result and command of one service"
    absence: ClassVar[str] = "how the unit ended is only known from the journal"
    limit: ClassVar[int] = MEBI

    unit: str

    def argv(self) -> tuple[str, ...]:
        return (*_SHOW, "--", self.unit)

    def decode(self, output: Output) -> str:
        return _relevant(super().decode(output))

    def parse(self, text: str) -> Unit:
        for block in _blocks(text):
            if "Id" in block:
                return _unit(block)
        raise Unanswered(f"systemd says nothing of {self.unit}")


@dataclass(frozen=True)
class ExecCommand:
    """The first ExecStart of a unit: its program, and its arguments from argv[0] on.

    `flags` is what its prefixes mean, in systemd's words, None where systemd does not tell. `alone`: it
    is the only one.
    """

    program: str
    argv: tuple[str, ...]
    flags: frozenset[str] | None = None
    alone: bool = True


@dataclass(frozen=True)
class UnitCommand(Query[ExecCommand]):
    """ExecStart with the bounds of its arguments kept; before systemd 243 without what its prefixes mean.

    {"type":"a(sasasttttuii)","data":[["/bin/python3",["/bin/python3","-m","x y"],["ignore-failure"],...]]}
    {"type":"a(sasbttttuii)","data":[["/bin/python3",["/bin/python3","-m","x y"],false,0,...]]}
    """

    name: ClassVar[str] = "unit-command"
    purpose: ClassVar[str] = "read the exact arguments of a service's command"
    absence: ClassVar[str] = "the bounds of arguments with blanks are not known"
    limit: ClassVar[int] = MEBI

    unit: str

    def argv(self) -> tuple[str, ...]:
        path = "/org/freedesktop/systemd1/unit/" + _bus_label(self.unit)
        manager = "org.freedesktop.systemd1"
        return ("busctl", "--json=short", "get-property", manager, path, f"{manager}.Service", "ExecStartEx")

    def lesser(self) -> tuple[str, ...]:
        return tuple("ExecStart" if word == "ExecStartEx" else word for word in self.argv())

    def falls_short(self, output: Output) -> bool:
        return bool(output.code) and b"ExecStartEx" in output.stderr

    def parse(self, text: str) -> ExecCommand:
        try:
            commands = parse_json(text)["data"]
            program, argv, told = commands[0][:3]
            flags = frozenset(map(str, told)) if isinstance(told, list) else None
            return ExecCommand(str(program), tuple(map(str, argv)), flags, len(commands) == 1)
        except (ValueError, LookupError, TypeError):
            raise Unanswered(f"{self.unit} has no ExecStart") from None


_NOT_ITS_OWN = tuple(f"{'systemd-'[:at]}[!{letter}]*" for at, letter in enumerate("systemd-"))
_SHOW = ("systemctl", "show", "--no-pager", "--all", f"--property={','.join(PROPERTIES)}")


def _relevant(text: str) -> str:
    """The answer without the environment variables that do not matter; other services have secrets there."""

    def line(line: str) -> str:
        if not line.startswith("Environment="):
            return line
        kept = relevant(_assignments(line.partition("=")[2]))
        return "Environment=" + shlex.join(f"{name}={value}" for name, value in kept.items())

    return "\n".join(line(each) for each in text.split("\n"))


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """Properties of one unit after the other. An argument can hold newlines, so a unit begins where a
    property comes again, not at an empty line."""
    block: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if not equals or name not in PROPERTIES:
            continue
        if name in block and name not in REPEATING:
            yield block
            block = {}
        block[name] = f"{block[name]} {value}" if name in block else value
    if block:
        yield block


def _unit(block: Mapping[str, str]) -> Unit:
    program, argv = _exec_start(block.get("ExecStart", ""))
    status = block.get("ExecMainStatus", "")
    ended = _time(block.get("ExecMainExitTimestamp", ""))
    pid = block.get("MainPID", "0")
    restarts = block.get("NRestarts", "")
    return Unit(
        id=block["Id"],
        load_state=block.get("LoadState", ""),
        active_state=block.get("ActiveState", ""),
        sub_state=block.get("SubState", ""),
        result=block.get("Result", ""),
        exit_status=_exit_status(block.get("ExecMainCode", ""), status) if ended else "",
        main_pid=int(pid) if pid.isdecimal() and int(pid) > 0 else None,
        invocation=block.get("InvocationID", ""),
        restarts=int(restarts) if restarts.isdecimal() else 0,
        program=program,
        argv=argv,
        environment=MappingProxyType(_assignments(block.get("Environment", ""))),
        environment_files=tuple(
            word for word in block.get("EnvironmentFiles", "").split() if word.startswith("/")
        ),
        working_directory=block.get("WorkingDirectory", "").lstrip("!-"),
        user=block.get("User", ""),
        log_namespace=_namespace(block.get("LogNamespace", "")),
        started=_time(block.get("ExecMainStartTimestamp", "")),
        ended=ended,
        fragment=block.get("FragmentPath", ""),
        needs_reload=block.get("NeedDaemonReload") == "yes",
        unmet=is_unmet(block),
        properties=MappingProxyType(dict(block)),
    )


def is_unmet(block: Mapping[str, str]) -> bool:
    """Whether a condition or an assertion kept the unit from being started when it was to be last."""
    return block.get("Result") == "exec-condition" or any(
        block.get(f"{each}Result") == "no" and block.get(f"{each}Timestamp", "") != ""
        for each in ("Condition", "Assert")
    )


def _namespace(name: str) -> str:
    """The name, where it can be one: that of an instance of a unit. In a case it may have a `<host-1>`."""
    return name if re.fullmatch(r"[A-Za-z0-9:_.\\@<>-]{1,255}", name) else ""


def _exec_start(value: str) -> tuple[str, tuple[str, ...]]:
    """`{ path=/bin/x ; argv[]=/bin/x -y ; ignore_errors=no ; ... }`, the first command's part."""
    body = value.partition("{ path=")[2]
    program, _, rest = body.partition(" ; argv[]=")
    command = rest.partition(" ; ignore_errors=")[0]
    return program, tuple(command.split())


def _assignments(value: str) -> dict[str, str]:
    """`A=1 "B=two words"`, quoted as a shell does."""
    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()
    pairs = (word.partition("=") for word in words)
    return {name: content for name, equals, content in pairs if equals}


def _exit_status(code: str, status: str) -> str:
    if code in _SIGNALLED and status.isdecimal():
        try:
            return f"{status}/{signal.Signals(int(status)).name.removeprefix('SIG')}"
        except ValueError:
            return status
    return status


def _time(value: str) -> str:
    """`Sun 2026-11-29 17:01:25 UTC`; the connection sets TZ to UTC."""
    words = value.split()
    if len(words) != 4 or words[3] != "UTC":
        return ""
    try:
        moment = datetime.strptime(f"{words[1]} {words[2]}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""
    return moment.replace(tzinfo=timezone.utc).isoformat()


def _bus_label(unit: str) -> str:
    """A unit's name as part of a D-Bus object path: all but ASCII letters and digits as `_xx`."""
    letters = string.ascii_letters + string.digits
    label = "".join(chr(byte) if chr(byte) in letters else f"_{byte:02x}" for byte in unit.encode())
    return f"_{ord(label[0]):02x}{label[1:]}" if label[:1].isdigit() else label
