"""Ctrl-C while the commands are still being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from triage.common.errors import INTERRUPTED

ROOT = Path(__file__).parents[2]
INTERRUPTS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n"


def started(place: Path, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """triage, with a library in its way that has it interrupted as it is imported."""
    (place / "typer.py").write_text(INTERRUPTS)
    return subprocess.run(
        [sys.executable, "-m", "triage", "--version"],
        env={**os.environ, "PYTHONPATH": f"{place}:{ROOT}"},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: (
            signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL) and None
        ),
    )


def test_it_ends_without_a_word(tmp_path: Path) -> None:
    done = started(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


def test_where_a_shell_has_it_ignored_it_stays_ignored(tmp_path: Path) -> None:
    assert started(tmp_path, ignored=True).returncode == 7
