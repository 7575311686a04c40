"""Files of what programs say when they fail -> entries, in the order in which they are tried.

    family: kernel
    order: 10
    lines:
      - needle: "Xid ("
        pattern: 'Xid \\([^)]{1,80}\\): (?P<xid>\\d{1,6})'
        ...

The shipped files lie in `knowledge`; further ones in the directories that the configuration names as `lines`.
They are read and checked once and kept as one JSON file, which takes no YAML and no model to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from triage.common.cache import cache_path, keep
from triage.common.config import load_config
from triage.common.errors import UsageError
from triage.common.files import MAX_JSON, read_plain
from triage.logs.faults import fault_lines
from triage.logs.faults.fault_lines import FaultLine
from triage.logs.faults.weight import Weight

KNOWLEDGE = Path(__file__).parent / "knowledge"


@lru_cache(maxsize=1)
def known_lines() -> tuple[FaultLine, ...]:
    """Return the shipped entries and those of the configuration. Raises UsageError for a broken file."""
    return load_lines(load_config().lines)


def load_lines(extra: Iterable[Path] = ()) -> tuple[FaultLine, ...]:
    """Return the shipped entries and those of further directories, in order. Raises UsageError."""
    files = [path for directory in (KNOWLEDGE, *extra) for path in line_files(directory)]
    here = Path(__file__)
    shapes = (
        here,
        Path(fault_lines.__file__),
        here.with_name("line_schema.py"),
        here.with_name("readers.py"),
    )
    path = cache_path("lines", (*shapes, *files))
    try:
        known = json.loads(read_plain(path, MAX_JSON))
        return tuple(FaultLine(**{**each, "weight": Weight(each["weight"])}) for each in known)
    except (OSError, ValueError, TypeError, KeyError):
        pass  # not kept, or damaged
    from triage.logs.faults.line_schema import read_lines

    lines = read_lines(files)
    keep(path, "lines", json.dumps([asdict(line) for line in lines]).encode())
    return lines


def line_files(directory: Path) -> tuple[Path, ...]:
    """Return every YAML file below a directory, by name. Raises UsageError when it is not one."""
    if not directory.is_dir():
        raise UsageError(
            "reading lines", str(directory), "there is no such directory", f"ls {directory.parent}"
        )
    return tuple(sorted(filter(Path.is_file, directory.rglob("*.yaml"))))
