"""Running processes.

    $ ps -ww -eo pid=,ppid=,user:32=,lstart=,args=
        1       0 root                             Sun Nov 29 17:00:48 2026 /usr/lib/systemd/systemd
       75       1 sglang                           Sun Nov 29 17:02:21 2026 /opt/sglang/bin/python -m ...

`args` joins the arguments with blanks; /proc/PID/cmdline keeps their bounds. (procps-ng 3.3 and 4.0) Where
there is no such ps, as with busybox, a shell reads /proc, and says the start in ticks since the machine's:

    btime 1795972848 100
    75 1 sglang @9312 /opt/sglang/bin/python -m ...
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar, TypeVar

from triage.common.json import parse_json
from triage.evidence.catalogue.rotated import live_name
from triage.evidence.discovery.environment import relevant
from triage.evidence.model import MEBI, Query, Unanswered
from triage.hosts.connection import Output
from triage.hosts.quoting import SAID

T = TypeVar("T")

WRITERS = ("tee", "supervisord", "rotatelogs", "cronolog", "multilog", "svlogd", "s6-log")
OF_SUPERVISORD = "supervisord.log"  # its own words
_OF_A_PROGRAM = re.compile(r"(?P<name>.+?)(?:[._-](?:std)?(?:out|err|error))?(?P<made>---.+)?\.log")
"""`kimi.log`, `kimi.err.log`; `kimi-stdout---supervisor-XXXX.log` is what supervisord calls it by itself."""

_DELETED = re.compile(r"^(/proc/\d+/fd/(?:[3-9]|\d\d+)) /.* \(deleted\)$", re.MULTILINE)
"""One that its writer has opened: what is below 3 takes the writer's own words."""

_CONTAINER = re.compile(
    r"docker-|libpod-|podman-|nerdctl-|crio-|cri-containerd-|containerd-|kubepods|lxc|machine-|systemd-nspawn@"
    r"|payload\Z|[0-9a-f]{64}\Z"
)
_OF_PROC = re.compile(r"(\d+) (\d+) (\S+) @(\d+) (.*)")
# Without a program for each process but tr: there can be thousands. A kernel's thread has no arguments.
_WALK = r"""
while read -r key btime; do if [ "$key" = btime ]; then break; fi; done </proc/stat;
printf "btime %s %s\n" "$btime" "$(getconf CLK_TCK 2>/dev/null || echo 100)";
for each in /proc/[0-9]*; do
    line=; read -r line <"$each/cmdline"; if [ -z "$line" ]; then continue; fi;
    { read -r line <"$each/stat"; } || continue;
    uid=; while read -r key uid rest; do if [ "$key" = Uid: ]; then break; fi; done <"$each/status";
    if [ "$uid" != "$last" ]; then
        user=$uid; last=$uid;
        while IFS=: read -r name key id rest; do
            if [ "$id" = "$uid" ]; then user=$name; break; fi;
        done </etc/passwd;
    fi;
    args=$(tr "\000\n" "  " <"$each/cmdline");
    set -f; set -- ${line##*")" }; set +f;
    printf "%s %s %s @%s %s\n" "${each#/proc/}" "$2" "$user" "${20}" "$args";
done 2>/dev/null; :
"""
_LINE = re.compile(r" *(\d+) +(\d+) +(\S+) +\w{3} (\w{3} +\d+ [\d:]+ \d{4}) (.*)")


@dataclass(frozen=True)
class Process:
    pid: int
    ppid: int
    user: str
    started: str  # ISO 8601, UTC
    args: str  # its arguments, joined with blanks


