"""A service that systemd runs: its state, its restart, its log."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace

from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.catalogue.namespaces import in_namespace
from triage.evidence.catalogue.systemd import is_unmet
from triage.evidence.catalogue.userunits import to_own_manager
from triage.hosts.connection import Connection, Output, reason_of
from triage.hosts.typed_command import there
from triage.verify.service.model import ServiceState, refused, text_of

_MEMBERS = """
find "/sys/fs/cgroup$1" "/sys/fs/cgroup/systemd$1" -name cgroup.procs -exec cat {} + 2>/dev/null; :
"""


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
