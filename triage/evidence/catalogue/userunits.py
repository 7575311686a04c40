"""What the connecting user's own systemd knows, and what journald kept of its units.

    $ sh -c 'export XDG_RUNTIME_DIR=...; exec "$@"' sh systemctl --user show --all ... --type=service '*'
    $ journalctl --quiet ... _SYSTEMD_INVOCATION_ID=0229... + ... + _STREAM_ID=31f5... + ...

The answers are those of `systemd` and `journal`. An ssh session without PAM has no XDG_RUNTIME_DIR, by which
the manager is found. Who may not read the system's journal may read that of his own units; `--quiet`
leaves out the hint that there is more.

Whose line it is journald sees by its process, for a user's service. Where that has ended before journald
reads it, such as the last words of a rank that dies, the line has neither unit nor invocation, but still the
stream of the service's standard output: so those are asked for, too. Seen with systemd 247 to 262.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from triage.evidence.catalogue.journal import COREDUMP, Journal, UnitRuns
from triage.evidence.catalogue.systemd import ServiceUnits, Unit, UnitCommand, UnitProperties
from triage.evidence.catalogue.windows import JournalWindows

Entry = dict[str, bytes]

_NEEDS = "the user's own journal, or membership in group systemd-journal"
_OWN = 'export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; exec "$@"'
_STREAMS = """
uid=$(id -u); of=$1; shift;
for word do shift; if [ "$word" = _UID= ]; then word=_UID=$uid; fi; set -- "$@" "$word"; done;
for stream in $(journalctl --quiet --no-pager --output=export --lines=2000 "$of" "_UID=$uid" |
    sed -n "s/^_STREAM_ID=//p" | sort -u); do
    set -- "$@" + "_STREAM_ID=$stream" "_UID=$uid";
done;
exec "$@"
"""


def to_own_manager(argv: tuple[str, ...]) -> tuple[str, ...]:
    """`systemctl` or `busctl` that asks the user's own manager."""
    return ("sh", "-c", _OWN, "sh", argv[0], "--user", *argv[1:])


@dataclass(frozen=True)
class UserServiceUnits(ServiceUnits):
    """Every service unit that the user's own systemd has in memory."""

    name: ClassVar[str] = "user-service-units"
    purpose: ClassVar[str] = "find inference services that run as user units"
    absence: ClassVar[str] = "a user unit counts as a plain process"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())

    def parse(self, text: str) -> tuple[Unit, ...]:
        return tuple(replace(unit, manager="systemd-user") for unit in super().parse(text))


@dataclass(frozen=True)
class UserUnitProperties(UnitProperties):
    name: ClassVar[str] = "user-unit-properties"
    purpose: ClassVar[str] = "read the state, result and command of one user unit"
    absence: ClassVar[str] = "how the unit ended is only known from the journal"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())

    def parse(self, text: str) -> Unit:
        return replace(super().parse(text), manager="systemd-user")


@dataclass(frozen=True)
class UserUnitCommand(UnitCommand):
    name: ClassVar[str] = "user-unit-command"
    purpose: ClassVar[str] = "read the exact arguments of a user unit's command"
    absence: ClassVar[str] = "the bounds of arguments with blanks are not known"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())


@dataclass(frozen=True)
class UserUnitRuns(UnitRuns):
    name: ClassVar[str] = "user-unit-runs"
    purpose: ClassVar[str] = "find the run of a user unit that failed"
    absence: ClassVar[str] = "of a unit that restarts, the run that goes on is taken for the one that failed"
    privilege: ClassVar[str] = _NEEDS

    def matches(self) -> tuple[str, ...]:
        """What the manager itself, which runs in init.scope, said of the unit."""
        return ("--quiet", f"--user-unit={self.unit}", "_SYSTEMD_USER_UNIT=init.scope")


@dataclass(frozen=True)
class UserJournal(Journal):
    """Before systemd 246, whose journald knows no invocation of a user's unit, only the question without one
    has what the service itself said."""

    name: ClassVar[str] = "user-journal"
    purpose: ClassVar[str] = "read what a user unit logged in its run that failed"
    absence: ClassVar[str] = "the command ends: without a log there is no diagnosis"
    privilege: ClassVar[str] = _NEEDS

    def argv(self) -> tuple[str, ...]:
        return _with_streams(self.unit, self.invocation, super().argv())

    def matches(self) -> tuple[str, ...]:
        if self.invocation:
            return _run_matches(self.unit, self.invocation)
        own = (f"USER_UNIT={self.unit}", "_UID=", "+", f"_SYSTEMD_USER_UNIT={self.unit}", "_UID=")
        return ("--quiet", "--lines=100000", *own)

    def told(self, found: Iterable[Entry]) -> Iterable[Entry]:
        return _with_runs(super().told(found), self.invocation)


@dataclass(frozen=True)
class UserJournalWindows(JournalWindows):
    name: ClassVar[str] = "user-journal-windows"
    purpose: ClassVar[str] = "find the places in a long run of a user unit that tell of a fault"
    absence: ClassVar[str] = "the whole run is read"
    privilege: ClassVar[str] = _NEEDS

    def argv(self) -> tuple[str, ...]:
        return _with_streams(self.unit, self.invocation, super().argv())

    def matches(self) -> tuple[str, ...]:
        return _run_matches(self.unit, self.invocation)

    def told(self, found: Iterable[Entry]) -> Iterable[Entry]:
        return _with_runs(super().told(found), self.invocation)


def _run_matches(unit: str, invocation: str) -> tuple[str, ...]:
    run = (f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"USER_INVOCATION_ID={invocation}")
    return ("--quiet", *run, "+", f"MESSAGE_ID={COREDUMP}", f"COREDUMP_USER_UNIT={unit}")


def _with_runs(found: Iterable[Entry], invocation: str) -> Iterator[Entry]:
    """Entries that each say their run: what the manager spoke of last, at first `invocation`."""
    for entry in found:
        if "USER_INVOCATION_ID" in entry:
            invocation = entry["USER_INVOCATION_ID"].decode("ascii", "replace")
        elif invocation:
            entry["_SYSTEMD_INVOCATION_ID"] = invocation.encode()
        yield entry


def _with_streams(unit: str, invocation: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command with the streams that the unit's last lines came by, and our user's number for `_UID=`."""
    of = f"_SYSTEMD_INVOCATION_ID={invocation}" if invocation else f"_SYSTEMD_USER_UNIT={unit}"
    return ("sh", "-c", " ".join(_STREAMS.split()), "sh", of, *argv)