@dataclass(frozen=True)
class Processes(Query[tuple[Process, ...]]):
    """Every process but those with which we ask. Value in order of pid."""

    name: ClassVar[str] = "processes"
    purpose: ClassVar[str] = (
        "find inference services that no unit starts, and the children of those that one does"
    )
    absence: ClassVar[str] = "only what units start is found, and by its unit alone"
    limit: ClassVar[int] = 8 * MEBI

    def argv(self) -> tuple[str, ...]:
        return ("ps", "-ww", "-eo", "pid=,ppid=,user:32=,lstart=,args=")

    def lesser(self) -> tuple[str, ...]:
        return ("sh", "-c", " ".join(_WALK.split()))

    def falls_short(self, output: Output) -> bool:
        return bool(output.code) and not output.stdout

    def decode(self, output: Output) -> str:
        found, boot, ticks = [], 0, 100
        for line in super().decode(output).splitlines():
            match = _LINE.fullmatch(line) or _OF_PROC.fullmatch(line)
            if match:
                pid, ppid, user, started, args = match.groups()
                began = _at(boot + int(started) // ticks) if match.re is _OF_PROC else _iso(started)
                found.append(Process(int(pid), int(ppid), user, began, args.strip()))
            elif told := re.fullmatch(r"btime (\d{1,12}) ([1-9]\d{0,5})", line):
                boot, ticks = int(told[1]), int(told[2])
        own = _of_ours(found, output.shell)
        rows = (
            [each.pid, each.ppid, each.user, each.started, each.args] for each in found if each.pid not in own
        )
        return "\n".join(map(json.dumps, rows)) + "\n"

    def parse(self, text: str) -> tuple[Process, ...]:
        try:
            rows = [parse_json(line) for line in text.splitlines() if line]
            found = [Process(int(pid), int(ppid), *map(str, rest)) for pid, ppid, *rest in rows]
        except (ValueError, TypeError):
            raise Unanswered("the list of processes is damaged") from None
        if not found:
            raise Unanswered("ps named no process in the form that was asked for")
        return tuple(sorted(found, key=lambda process: process.pid))


@dataclass(frozen=True)
class WhoAmI(Query[str]):
    """The user as whom commands run on the host."""

    name: ClassVar[str] = "who-am-i"
    purpose: ClassVar[str] = "know whether commands run as root"
    absence: ClassVar[str] = "user units are not asked for, and nothing is done as the service's user"

    def argv(self) -> tuple[str, ...]:
        return ("id", "-un")

    def parse(self, text: str) -> str:
        return text.strip()


@dataclass(frozen=True)
class ProcessArguments(Query[tuple[str, ...]]):
    """The argv of a process, as it was started or as it has renamed itself."""

    name: ClassVar[str] = "process-arguments"
    purpose: ClassVar[str] = "read the exact arguments of an inference service"
    absence: ClassVar[str] = "the arguments are those that the unit would start with now"
    limit: ClassVar[int] = 2 * MEBI

    pid: int

    def argv(self) -> tuple[str, ...]:
        return ("cat", f"/proc/{self.pid}/cmdline")

    def decode(self, output: Output) -> str:
        return json.dumps(super().decode(output).rstrip("\0").split("\0"))

    def parse(self, text: str) -> tuple[str, ...]:
        words = _parsed(text, list)
        if words == [""]:
            raise Unanswered(f"process {self.pid} has no arguments: it is ending, or a kernel thread")
        return tuple(str(word) for word in words)  # without empty ones at the end: titles are padded


@dataclass(frozen=True)
class ProcessEnvironment(Query[Mapping[str, str]]):
    """The environment a process was started with: the variables that matter to inference, no secrets."""

    name: ClassVar[str] = "process-environment"
    purpose: ClassVar[str] = "read CUDA_*, NCCL_*, PYTHON*, PATH and the like of an inference service"
    absence: ClassVar[str] = "the environment is that of the unit and its files"
    privilege: ClassVar[str] = "the same user as the process, or root"
    limit: ClassVar[int] = 2 * MEBI

    pid: int

    def argv(self) -> tuple[str, ...]:
        return ("cat", f"/proc/{self.pid}/environ")

    def decode(self, output: Output) -> str:
        pairs = (word.partition("=") for word in super().decode(output).split("\0"))
        return json.dumps(relevant({name: value for name, equals, value in pairs if equals}))

    def parse(self, text: str) -> Mapping[str, str]:
        return {str(name): str(value) for name, value in _parsed(text, dict).items()}


@dataclass(frozen=True)
class ProcessDirectory(Query[str]):
    """The working directory of a process."""

    name: ClassVar[str] = "process-directory"
    purpose: ClassVar[str] = "know from where an inference service resolves relative paths and imports"
    absence: ClassVar[str] = "the directory is the unit's, and none for a plain process"
    privilege: ClassVar[str] = "the same user as the process, or root"

    pid: int

    def argv(self) -> tuple[str, ...]:
        return ("readlink", f"/proc/{self.pid}/cwd")

    def parse(self, text: str) -> str:
        return _first_path(text)


@dataclass(frozen=True)
class Belonging:
    """The owner of a process: a system unit, a unit of its user's own systemd, a container, or none ("")."""

    unit: str = ""
    container: str = ""
    user_unit: str = ""


@dataclass(frozen=True)
class ProcessGroup(Query[Belonging]):
    """The unit or container of a process, from its control group.

    0::/system.slice/sglang-kimi.service
    0::/system.slice/docker-4f1c0b6f2a9e.scope
    0::/user.slice/user-1000.slice/user@1000.service/app.slice/sglang-kimi.service
    """

    name: ClassVar[str] = "process-group"
    purpose: ClassVar[str] = "tell which unit or container an inference service belongs to"
    absence: ClassVar[str] = "a process counts as one that no unit and no container started"

    pid: int

    def argv(self) -> tuple[str, ...]:
        return ("cat", f"/proc/{self.pid}/cgroup")

    def parse(self, text: str) -> Belonging:
        for line in text.splitlines():
            hierarchy, controllers, path = [*line.split(":", 2), "", ""][:3]
            if hierarchy != "0" and controllers != "name=systemd":
                continue
            parts = path.split("/")
            container = next((part for part in parts if _CONTAINER.match(part)), "")
            units = [part for part in parts if part.endswith(".service")]
            if container:
                return Belonging(container=container)
            if units and path.startswith("/system.slice/"):
                return Belonging(units[0])
            if len(units) > 1 and path.startswith("/user.slice/") and units[0].startswith("user@"):
                return Belonging(user_unit=units[1])
        return Belonging()


@dataclass(frozen=True)
class ProcessOutput(Query[str]):
    """The file that a process writes its standard error to; one that was deleted is still there as its fd."""

    name: ClassVar[str] = "process-output"
    purpose: ClassVar[str] = "find the log file of a service that does not log to the journal"
    absence: ClassVar[str] = "of a plain process no log is found: give it with --log FILE"
    privilege: ClassVar[str] = "the same user as the process, or root"

    pid: int

    def argv(self) -> tuple[str, ...]:
        return ("readlink", f"/proc/{self.pid}/fd/2")

    def parse(self, text: str) -> str:
        path = text.rstrip("\n")[:4096]
        if not posixpath.isabs(path) or path.startswith(("/dev/", "/memfd:")):
            raise Unanswered(f"process {self.pid} writes to {path}, not to a file")
        return f"/proc/{self.pid}/fd/2" if path.endswith(" (deleted)") else path


@dataclass(frozen=True)
class PipedOutput(Query[str]):
    """The file to which another program, as tee or supervisord, writes what a process hands it in a pipe."""

    name: ClassVar[str] = "piped-output"
    purpose: ClassVar[str] = "find the log file of a service whose words another program writes down"
    absence: ClassVar[str] = "of a plain process no log is found: give it with --log FILE"
    privilege: ClassVar[str] = "the same user as the process, or root"

    pid: int

    def argv(self) -> tuple[str, ...]:
        # What supervisord calls it; who holds the end of the pipe that can only be read; then which files
        # that one can write to. One with a line break in its name would be told as two.
        script = r"""
            break=$(printf '\nx') break=${break%x}
            tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n 's/^SUPERVISOR_PROCESS_NAME=//p'
            pipe=$(readlink "/proc/$1/fd/2") || exit
            find /proc/[0-9]*/fd -lname "pipe:\[${pipe#"pipe:["}" -perm -400 ! -perm -200 2>/dev/null |
            while read -r end; do
                case $(cat "${end%/fd/*}/comm") in @WRITERS@) ;; *) continue ;; esac
                find "${end%/*}" -lname '/*' ! -lname '/dev/*' ! -lname "*$break*" -perm -200 \
                    \( -lname '* (deleted)' -printf '%p %l\n' -o -printf '%l\n' \)
            done
        """
        return ("sh", "-c", script.replace("@WRITERS@", "|".join(WRITERS)), "sh", str(self.pid))

    def parse(self, text: str) -> str:
        lines = sorted({line for line in text.splitlines() if not line.endswith(" (deleted)")})
        name = next((line for line in lines if line and not line.startswith("/")), "")
        files = [line for line in lines if line.startswith("/")]
        own_words = [file for file in files if posixpath.basename(file) == OF_SUPERVISORD]
        deleted = _DELETED.findall(text)
        if files == own_words and len(deleted) == 1:
            return str(deleted[0])
        files = [file for file in files if file not in own_words] or files
        parts = {file: _OF_A_PROGRAM.fullmatch(posixpath.basename(live_name(file))[:256]) for file in files}
        own = [file for file, part in parts.items() if part and part["name"] == name]
        of_errors = [file for file in own if "err" in posixpath.basename(file)[len(name) :]]
        of_nobody = [file for file, part in parts.items() if not part or not part["made"]]
        for choice in (files, own, of_errors, [] if own else of_nobody):
            if len(choice) == 1:
                return choice[0][:4096]
        if not files:
            raise Unanswered(
                f"process {self.pid} writes into a pipe, and nobody is seen who writes that down"
            )
        raise Unanswered(
            f"process {self.pid} writes into a pipe, whose reader has several files: {', '.join(files[:8])}"
        )


@dataclass(frozen=True)
class ProgramPath(Query[str]):
    """Asks where a program that was named without a directory is found."""

    name: ClassVar[str] = "program-path"
    purpose: ClassVar[str] = "find the interpreter that a bare `python` means to the service"
    absence: ClassVar[str] = "the interpreter is not known, nor what it would import"

    program: str
    path: str  # the service's PATH

    def argv(self) -> tuple[str, ...]:
        find = 'PATH=$1; command -v -- "$2"'
        return ("sh", "-c", find, "sh", self.path, self.program)

    def parse(self, text: str) -> str:
        return _first_path(text)


def _of_ours(found: Iterable[Process], shell: int) -> set[int]:
    """The shell that we asked with, and what it has started. In a container its pid would be another's."""
    if not any(each.pid == shell and SAID in each.args for each in found):
        return set()
    children: dict[int, list[int]] = {}
    for each in found:
        children.setdefault(each.ppid, []).append(each.pid)
    own, waiting = set(), [shell]
    while waiting:
        pid = waiting.pop()
        if pid not in own:
            own.add(pid)
            waiting += children.get(pid, ())
    return own


def _parsed(text: str, kind: type[T]) -> T:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise Unanswered(f"the recorded answer is damaged: {error}") from None
    if not isinstance(value, kind):
        raise Unanswered("the recorded answer is damaged")
    return value


def _first_path(text: str) -> str:
    path = text.rstrip("\n")
    if not posixpath.isabs(path):
        raise Unanswered(f"{path[:200]!r} is not a path")
    return path


def _at(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _iso(lstart: str) -> str:
    try:
        moment = datetime.strptime(lstart, "%b %d %H:%M:%S %Y")
    except ValueError:
        return ""
    return moment.replace(tzinfo=timezone.utc).isoformat()
