"""A service that is a command of its own, which nothing supervises: its start, its end, its log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triage.common.errors import RefusedError, UnreachableError
from triage.hosts.connection import Connection, Output, reason_of
from triage.hosts.typed_command import there
from triage.verify.service.model import ServiceState, text_of

STOP_GRACE = 20.0  # seconds between SIGTERM and SIGKILL


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
