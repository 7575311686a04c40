"""Rules and patches that the operator has: the shipped ones, those of the configuration, those given here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from triage.common.commands import command
from triage.common.config import load_config, with_configured
from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.patching.schema import Patch
    from triage.rules.schema import Rule
    from triage.workflows.diagnose import Knowledge


def knowledge(rules: Iterable[Path] | None = None) -> Knowledge:
    """All rules and patches; `rules` are further directories. Raises UsageError for a broken file."""
    from triage.workflows import diagnose

    return diagnose.load_knowledge(rule_directories(rules), load_config().patches)


def rule_directories(rules: Iterable[Path] | None = None) -> tuple[Path, ...]:
    """Return the rule directories of the configuration and those given. Raises UsageError."""
    return with_configured(load_config().rules, rules)


def known_patches(patches: Iterable[Path] | None = None) -> tuple[Patch, ...]:
    """All patches; `patches` are further directories. Raises UsageError."""
    from triage.patching.load import load_patches

    return load_patches(with_configured(load_config().patches, patches))


def find_rule(id: str, rules: Iterable[Path] | None = None) -> Rule:
    """The rule of that id. Raises UsageError that names similar ones."""
    from triage.rules.load import load_rules

    known = {rule.id: rule for rule in load_rules(rule_directories(rules))}
    if id not in known:
        from difflib import get_close_matches

        near = get_close_matches(id, known, 3)
        next = command("explain", "", near[0]) if near else command("rules list")
        similar = f"; there is {', '.join(near)}" if near else ""
        raise UsageError("looking for rule", id, f"there is no such rule{similar}", next)
    return known[id]
