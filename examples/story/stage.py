"""A real machine of its own with the story's service on it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from examples.story.prepare import SERVICE
from tests.e2e.box import Box, Overlay, interpreter

UNIT = "sglang-kimi.service"
HOST = "gpu01"
HOME = "/opt/sglang"  # where the machine has the service's environment


@dataclass(frozen=True)
class Stage:
    """A machine with the story's service on it, not started yet."""

    host: str
    environment: dict[str, str] = field(repr=False)  # for the commands of the story
    box: Box

    def start_and_crash(self, timeout: float = 60.0) -> str:
        """Start the unit and wait for its end; what systemd says of that. Raises TimeoutError."""
        self.box.run(["systemctl", "start", "--no-block", UNIT])
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            state = self.property("ActiveState")
            if state == "failed":
                return f"{state}, result {self.property('Result')}, status {self.property('ExecMainStatus')}"
            time.sleep(0.2)
        raise TimeoutError(f"{UNIT} is {state} after {timeout:g} s")

    def property(self, name: str) -> str:
        """One property of the unit, as systemd tells it."""
        return self.box.run(["systemctl", "show", "--value", "-p", name, UNIT]).stdout.strip()

    def run(self, *arguments: str, timeout: float = 180.0) -> subprocess.CompletedProcess[str]:
        """A command of triage, as a person would type it."""
        return subprocess.run(
            [sys.executable, "-m", "triage", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@contextlib.contextmanager
def machine(state: Path, service: Path = SERVICE) -> Iterator[Stage]:
    """A booted box named gpu01 with the unit installed; `state` takes what triage remembers."""
    unit = (service / UNIT).read_text().replace(str(service), HOME)
    files = {f"/etc/systemd/system/{UNIT}": unit}
    with Box(HOST, binds=interpreter(), overlays=[Overlay(service, HOME)], files=files) as box:
        box.run(["systemctl", "daemon-reload"])
        environment = {
            **os.environ,
            "TRIAGE_SSH_CONFIG": str(box.ssh_config()),
            "XDG_STATE_HOME": str(state),
            "COLUMNS": "120",
        }
        yield Stage(HOST, environment, box)
