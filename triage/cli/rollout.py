"""A playbook on several hosts: each in a process of its own, as `triage run PLAYBOOK HOST` would be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from triage.cli import again, console
from triage.cli.options import Format
from triage.errors import RefusedError
from triage.jsontext import parse_json
from triage.playbook.waves import HostRun, document, roll_out
from triage.report.safe import safe_line

if TYPE_CHECKING:
    from triage.playbook.model import Playbook

GIVEN = ("var", "ssh_config", "host_key", "become", "inventory")
LAST_WORDS = 2000  # characters of what a host's process said on standard error


def roll_out_on(
    playbook: Playbook, file: str, waves: Sequence[Sequence[str]], yes: bool, format: Format
) -> int:
    """Run it wave by wave, say what became of each host; returns the exit code. Raises RefusedError."""
    hosts = [host for wave in waves for host in wave]
    options = again.given(*GIVEN)
    sizes = ", then ".join(str(len(wave)) for wave in waves)
    if not console.agreed(f"run {playbook.name} on {len(hosts)} hosts, {sizes} at a time?", yes):
        raise RefusedError(
            "running", f"{playbook.name} on {len(hosts)} hosts", "nobody agreed to it", "repeat it with --yes"
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

    result = roll_out(waves, lambda host: _on(host, file, options), on_wave, on_host)
    if not shown:
        from triage.report import json

        print(json.dumps(document(playbook.name, result)))
    elif result.left:
        console.stdout().print(f"stopped; not touched: {safe_line(', '.join(result.left))}", style="yellow")
    return result.exit_code


def _on(host: str, playbook: str, options: Sequence[str]) -> HostRun:
    argv = [sys.executable, "-m", "triage", "run", playbook, host, "--yes", "--format", "json", *options]
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    try:
        found = parse_json(done.stdout)
        if isinstance(found, dict) and found.get("schema") == "triage.run/1":
            return HostRun(host, done.returncode, found)
    except ValueError:
        pass
    said = done.stderr.decode("utf-8", "replace").strip()[-LAST_WORDS:]
    return HostRun(host, done.returncode or 70, None, said or "it said nothing")
