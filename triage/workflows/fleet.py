"""Does the same on many hosts at once: bounded, each for itself, and ended as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from triage.common.errors import DEFECT, ExitCode, TriageError
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection
from triage.hosts.inventory.model import Host
from triage.workflows import diagnose
from triage.workflows.prompts import Prompts

if TYPE_CHECKING:
    from triage.hosts.options import ConnectionOptions
    from triage.workflows.diagnose import Knowledge, Report

T = TypeVar("T")


@dataclass(frozen=True)
class HostOutcome(Generic[T]):
    """What became of one host: a value, or the error that ended its part."""

    host: Host
    value: T | None = None
    error: Exception | None = None

    @property
    def failure(self) -> int:
        """The exit code of its error; 0 without one."""
        if self.error is None:
            return ExitCode.OK
        return self.error.exit_code if isinstance(self.error, TriageError) else DEFECT


@dataclass(frozen=True)
class FleetResult:
    """The diagnoses of several hosts, in the order of the hosts."""

    outcomes: tuple[HostOutcome[Report], ...]

    @property
    def exit_code(self) -> int:
        return max(map(exit_code, self.outcomes))


@dataclass(frozen=True)
class Alike:
    """Hosts whose last incident is the same: its fingerprint, and what is said of it. `report` is the
    first one's."""

    hosts: tuple[str, ...]
    fingerprint: str
    rule: str
    certainty: str
    report: Report


def on_each(
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    forks: int,
    questions: Prompts,
    told: Callable[[Host, HostOutcome[T] | None], None] = lambda host, outcome: None,
) -> tuple[HostOutcome[T], ...]:
    """Do `work` for each host, `forks` at a time; the outcomes in the order of the hosts.

    `told` hears of each host's beginning (None) and end, the latter in the calling thread. On Ctrl-C `stop`
    of the questions is set, what has not begun never does, and what runs is waited for: it has to look at
    `stop`. The calling thread is also that which answers the questions.
    """
    stop = questions.stop

    def one(host: Host) -> HostOutcome[T]:
        if stop.is_set():
            raise KeyboardInterrupt
        told(host, None)
        try:
            return HostOutcome(host, work(host))
        except Exception as error:
            return HostOutcome(host, error=error)

    with ThreadPoolExecutor(max(1, min(forks, len(hosts)))) as pool:
        futures = [pool.submit(one, host) for host in hosts]
        try:
            for future in futures:
                future.add_done_callback(questions.events.put)
            for _ in futures:
                outcome = questions.next_ended().result()
                told(outcome.host, outcome)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(future.result() for future in futures)


def diagnose_hosts(
    hosts: Sequence[Host],
    known: Knowledge,
    unit: str,
    reach: Callable[[Host], ConnectionOptions],
    forks: int,
    questions: Prompts,
    told: Callable[[Host, HostOutcome[Report] | None], None] = lambda host, outcome: None,
) -> tuple[HostOutcome[Report], ...]:
    """Connect to each as `reach` says, and diagnose it; `unit`, or that of the inventory."""

    def one(host: Host) -> Report:
        with closing(open_connection(host.name, reach(host))) as connection:
            return diagnose.diagnose(LiveEvidence(connection), known, unit or host.settings.unit)

    return on_each(hosts, one, forks, questions, told)


def alike(outcomes: Iterable[HostOutcome[Report]]) -> tuple[Alike, ...]:
    """The hosts with an incident, those with the same one together; what most have comes first."""
    found: dict[tuple[str, str, str], list[HostOutcome[Report]]] = {}
    for outcome in outcomes:
        if outcome.value is not None and outcome.value.incidents:
            last = outcome.value.incidents[-1]
            standing = (item.rule for item in last.diagnoses if item.outcome != "refuted")
            key = (last.incident.fingerprint, next(standing, ""), last.verdict.certainty)
            found.setdefault(key, []).append(outcome)
    groups = [
        Alike(tuple(each.host.name for each in members), *key, members[0].value)
        for key, members in found.items()
        if members[0].value is not None
    ]
    return tuple(sorted(groups, key=lambda group: -len(group.hosts)))


def exit_code(outcome: HostOutcome[Report]) -> int:
    """Return the exit code that `triage diagnose` of that host alone would have."""
    if outcome.value is None:
        return outcome.failure
    return ExitCode.OK if outcome.value.outcome == "nothing-failed" else ExitCode.FOUND
