"""Rule files -> rules, with errors that name file and key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from triage.common.errors import UsageError
from triage.common.yaml_files import load_model
from triage.rules.cache import RULES
from triage.rules.schema import Rule

KNOWLEDGE = Path(__file__).parent / "knowledge"


def load_rules(extra: Iterable[Path] = (), base: Path = KNOWLEDGE) -> tuple[Rule, ...]:
    """The shipped rules (or those of `base` instead) and those of further directories, ordered by id.

    Raises UsageError for a broken file, and for an id that stands twice.
    """
    files = [path for directory in (base, *extra) for path in rule_files(directory)]
    known = RULES.recall(files)
    if known is None:
        known = _read(files)
        RULES.remember(files, known)
    return known


def _read(files: Iterable[Path]) -> tuple[Rule, ...]:
    rules: dict[str, Rule] = {}
    origin: dict[str, Path] = {}
    for path in files:
        rule = load_model(path, Rule, "rule")
        if rule.id in rules:
            raise UsageError(
                "reading rule",
                str(path),
                f"its id {rule.id!r} is already that of {origin[rule.id]}",
                "give one of them another id",
            )
        rules[rule.id] = rule
        origin[rule.id] = path
    return tuple(rules[name] for name in sorted(rules))


def rule_files(directory: Path) -> Iterator[Path]:
    """Every rule file below a directory. Raises UsageError when it is not one."""
    if not directory.is_dir():
        raise UsageError(
            "reading rules", str(directory), "there is no such directory", f"ls {directory.parent}"
        )
    yield from sorted(filter(Path.is_file, directory.rglob("*.yaml")))
