"""Rules that were read and checked before, kept as one JSON file: 300 YAML files take half a second."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage import __version__
from triage.common.errors import TriageError
from triage.common.files import write_atomically
from triage.engines import ENGINES
from triage.rules import schema
from triage.rules.base import CHECKED
from triage.rules.schema import Rule

KEPT = 4  # files of earlier states of the rules
_RULES: TypeAdapter[tuple[Rule, ...]] = TypeAdapter(tuple[Rule, ...])


def recall(files: Sequence[Path]) -> tuple[Rule, ...] | None:
    """The rules of exactly these files in their present state; None where they are not kept."""
    try:
        return _RULES.validate_json(_path(files).read_bytes(), context=CHECKED)
    except (OSError, ValidationError):
        return None


def remember(files: Sequence[Path], rules: tuple[Rule, ...]) -> None:
    """Keep rules for the next time. What cannot be kept is read again then."""
    path = _path(files)
    with contextlib.suppress(TriageError, OSError):
        write_atomically(path, _RULES.dump_json(rules, by_alias=True, exclude_defaults=True))
        old = sorted(path.parent.glob("rules-*.json"), key=lambda other: other.stat().st_mtime)
        for other in old[:-KEPT]:
            other.unlink(missing_ok=True)


def _path(files: Sequence[Path]) -> Path:
    """The name tells the files, their sizes and times, and the shape and engines of rules in this release."""
    digest = hashlib.sha256("\0".join((__version__, *ENGINES)).encode())
    here = Path(schema.__file__)
    shapes = (here.with_name("base.py"), here.with_name("checks.py"), here)
    for file in (*shapes, *files):
        state = file.stat()
        digest.update(f"{file}\0{state.st_size}\0{state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return home / "triage" / f"rules-{digest.hexdigest()[:24]}.json"
