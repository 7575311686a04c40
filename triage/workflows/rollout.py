"""A playbook on several hosts: each in a process of its own, as `triage run PLAYBOOK HOST` would be."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from threading import Lock

from triage.common.errors import DEFECT, INTERRUPTED
from triage.common.json import parse_json
from triage.playbook.waves import HostRun

LAST_WORDS = 2000  # characters of what a host's process said on standard error


class PlaybookProcesses:
    """One for each host, out of reach of the terminal's own Ctrl-C: it is handed on to each once.

    `done` are the hosts whose run came to a good end.
    """

    def __init__(self, file: str, options: Sequence[str], is_interrupted: Callable[[str], bool]) -> None:
        self.done: list[str] = []
        self._file = file
        self._options = options
        self._is_interrupted = is_interrupted
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, host: str) -> HostRun:
        resume = ["--resume"] if self._is_interrupted(host) else []
        words = ["run", "--yes", "--format", "json", *resume, *self._options, "--", self._file, host]
        with self._lock:
            if self._stopped:
                return HostRun(host, INTERRUPTED, None, "not begun: interrupted")
            process = subprocess.Popen(
                [sys.executable, "-m", "triage", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        stdout, stderr = process.communicate()
        with self._lock:
            self._running.remove(process)
        ended = _outcome(host, process.returncode, stdout, stderr)
        if ended.exit_code == 0:
            self.done.append(host)
        return ended

    def interrupt(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.send_signal(signal.SIGINT)


def _outcome(host: str, code: int, stdout: bytes, stderr: bytes) -> HostRun:
    code = code if code >= 0 else 128 - code  # as a shell has it of one that a signal ended
    try:
        found = parse_json(stdout)
        if isinstance(found, dict) and found.get("schema") == "triage.run/1":
            return HostRun(host, code, found)
    except ValueError:
        pass
    said = stderr.decode("utf-8", "replace").strip()[-LAST_WORDS:]
    return HostRun(host, code or DEFECT, None, said or f"it ended with exit code {code} and said nothing")
