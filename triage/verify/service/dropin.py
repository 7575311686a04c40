"""Another command for a systemd unit, for a while: a drop-in below /run, never the unit's own file.

It is gone after `remove`, after a reboot, and, where nobody came back for it, when its time is up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.catalogue.systemd import ExecCommand, UnitCommand
from triage.evidence.discovery.layout_trial import FILE, ending, timer_of
from triage.evidence.model import Unanswered
from triage.evidence.redaction.redactor import Redactor
from triage.hosts.connection import Connection, reason_of
from triage.verify.service.model import refused
from triage.verify.service.systemd import SystemdService

DIRECTORY = "/run/systemd/system"
PREFIXES = {  # of ExecStart, by what systemd calls them; systemd.service(5), "Command lines"
    "ignore-failure": "-",
    "no-env-expand": ":",
    "privileged": "+",
    "no-setuid": "!",
    "ambient": "!!",
}

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
        self._timer = timer_of(unit)

    def require_none(self) -> None:
        """Raises RefusedError where there is one: of another bench, or of one that was cut."""
        if self._connection.run(("test", "-e", f"{self._directory}/{FILE}")).code == 0:
            raise RefusedError(
                "try layouts of",
                f"{self._unit} on {self._connection.name}",
                "another triage bench does, or was cut while it did; the host ends that by itself in a while",
                f"{ending(self._unit)}, there, to end it now",
            )

    def write(self, command: ExecCommand, limit: float) -> None:
        """Let the unit run this command from its next start on, for at most `limit` seconds.

        Then the host itself removes it, should nobody come back. Raises RefusedError where systemd does
        not take it over.
        """
        words = (self._directory, FILE, self._timer, f"{max(1, round(limit))}s", self._restore())
        text = content(command).encode("utf-8", "surrogatepass")
        self._run("write a drop-in for", ("sh", "-c", _WRITE, "sh", *words), stdin=text)
        found = command_of(self._connection, self._unit)
        if found != command:
            raise RefusedError(
                "change the command of",
                f"{self._unit} on {self._connection.name}",
                f"systemd goes on with {shown(found.argv)}",
                f"systemctl cat {self._unit}",
            )

    def renew(self) -> None:
        """Let the time that `write` gave begin again. Raises UnreachableError where it is over."""
        self._run("leave the drop-in of", ("systemctl", "restart", f"{self._timer}.timer"))

    def remove(self) -> None:
        """Remove the drop-in if it is there, and have unit and service as they were before."""
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


def command_of(connection: Connection, unit: str) -> ExecCommand:
    """What a unit runs, with the secrets in it: it is to be run again, and not to be shown.

    Raises RefusedError where another drop-in could not mean the same.
    """
    query = UnitCommand(unit)
    output = connection.run(query.argv(), timeout=query.timeout, limit=query.limit)
    try:
        command = query.parse(query.decode(output))
    except Unanswered as reason:
        raise _unfit(connection, unit, f"systemd does not tell its command: {reason}") from None
    if not command.alone:
        raise _unfit(connection, unit, "it has several commands (ExecStart), one after the other")
    if command.flags is None:
        raise _unfit(connection, unit, "its systemd is older than 243, and tells no prefixes of a command")
    unknown = sorted(command.flags - PREFIXES.keys())
    if unknown:
        raise _unfit(connection, unit, f"its command is run in a way of its own: {', '.join(unknown)}")
    return command


def _unfit(connection: Connection, unit: str, happened: str) -> RefusedError:
    return RefusedError(
        "change the command of",
        f"{unit} on {connection.name}",
        happened,
        f"systemctl cat {unit}, there; change its arguments by hand, and run triage verify for each",
    )


def content(command: ExecCommand) -> str:
    """The drop-in. Arguments are as systemd has them after specifiers and before variables: `$` stays."""
    prefixes = "".join(sign for flag, sign in PREFIXES.items() if flag in (command.flags or ()))
    line = " ".join((f"{prefixes}@{quoted(command.program)}", *map(quoted, command.argv)))
    return f"# written by triage bench; removed when it ends\n[Service]\nExecStart=\nExecStart={line}\n"


def shown(argv: Sequence[str]) -> str:
    """A command for a message: short, and without its secrets."""
    return Redactor().redact(shlex.join(argv))[:200]


def quoted(word: str) -> str:
    """One argument as systemd.syntax(7) reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"' + re.sub("[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", escaped) + '"'
