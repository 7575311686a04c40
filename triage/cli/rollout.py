"""A playbook on several hosts: each in a process of its own, as `triage run PLAYBOOK HOST` would be."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from triage.cli import console, next_command
from triage.cli.options import Format
from triage.common.commands import command
from triage.common.errors import DEFECT, INTERRUPTED, RefusedError
from triage.common.json import parse_json
from triage.common.wording import counted
from triage.playbook.waves import HostRun, RollOut, document, roll_out
from triage.report.safe import safe_line

if TYPE_CHECKING:
    from triage.playbook.model import Playbook

GIVEN = ("var", *next_command.CONNECTION)
LAST_WORDS = 2000  # characters of what a host's process said on standard error


def roll_out_on(
    playbook: Playbook,
    file: str,
    waves: Sequence[Sequence[str]],
    yes: bool,
    format: Format,
    is_interrupted: Callable[[str], bool] = lambda host: False,
) -> RollOut:
    """Run it wave by wave, and say what became of each host. Raises RefusedError.

    On a host where an earlier run `is_interrupted`, that is gone on with.
    """
    hosts = [host for wave in waves for host in wave]
    sizes = ", then ".join(str(len(wave)) for wave in waves)
    if not console.agreed(f"run {playbook.name} on {counted(len(hosts), 'host')}, {sizes} at a time?", yes):
        raise RefusedError(
            "running",
            f"{playbook.name} on {counted(len(hosts), 'host')}",
            "nobody agreed to it",
            "repeat it with --yes",
        )
    shown = format is Format.TEXT

    def on_wave(number: int, wave: Sequence[str]) -> None:
        if shown:
            console.stdout().print(
                f"wave {number} of {len(waves)}: {safe_line(', '.join(wave))}", style="bold"
            )

    def on_host(run: HostRun) -> None:
        if shown:
            words = "done" if run.exit_code == 0 else f"exit code {run.exit_code}: {safe_line(run.reason)}"
            console.stdout().print(f"  {safe_line(run.host)}: {words}", soft_wrap=True)

    processes = _Processes(file, next_command.given(*GIVEN), is_interrupted)
    try:
        result = roll_out(waves, processes.run, on_wave, on_host, processes.interrupt)
    except KeyboardInterrupt:
        left = ",".join(host for host in hosts if host not in processes.done)
        words = command(
            "run", "", file, left, "--resume", *next_command.given(*GIVEN, "yes", "canary", "wave")
        )
        done = safe_line(", ".join(processes.done)) or "no host"
        print(f"interrupted; done: {done}. To go on: {safe_line(str(words), 4000)}", file=sys.stderr)
        raise
    if not shown:
        from triage.report import json

        print(json.dumps(document(playbook.name, result)))
    elif result.left:
        console.stdout().print(f"stopped; not touched: {safe_line(', '.join(result.left))}", style="yellow")
    return result


class _Processes:
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
