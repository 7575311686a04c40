"""Another command for a systemd unit, for a while: a drop-in below /run, never the unit's own file.

It is gone after `remove`, after a reboot, and, where nobody came back for it, when its time is up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.errors import RefusedError, UnreachableError
from triage.hosts.connection import Connection
from triage.verify.service import SystemdService, reason_of, refused

DIRECTORY = "/run/systemd/system"
FILE = "90-triage-layout.conf"

_WRITE = """
set -e
umask 022
mkdir -p -- "$1"
cat >"$1/.$2.new"
mv -f -- "$1/.$2.new" "$1/$2"
systemctl daemon-reload
"""
# One line without `$` and `;`: systemd reads it again from a unit of its own, with its own idea of these.
_RESTORE = (
    "rm -f -- {file} && (rmdir -- {directory} 2>/dev/null || true) && systemctl daemon-reload"
    " && systemctl {verb} --no-block {unit}"
)


class DropIn:
    """The one of a unit. `verb` is what it takes to have the service as it was: restart, or stop."""

    def __init__(self, connection: Connection, unit: str, verb: str) -> None:
        self._connection = connection
        self._unit = SystemdService(connection, unit).name  # which refuses what is no name of a unit
        self._directory = f"{DIRECTORY}/{unit}.d"
        self._verb = verb
        self._timer = f"triage-restore-{re.sub('[^A-Za-z0-9]', '_', unit)}"

    def write(self, program: str, argv: Sequence[str], limit: float) -> None:
        """Let the unit run this command from its next start on, for at most `limit` seconds."""
        self._arm(limit)
        script = ("sh", "-c", _WRITE, "sh", self._directory, FILE)
        self._run("write a drop-in for", script, stdin=content(program, argv).encode())

    def remove(self) -> None:
        """Have the unit as it was, and the service running or stopped as it was."""
        self._run("remove the drop-in of", ("sh", "-c", self._restore()))
        self._connection.run(("systemctl", "stop", f"{self._timer}.timer"))

    def _arm(self, limit: float) -> None:
        """Have the host itself remove it, should nobody come back."""
        self._connection.run(("systemctl", "stop", f"{self._timer}.timer"))
        when = (f"--on-active={max(1, round(limit))}s", "--timer-property=AccuracySec=1s")
        named = (f"--unit={self._timer}", "--description=takes away a layout that triage bench tried")
        argv = ("systemd-run", "--quiet", "--collect", *named, *when, "sh", "-c", self._restore())
        self._run("set a time limit for the drop-in of", argv)

    def _restore(self) -> str:
        place = {"file": f"{self._directory}/{FILE}", "directory": self._directory, "unit": self._unit}
        return _RESTORE.format(verb=self._verb, **{name: shlex.quote(value) for name, value in place.items()})

    def _run(self, doing: str, argv: Sequence[str], stdin: bytes = b"") -> None:
        output = self._connection.run(argv, stdin=stdin)
        if output.code == 0:
            return
        what = (f"{doing} {self._unit} on", self._connection.name, reason_of(output))
        if refused(output):
            raise RefusedError(*what, "repeat it as root, or with --become where sudo asks for no password")
        raise UnreachableError(*what, f"systemctl cat {self._unit}")


def content(program: str, argv: Sequence[str]) -> str:
    """The drop-in. `argv` is as systemd has it after specifiers and before variables: `$` stays."""
    command = " ".join((f"@{quoted(program)}", *map(quoted, argv)))
    return f"# written by triage bench; removed when it ends\n[Service]\nExecStart=\nExecStart={command}\n"


def quoted(word: str) -> str:
    """One argument as systemd.syntax(7) reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"' + re.sub("[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", escaped) + '"'
