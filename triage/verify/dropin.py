"""Another command for a systemd unit, for a while: a drop-in below /run, never the unit's own file.

It is gone after `remove`, after a reboot, and, where nobody came back for it, when its time is up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.errors import RefusedError, UnreachableError
from triage.evidence.live import LiveEvidence
from triage.evidence.queries.systemd import Command, UnitCommand
from triage.hosts.connection import Connection
from triage.verify.service import SystemdService, reason_of, refused

DIRECTORY = "/run/systemd/system"
FILE = "zz-triage-layout.conf"  # read after an administrator's own, whose last word would count else

_WRITE = """
set -e
umask 022
systemctl stop "$3.timer" </dev/null 2>/dev/null || true
systemd-run --quiet --collect --unit="$3" --description="takes away a layout that triage bench tried" \
    --on-active="$4" --timer-property=AccuracySec=1s sh -c "$5" </dev/null
mkdir -p -- "$1"
cat >"$1/.$2.new"
mv -f -- "$1/.$2.new" "$1/$2"
systemctl daemon-reload
"""
_REMOVE = """
set -e
test ! -e {file} || {{ {restore}; }}
systemctl stop {timer}.timer 2>/dev/null || true
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

    def require_none(self) -> None:
        """Raises RefusedError where there is one: of another bench, or of one that was cut."""
        if self._connection.run(("test", "-e", f"{self._directory}/{FILE}")).code == 0:
            raise RefusedError(
                "try layouts of",
                f"{self._unit} on {self._connection.name}",
                "another triage bench does, or was cut while it did; the host ends that by itself in a while",
                f"systemctl start {self._timer}.service, there, to end it now",
            )

    def write(self, program: str, argv: Sequence[str], limit: float) -> None:
        """Let the unit run this command from its next start on, for at most `limit` seconds.

        Then the host itself removes it, should nobody come back. Raises RefusedError where systemd does
        not take it over.
        """
        words = (self._directory, FILE, self._timer, f"{max(1, round(limit))}s", self._restore())
        text = content(program, argv).encode("utf-8", "surrogatepass")
        self._run("write a drop-in for", ("sh", "-c", _WRITE, "sh", *words), stdin=text)
        command = LiveEvidence(self._connection).ask(UnitCommand(self._unit)).value
        if command is not None and command != Command(program, tuple(argv)):
            raise RefusedError(
                "change the command of",
                f"{self._unit} on {self._connection.name}",
                f"systemd goes on with {shlex.join(command.argv)[:200]}",
                f"systemctl cat {self._unit}",
            )

    def remove(self) -> None:
        """Where it is there, have the unit as it was, and the service running or stopped as it was."""
        file = shlex.quote(f"{self._directory}/{FILE}")
        script = _REMOVE.format(file=file, restore=self._restore(), timer=self._timer)
        self._run("remove the drop-in of", ("sh", "-c", script))

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
