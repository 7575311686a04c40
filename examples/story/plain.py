"""The story without a machine of its own: the service is a plain process here, `triage` looks at `local`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from examples.story.acts import PATCH, act
from examples.story.setup import prepare, site_packages


def main() -> int:
    """Play it in a throw-away copy of the service's environment."""
    console = Console(highlight=False)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="triage-demo-") as scratch:
        directory = Path(scratch) / "service"
        with console.status("installing the service"):
            prepare(directory)
        log, case = Path(scratch) / "service.log", Path(scratch) / "case"
        package = site_packages(directory) / "sglang"
        environment = {**os.environ, "XDG_STATE_HOME": scratch, "TRIAGE_LEDGER": f"{scratch}/ledger"}
        console.print("The real sglang 0.5.11 sources serve Kimi K2.6 with --pp-size 8, as a plain process.")
        with console.status("the service starts"), service(directory, log) as process:
            status = process.wait(timeout=60)
        console.print(f"[bold red]it ended with status {status}[/]")
        patch = ("patch", "local", "--package-root", str(package), "--id", PATCH)
        crashed = (
            ("What failed first, why, and how sure are we?", ("diagnose", "local", "--log", str(log)), 1),
            ("Keep what was read, redacted.", ("capture", "local", "--log", str(log), "-o", str(case)), 0),
            ("The CI job: diagnose the captured crash again.", ("replay", str(case)), 0),
            ("What would the fix change?", patch, 0),
            ("Make that change: atomically, with a backup and a way back.", (*patch, "--apply", "--yes"), 0),
        )
        for title, command, expected in crashed:
            if not act(console, environment, title, command, expected):
                return 1
        console.print("\n[bold cyan]Start it again.[/]")
        with service(directory, log) as process:
            with console.status("the service starts"):
                wait_until_healthy(process)
            prove = ("verify", "local", "--no-restart", "--requests", "4", "--repeats", "3-5")
            if not act(console, environment, "Does it answer, and how fast?", prove, 0):
                return 1
    console.print(f"\n[bold green]The story is told[/], in {time.monotonic() - start:.0f} s.")
    return 0


@contextlib.contextmanager
def service(directory: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The service as a process, ended afterwards."""
    command = [sys.executable, "-m", "examples.story.run", str(directory), "--log", str(log)]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=30)


def wait_until_healthy(process: subprocess.Popen[bytes], timeout: float = 60.0) -> None:
    """Raises TimeoutError when it does not answer in time, or ends."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen("http://127.0.0.1:30000/health", timeout=20).close()
            return
        time.sleep(0.3)
    raise TimeoutError("the service did not come up")
