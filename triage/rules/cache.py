"""Rules that were read and checked before, kept as one JSON file: 300 YAML files take half a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from triage.common import patterns
from triage.common.cache import cache_path, keep
from triage.common.files import MAX_JSON, read_plain
from triage.engines import ENGINES
from triage.rules import schema
from triage.rules.base import CHECKED
from triage.rules.schema import Rule

_RULES: TypeAdapter[tuple[Rule, ...]] = TypeAdapter(tuple[Rule, ...])


def recall(files: Sequence[Path]) -> tuple[Rule, ...] | None:
    """The rules of exactly these files in their present state; None where they are not kept."""
    try:
        return _RULES.validate_json(read_plain(_path(files), MAX_JSON), context=CHECKED)
    except (OSError, ValueError):
        return None


def remember(files: Sequence[Path], rules: tuple[Rule, ...]) -> None:
    """Keep rules for the next time. What cannot be kept is read again then."""
    keep(_path(files), "rules", _RULES.dump_json(rules, by_alias=True, exclude_defaults=True))


def _path(files: Sequence[Path]) -> Path:
    """Rules are kept for the files, and for the shape and the engines that they have in this release."""
    here = Path(schema.__file__)
    shapes = (here.with_name("base.py"), here.with_name("checks.py"), Path(patterns.__file__), here)
    return cache_path("rules", (*shapes, *files), ENGINES)
