"""Programs that stand on a host's PATH in place of the real ones."""

from __future__ import annotations

from pathlib import Path


def put_programs(directory: Path, programs: dict[str, str]) -> Path:
    """Write each shell script as a program of that name. Returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, script in programs.items():
        path = directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return directory
