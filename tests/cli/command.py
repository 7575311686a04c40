"""`triage` as a person runs it: another process, its exit code and what it printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

TRIAGE = (sys.executable, "-m", "triage")


def triage(*words: str, cwd: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command line. Standard input is empty unless `input` or `stdin` is given."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([*TRIAGE, *words], cwd=cwd, text=True, timeout=120, **options)
