"""The service under test: its state, its restart, and the log of one run of it."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.catalogue.namespaces import in_namespace
from triage.evidence.catalogue.systemd import is_unmet
from triage.evidence.catalogue.userunits import to_own_manager
from triage.evidence.model import Deployment, last_words
from triage.hosts.connection import Connection, Output
from triage.hosts.typed_command import there

MAX_LINE = 64 * 1024  # bytes; the rest of a longer line is dropped
_MEMBERS = """
find "/sys/fs/cgroup$1" "/sys/fs/cgroup/systemd$1" -name cgroup.procs -exec cat {} + 2>/dev/null; :
"""
STOP_GRACE = 20.0  # seconds between SIGTERM and SIGKILL


@dataclass(frozen=True)
class ServiceState:
    """The state of a service at one moment.

    `run` names one start of it: systemd's InvocationID, or `pid:birth` of a process; "" before the
    first. `active` is systemd's ActiveState. `pid` is that of what starts it, while that is all there is.
    `pending`: its manager still works on a start or a stop.
    """

    active: str
    run: str
    pid: int | None
    detail: str = ""  # in words, e.g. "failed, result signal, status 9/KILL"
    pending: bool = False
    restarting: bool = False  # dead, and about to be started again by its manager
    members: tuple[int, ...] = ()  # all that runs of it, where none of them is known as the main process

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,) if self.pid else self.members

    @property
    def dead(self) -> bool:
        return self.restarting or self.active in ("failed", "inactive")


class Service(Protocol):
    """What verification needs of a service, whatever runs it."""

    @property
    def name(self) -> str: ...

    def state(self) -> ServiceState:
        """Raises UnreachableError when it cannot be told."""
        ...

    def restart(self) -> None:
        """Ask for a new run, without waiting for it to be ready.

        Raises RefusedError when that is not allowed, UnreachableError when it fails.
        """
        ...

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        """The log of one run from its first byte on, as it comes; b"" at least once a second.

        Ends at `timeout` seconds, or at once where the log cannot be read.
        """
        ...


class SystemdService:
    """A systemd unit. Restarting one needs root: a connection as root, or one that becomes root.

    `own`: of the connecting user's own systemd, where it needs nothing. `log_namespace`: that in which
    it logs, of journald.
    """

    _PROPERTIES = (
        "LoadState,ActiveState,SubState,Result,InvocationID,MainPID,ControlPID,Job,"
        "ControlGroup,ExecMainCode,ExecMainStatus,ConditionResult,ConditionTimestamp,AssertResult,AssertTimestamp"
    )

    def __init__(self, connection: Connection, unit: str, own: bool = False, log_namespace: str = "") -> None:
        if not re.fullmatch(r"[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*", unit):
            raise UsageError(
                "verify",
                repr(unit),
                "this cannot be the name of a unit",
                there(connection.name, "systemctl list-units --type=service --all"),
            )
        self.name = unit
        self._connection = connection
        self._own = own
        self._had_members = ""  # the last run in which there were any, without a main process
        self._namespace = (in_namespace(log_namespace),) if log_namespace else ()

    def state(self) -> ServiceState:
        output = self._systemctl("ask for the state of", "show", f"--property={self._PROPERTIES}")
        found = dict(line.split("=", 1) for line in text_of(output.stdout).splitlines() if "=" in line)
        if found.get("LoadState") in ("not-found", "masked", "error", "bad-setting"):
            raise UnreachableError(
                f"find unit {self.name} on",
                self._connection.name,
                f"systemd says {found['LoadState']}",
                there(self._connection.name, "systemctl list-units --type=service"),
            )
        pids = (found.get(name, "") for name in ("MainPID", "ControlPID"))
        state = ServiceState(
            active=found.get("ActiveState", ""),
            run=found.get("InvocationID", ""),
            pid=next((int(pid) for pid in pids if pid.isdecimal() and pid != "0"), None),
            detail=_in_words(found),
            pending=found.get("Job", "0") not in ("", "0"),
            restarting=_restarts(found),
        )
        if state.active != "active" or state.pid is not None:
            return state
        return self._by_members(state, found.get("ControlGroup", ""), found.get("SubState") == "exited")

    def _by_members(self, state: ServiceState, group: str, exited: bool) -> ServiceState:
        """Of a unit without a main process. One whose command has ended counts as active for ever, also when
        what that has left is no more; it may have left nothing, as where it starts a container."""
        output = self._connection.run(("sh", "-c", _MEMBERS, "sh", group)) if group else Output(0, b"")
        members = tuple(sorted({int(line) for line in output.stdout.splitlines() if line.isdigit()}))
        if members:
            self._had_members = state.run
        elif exited and state.run == self._had_members and output.code == 0:
            ended = f"{state.detail}, and what its command has left running has ended"
            return replace(state, active="failed", detail=ended)
        return replace(state, members=members)

    def restart(self) -> None:
        with contextlib.suppress(UnreachableError):  # says so of a unit that never ran: nothing to reset
            self._systemctl("reset the start limit of", "reset-failed")
        self._systemctl("restart", "restart", "--no-block")

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        follow = ("journalctl", "--quiet", "--no-pager", "--follow", "--no-tail", "--all", "--output=cat")
        follow = (*follow, *self._namespace)
        return self._connection.stream((*follow, f"_SYSTEMD_INVOCATION_ID={run}"), timeout=timeout)

    def _systemctl(self, doing: str, *arguments: str) -> Output:
        argv = ("systemctl", "--no-pager", "--no-ask-password", *arguments, "--", self.name)
        output = self._connection.run(to_own_manager(argv) if self._own else argv)
        if output.code == 0:
            return output
        what = (f"{doing} {self.name} on", self._connection.name, reason_of(output))
        if refused(output):
            raise RefusedError(*what, "repeat it as root, or with --become where sudo asks for no password")
        status = f"systemctl {'--user ' if self._own else ''}status {self.name}"
        raise UnreachableError(*what, there(self._connection.name, status))


class ProcessService:
    """A command of its own, in a session of its own, that logs to a file.

    `pid_file` holds its pid and birth (clock ticks after boot), so that no process that got the same
    pid later is ever taken for it, or ended. `log` is appended to. Processes that have ended and were
    not reaped, as in a container without an init, count as ended.
    """

    _START = """
        log=$1 pid_file=$2 directory=$3
        shift 3
        cd -- "$directory" || exit 3
        : >>"$log" && : >"$pid_file" || exit 3
        exec setsid "$@" >>"$log" 2>&1 </dev/null &
        pid=$! birth=
        while stat=$(cat "/proc/$pid/stat"); do
            set -- ${stat##*")" }
            birth=${20}
            case "$4 $1" in "$pid "*|*Z) break ;; esac  # in the session of this shell it would end with it
            sleep 0.02
        done
        [ "$birth" ] || exit 3
        echo "$pid $birth" >"$pid_file"
    """
    _STATE = 'read -r pid birth <"$1" && echo "$pid $birth" && cat "/proc/$pid/stat"'
    _SIZE = 'if [ -e "$1" ]; then stat -c %s -- "$1"; else echo 0; fi'
    _STOP = """
        pid=$1 grace=$2
        kill -TERM "-$pid" 2>/dev/null
        while kill -0 "-$pid" 2>/dev/null; do
            states=$(ps -o stat= -g "$pid" 2>/dev/null) && ! echo "$states" | grep -qv "^Z" && break
            [ "$grace" -gt 0 ] || kill -KILL "-$pid" 2>/dev/null
            [ "$grace" -gt -50 ] || break
            grace=$((grace - 1))
            sleep 0.1
        done
    """

    def __init__(
        self, connection: Connection, argv: Sequence[str], log: str, pid_file: str, directory: str = "/"
    ) -> None:
        self.name = argv[0].rpartition("/")[2]
        self._connection = connection
        self._argv = tuple(argv)
        self._log = log
        self._pid_file = pid_file
        self._directory = directory
        self._offset = 0  # bytes of the log before the latest start

    def state(self) -> ServiceState:
        output = self._connection.run(("sh", "-c", self._STATE, "sh", self._pid_file))
        known, _, stat = text_of(output.stdout).partition("\n")
        if not re.fullmatch(r"\d+ \d+", known):
            return ServiceState("inactive", "", None, "not started")
        pid, birth = known.split()
        fields = stat.rpartition(")")[2].split()
        if len(fields) > 19 and fields[19] == birth and fields[0] not in "ZX":
            return ServiceState("active", f"{pid}:{birth}", int(pid), "running")
        return ServiceState("failed", f"{pid}:{birth}", None, "the process has ended")

    def restart(self) -> None:
        self.stop()
        self.start()

    def start(self) -> None:
        """Raises UnreachableError when it cannot be started; RefusedError while it runs."""
        if not self.state().dead:
            raise RefusedError(
                f"start {self.name} on",
                self._connection.name,
                "it runs already",
                there(self._connection.name, f"cat {self._pid_file}"),
            )
        size = text_of(self._run("measure the log of", ("sh", "-c", self._SIZE, "sh", self._log)).stdout)
        self._offset = int(size) if size.strip().isdecimal() else 0
        paths = (self._log, self._pid_file, self._directory)
        self._run("start", ("sh", "-c", self._START, "sh", *paths, *self._argv))

    def stop(self) -> None:
        """End it and what it started, by SIGTERM and after a while by SIGKILL."""
        state = self.state()
        if state.pid is not None:
            argv = ("sh", "-c", self._STOP, "sh", str(state.pid), str(int(STOP_GRACE * 10)))
            self._run("stop", argv, timeout=STOP_GRACE + 30)

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        tail = ("tail", "--follow=name", "--quiet", f"--bytes=+{self._offset + 1}", "--", self._log)
        return self._connection.stream(tail, timeout=timeout)

    def _run(self, doing: str, argv: Sequence[str], timeout: float = 30.0) -> Output:
        output = self._connection.run(argv, timeout=timeout)
        if output.code != 0:
            raise UnreachableError(
                f"{doing} {self.name} on",
                self._connection.name,
                reason_of(output),
                there(self._connection.name, f"ls -l {self._log}"),
            )
        return output


def service_of(connection: Connection, deployment: Deployment) -> Service | None:
    """What restarts a deployment; None for a process of which nobody knows how it was started."""
    from triage.evidence.discovery.containers import container_of
    from triage.verify.service.containers import ContainerService
    from triage.verify.service.pods import PodService, pod_of

    container = container_of(deployment)
    if container is not None:
        tool, id = container
        if tool == "crictl" or tool == "kubectl":
            return PodService(connection, pod_of(connection, tool, id), deployment.name)
        return ContainerService(connection, tool, id, deployment.name)
    own = deployment.manager == "systemd-user"
    if not deployment.unit:
        return None
    return SystemdService(connection, deployment.unit, own, deployment.log_namespace)


def lines_of(chunks: Iterator[bytes]) -> Iterator[tuple[str, ...]]:
    """The lines that each chunk completes: of any encoding, each at most MAX_LINE bytes long."""
    rest = bytearray()
    try:
        for chunk in chunks:
            *whole, last = chunk.split(b"\n")
            lines = []
            for part in whole:
                rest += part[: MAX_LINE - len(rest)]
                lines.append(text_of(bytes(rest)))
                rest.clear()
            rest += last[: MAX_LINE - len(rest)]
            yield tuple(lines)
    finally:
        if isinstance(chunks, Generator):
            chunks.close()  # ends the command behind it


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def reason_of(output: Output) -> str:
    """Why a command failed, in its own last words."""
    if output.cut:
        return "it took too long" if output.cut == "time" else "it printed too much"
    return last_words(output)


def refused(output: Output) -> bool:
    """Whether a command failed for lack of rights."""
    denial = rb"authentication required|access denied|permission denied|sudo:|not permitted"
    return bool(re.search(denial, output.stderr, re.IGNORECASE))


def _restarts(found: Mapping[str, str]) -> bool:
    """Is it dead, and about to be started again by systemd?"""
    return found.get("SubState", "").startswith("auto-restart")


def _in_words(found: dict[str, str]) -> str:
    words = [found.get("ActiveState", "")]
    if found.get("Result", "success") != "success":
        words.append(f"result {found['Result']}")
    status = found.get("ExecMainStatus", "")
    if status.isdecimal() and found.get("ExecMainCode") in ("1", "2", "3"):
        name = "" if found["ExecMainCode"] == "1" else _signal_name(int(status))
        words.append(f"status {status}{name}")
    if _restarts(found):
        words.append("to be started again")
    if found.get("ActiveState") in ("inactive", "failed") and is_unmet(found):
        words.append("a condition of its unit is not met")
    return ", ".join(words)


def _signal_name(number: int) -> str:
    try:
        return f"/{signal.Signals(number).name.removeprefix('SIG')}"
    except ValueError:
        return ""
