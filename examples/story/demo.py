"""The story, played: `make demo`. A crash on a machine of its own, found, confirmed, fixed, proven, kept.

Every command that is shown is run as it stands; what it prints is what triage printed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.panel import Panel

from examples.story import plain
from examples.story.acts import PATCH, act
from examples.story.stage import HOST, UNIT, Stage, machine
from tests.e2e.box import why_not


def main() -> int:
    """Play it; exit status 0 when every act went as it should."""
    console = Console(highlight=False)
    reason = why_not()
    if reason:
        console.print(f"[yellow]No test machine here ({reason}): the story plays as a plain process.[/]")
        return plain.main()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="triage-demo-") as scratch:
        console.print(f"booting a Debian machine, {HOST} ...")
        with machine(Path(scratch) / "state") as stage:
            told = play(stage, Path(scratch) / "case", console)
    if told:
        console.print(f"\n[bold green]The story is told[/], in {time.monotonic() - start:.0f} s.")
    return 0 if told else 1


def play(stage: Stage, case: Path, console: Console) -> bool:
    """All acts in order; ends with the first that goes wrong."""
    console.print(
        Panel(
            f"{HOST} runs the real sglang 0.5.11 sources as the unit {UNIT}: "
            "Kimi K2.6, 61 layers, --pp-size 8. It is started now.",
            title="the story",
        )
    )
    with console.status("the service starts"):
        ended = stage.start_and_crash()
    console.print(f"[bold red]{UNIT}: {ended}[/]")
    patch = ("patch", HOST, "--id", PATCH)
    acts = (
        ("What failed first, why, and how sure are we?", ("diagnose", HOST), 1),
        (
            "Keep what was read, redacted, so that the diagnosis is never lost.",
            ("capture", HOST, "-o", str(case)),
            0,
        ),
        ("The CI job: diagnose the captured crash again, without the machine.", ("replay", str(case)), 0),
        ("What would the fix change?", patch, 0),
        ("Make that change: atomically, with a backup and a way back.", (*patch, "--apply", "--yes"), 0),
        (
            "Restart it, wait for a real completion, measure.",
            ("verify", HOST, "--repeats", "3-5", "--requests", "4"),
            0,
        ),
        ("And now?", ("diagnose", HOST), 0),
    )
    return all(act(console, stage.environment, *each) for each in acts)


if __name__ == "__main__":
    sys.exit(main())
