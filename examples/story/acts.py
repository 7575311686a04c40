"""One act of the story: a command of triage, shown and run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

PATCH = "sglang-triton-value-head-dim"


def act(
    console: Console, environment: Mapping[str, str], title: str, command: Sequence[str], expected: int
) -> bool:
    """Run one command in the open; tells whether it ended with the expected status."""
    console.print()
    console.print(Text(title, "bold cyan"))
    console.print(Text(f"$ triage {' '.join(command)}", "bold"))
    done = subprocess.run([sys.executable, "-m", "triage", *command], env=environment, check=False)
    if done.returncode != expected:
        console.print(Text(f"that ended with {done.returncode}, not {expected}", "bold red"))
    return done.returncode == expected
