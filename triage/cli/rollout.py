"""A playbook on several hosts: each in a process of its own, as `triage run PLAYBOOK HOST` would be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from triage.cli import console, next_command
from triage.cli.options import Format
from triage.common.commands import command
from triage.common.errors import RefusedError
from triage.common.wording import counted
from triage.playbook.waves import HostRun, RollOut, roll_out
from triage.report.safe import safe_line
from triage.workflows.rollout import PlaybookProcesses

if TYPE_CHECKING:
    from triage.playbook.model import Playbook

GIVEN = ("var", *next_command.CONNECTION)


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

    processes = PlaybookProcesses(file, next_command.given(*GIVEN), is_interrupted)
    try:
        result = roll_out(waves, processes.run, on_wave, on_host, processes.interrupt, playbook.name)
    except KeyboardInterrupt:
        left = ",".join(host for host in hosts if host not in processes.done)
        words = command(
            "run", "", file, left, "--resume", *next_command.given(*GIVEN, "yes", "canary", "wave")
        )
        done = safe_line(", ".join(processes.done)) or "no host"
        print(f"interrupted; done: {done}. To go on: {safe_line(str(words), 4000)}", file=sys.stderr)
        raise
    console.show(result, format)
    return result
