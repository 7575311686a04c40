"""Runs a playbook on many hosts: a few first, then in waves, and no further wave after a failure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from triage.common.errors import ExitCode


@dataclass(frozen=True)
class HostRun:
    """The outcome of one host. `document` is its `triage.run/1`; without one, `error` says why."""

    host: str
    exit_code: int
    document: Mapping[str, Any] | None = None
    error: str = ""

    @property
    def reason(self) -> str:
        return self.error if self.document is None else str(self.document.get("reason", ""))


@dataclass(frozen=True)
class RollOut:
    """The outcome of all hosts. `waves` are those that began; the hosts in `left` were not touched."""

    waves: tuple[tuple[HostRun, ...], ...]
    left: tuple[str, ...]
    playbook: str = ""

    @property
    def exit_code(self) -> int:
        return max((run.exit_code for wave in self.waves for run in wave), default=ExitCode.OK)


def waves_of(hosts: Sequence[str], canaries: int, percent: int) -> tuple[tuple[str, ...], ...]:
    """Return the first `canaries` hosts, then waves of `percent` of all hosts, rounded up."""
    size = max(1, math.ceil(len(hosts) * percent / 100))
    first, rest = tuple(hosts[:canaries]), tuple(hosts[canaries:])
    later = tuple(rest[start : start + size] for start in range(0, len(rest), size))
    return (first, *later) if first else later


def roll_out(
    waves: Sequence[Sequence[str]],
    work: Callable[[str], HostRun],
    on_wave: Callable[[int, Sequence[str]], None] = lambda number, hosts: None,
    on_host: Callable[[HostRun], None] = lambda run: None,
    stop: Callable[[], None] = lambda: None,
    playbook: str = "",
) -> RollOut:
    """Run `work` for the hosts of one wave at once, wave after wave, until one host fails.

    `stop` is called on Ctrl-C and must end the work in progress.
    """
    done: list[tuple[HostRun, ...]] = []
    for number, hosts in enumerate(waves, 1):
        on_wave(number, hosts)
        with ThreadPoolExecutor(len(hosts)) as pool:
            runs = []
            try:
                for run in pool.map(work, hosts):
                    on_host(run)
                    runs.append(run)
            except BaseException:
                stop()
                raise
        done.append(tuple(runs))
        if any(run.exit_code != ExitCode.OK for run in runs):
            return RollOut(tuple(done), tuple(host for wave in waves[number:] for host in wave), playbook)
    return RollOut(tuple(done), (), playbook)
