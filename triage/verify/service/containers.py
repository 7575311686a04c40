"""A service that docker or podman runs, also one that compose made: its state, its restart, its log.

$ docker inspect --type=container --format '{{json .State}}' kimi
{"Status":"running","Running":true,"Pid":4711,"ExitCode":0,"OOMKilled":false,"StartedAt":"2026-...",...}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from triage.common.errors import RefusedError, UnreachableError
from triage.common.json import parse_json
from triage.evidence.catalogue.containers import Daemon, Tool
from triage.evidence.catalogue.inside import inside
from triage.evidence.discovery.containers import container_of
from triage.evidence.model import Deployment
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Connection, Output, reason_of
from triage.hosts.sender import command_with
from triage.remote import CONTAINER_COMMAND
from triage.verify.service.model import ServiceState, refused
from triage.verify.service.pods import pod_of

STOP_GRACE = 30  # seconds between SIGTERM and SIGKILL
DEAD = ("exited", "dead", "created", "stopped", "configured")
LEFT = ("removing", "paused", "stopping")
# Standard input that does not end before the command does: a pipe that it could write to itself.
_HELD = (
    "exec 4<&0; : | { exec 3<>/proc/self/fd/0; cat <&4 >/proc/self/fd/3 3<&- 4<&- & "
    'exec "$@" <&3 3<&- 4<&-; }'
)


class ContainerService:
    """One container. A run of it is named by the time when it was started."""

    def __init__(self, connection: Connection, tool: Daemon, id: str, name: str) -> None:
        self.name = name
        self._connection = connection
        self._tool = tool
        self._id = id

    def state(self) -> ServiceState:
        output = self._run("ask for the state of", "inspect", "--type=container", "--format={{json .State}}")
        try:
            found = parse_json(output.stdout)
            status, started, pid = str(found["Status"]), str(found["StartedAt"]), int(found["Pid"])
            code, out_of_memory = int(found["ExitCode"]), bool(found.get("OOMKilled"))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise UnreachableError(
                f"ask {self._tool} for the state of",
                f"{self.name} on {self._connection.name}",
                "its answer makes no sense",
                f"{self._tool} inspect {self.name}",
            ) from None
        restarting = status == "restarting"
        ended = restarting or status in DEAD
        detail = f"{status}, exit status {code}" if ended else status
        return ServiceState(
            active="failed" if ended and code else "inactive" if ended else "active",
            run=started,
            pid=pid or None,
            detail=f"{detail}, out of memory" if ended and out_of_memory else detail,
            pending=status in LEFT,
            restarting=restarting,
        )

    def restart(self) -> None:
        self._run("restart", "restart", "-t", str(STOP_GRACE), timeout=STOP_GRACE + 60)

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        argv = (self._tool, "logs", "--follow", "--since", run, self._id)
        return self._connection.stream(("sh", "-c", 'exec "$@" 2>&1', "sh", *argv), timeout=timeout)

    def _run(self, doing: str, *arguments: str, timeout: float = 30.0) -> Output:
        output = self._connection.run((self._tool, *arguments, self._id), timeout=timeout)
        if output.code == 0:
            return output
        what = (f"{doing} {self.name} on", self._connection.name, reason_of(output))
        if refused(output):
            raise RefusedError(*what, f"join group {self._tool} there, or repeat it with --become")
        raise UnreachableError(*what, f"{self._tool} ps --all")


class Inside:
    """Commands in a container instead of on its host: there are the service's interpreter and its address.

    `newest` names the container when it is asked: that of a pod is another one after each start. With
    `python`, an interpreter there, a command that is given input ends with the tool that has started it.
    """

    contained = True

    def __init__(
        self, connection: Connection, tool: Tool, newest: Callable[[], str | None], python: str = ""
    ) -> None:
        self._connection = connection
        self._tool = tool
        self._newest = newest
        self._python = python
        self.name = connection.name
        self.address = connection.address

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        id = self._newest()
        if id is None:
            return Output(1, b"", b"there is no pod of it now\n")
        command = (*inside(self._tool, id, stdin=True), *argv)
        if stdin and self._python:
            tied = command_with(CONTAINER_COMMAND, self._python, str(len(stdin)), *argv)
            command = ("sh", "-c", _HELD, "sh", *inside(self._tool, id, stdin=True), *tied)
        return self._connection.run(command, stdin=stdin, timeout=timeout, limit=limit)

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        id = self._newest()
        if id is None:
            return iter(())
        command = (*inside(self._tool, id, stdin=True), *argv)
        return self._connection.stream(command, timeout=timeout, stdin=stdin)

    def close(self) -> None:
        """The connection is its owner's."""


def place_of(connection: Connection, deployment: Deployment, python: str = "") -> Connection:
    """Where the service's interpreter is: in its container, or on the host itself. `python`: as in Inside."""
    container = container_of(deployment)
    if container is None:
        return connection
    tool, id = container
    if tool == "crictl" or tool == "kubectl":
        pod = pod_of(connection, tool, id)
        return Inside(connection, tool, lambda: found.id if (found := pod.newest()) else None, python)
    return Inside(connection, tool, lambda: id, python)
