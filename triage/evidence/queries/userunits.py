"""What the connecting user's own systemd knows, and what journald kept of its units.

    $ sh -c 'export XDG_RUNTIME_DIR=...; exec "$@"' sh systemctl --user show --all ... --type=service '*'
    $ journalctl --quiet ... _SYSTEMD_INVOCATION_ID=0229... + USER_INVOCATION_ID=0229... + ...

The answers are those of `systemd` and `journal`. An ssh session without PAM has no XDG_RUNTIME_DIR, by which
the manager is found. Who may not read the system's journal may read that of his own units; `--quiet`
leaves out the hint that there is more. Seen with systemd 252.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from triage.evidence.queries.journal import COREDUMP, Journal, UnitRuns
from triage.evidence.queries.systemd import ServiceUnits, Unit, UnitCommand, UnitProperties
from triage.evidence.queries.windows import JournalWindows

_NEEDS = "the user's own journal, or membership in group systemd-journal"
_OWN = 'export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; exec "$@"'


def to_own_manager(argv: tuple[str, ...]) -> tuple[str, ...]:
    """`systemctl` or `busctl` that asks the user's own manager."""
    return ("sh", "-c", _OWN, "sh", argv[0], "--user", *argv[1:])


@dataclass(frozen=True)
class UserServiceUnits(ServiceUnits):
    """Every service unit that the user's own systemd has in memory."""

    name: ClassVar[str] = "user-service-units"
    purpose: ClassVar[str] = "find inference services that run as user units"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())

    def parse(self, text: str) -> tuple[Unit, ...]:
        return tuple(replace(unit, manager="systemd-user") for unit in super().parse(text))


@dataclass(frozen=True)
class UserUnitProperties(UnitProperties):
    name: ClassVar[str] = "user-unit-properties"
    purpose: ClassVar[str] = "read the state, result and command of one user unit"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())

    def parse(self, text: str) -> Unit:
        return replace(super().parse(text), manager="systemd-user")


@dataclass(frozen=True)
class UserUnitCommand(UnitCommand):
    name: ClassVar[str] = "user-unit-command"
    purpose: ClassVar[str] = "read the exact arguments of a user unit's command"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())


@dataclass(frozen=True)
class UserUnitRuns(UnitRuns):
    name: ClassVar[str] = "user-unit-runs"
    purpose: ClassVar[str] = "find the run of a user unit that failed"
    privilege: ClassVar[str] = _NEEDS

    def matches(self) -> tuple[str, ...]:
        """What the manager itself, which runs in init.scope, said of the unit."""
        return ("--quiet", f"--user-unit={self.unit}", "_SYSTEMD_USER_UNIT=init.scope")


@dataclass(frozen=True)
class UserJournal(Journal):
    name: ClassVar[str] = "user-journal"
    purpose: ClassVar[str] = "read what a user unit logged in its run that failed"
    privilege: ClassVar[str] = _NEEDS

    def matches(self) -> tuple[str, ...]:
        if not self.invocation:
            return ("--quiet", "--lines=100000", f"--user-unit={self.unit}")
        return _run_matches(self.unit, self.invocation)


@dataclass(frozen=True)
class UserJournalWindows(JournalWindows):
    name: ClassVar[str] = "user-journal-windows"
    purpose: ClassVar[str] = "find the places in a long run of a user unit that tell of a fault"
    privilege: ClassVar[str] = _NEEDS

    def matches(self) -> tuple[str, ...]:
        return _run_matches(self.unit, self.invocation)


def _run_matches(unit: str, invocation: str) -> tuple[str, ...]:
    run = (f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"USER_INVOCATION_ID={invocation}")
    return ("--quiet", *run, "+", f"MESSAGE_ID={COREDUMP}", f"COREDUMP_USER_UNIT={unit}")
