"""What is wrong with rule files before any log is read: their shape, their style, their patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from triage.common.errors import UsageError
from triage.common.files import read_plain
from triage.common.yaml import compose_yaml
from triage.common.yaml_files import MAX_BYTES, InvalidFile, load_model
from triage.rules.load import rule_files
from triage.rules.schema import Rule, Signature
from triage.rules.specificity import specificity

LEAST_LITERALS = 8
"""Characters that a message must hold to leave no other cause."""

TO_WRITE = "TO BE WRITTEN"
"""Stands in a draft for what only a person can say."""


@dataclass(frozen=True)
class Problem:
    """One thing to fix: where, and why."""

    file: Path
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.reason}"


def lint(directories: Iterable[Path], patches: Iterable[str]) -> tuple[Problem, ...]:
    """The problems of every rule file below the directories, in order. `patches` are the ids that exist.

    Raises UsageError when something is no directory.
    """
    known = frozenset(patches)
    problems: list[Problem] = []
    rules: list[tuple[Path, Rule]] = []
    for path in (path for directory in directories for path in rule_files(directory)):
        try:
            rules.append((path, load_model(path, Rule, "rule")))
        except InvalidFile as error:
            problems += (Problem(path, key, reason) for key, reason in error.problems)
        except UsageError as error:
            problems.append(Problem(path, "file", error.happened))
            continue
        problems += (Problem(path, key, "it stands twice; only the last one counts") for key in _twice(path))
    for path, rule in rules:
        problems += (Problem(path, key, reason) for key, reason in _of_rule(rule, known))
    problems += _doubles(rules)
    return tuple(problems)


def _of_rule(rule: Rule, patches: frozenset[str]) -> Iterator[tuple[str, str]]:
    yield from _style(rule)
    yield from _places(rule)
    yield from _remedies(rule, patches)
    for number, signature in enumerate(rule.signatures):
        # the types of other faults are ours, and each is one thing
        is_python = signature.kind in ("", "exception")
        if rule.conclusive and not rule.probes and is_python and specificity(signature) < LEAST_LITERALS:
            yield (
                f"signatures.{number}",
                f"it is conclusive without a probe, but asks for fewer than {LEAST_LITERALS} characters "
                "that are always the same",
            )
    for kind, probes in (("probes", rule.probes), ("falsifiers", rule.falsifiers)):
        for number, probe in enumerate(probes):
            patch = getattr(probe, "patch", None)
            if patch is not None and patch not in patches:
                yield f"{kind}.{number}.patch", f"there is no patch {patch}"


def _style(rule: Rule) -> Iterator[tuple[str, str]]:
    if not rule.title.strip():
        yield "title", "it is empty"
    elif rule.title.rstrip().endswith("."):
        yield "title", "it ends with a full stop"
    if "\n" in rule.title.strip():
        yield "title", "it has more than one line"
    if not rule.explanation.strip():
        yield "explanation", "it is empty"
    for key, text in (("title", rule.title), ("explanation", rule.explanation)):
        if TO_WRITE in text:
            yield key, "it is still to be written"


def _places(rule: Rule) -> Iterator[tuple[str, str]]:
    if rule.role == "consequence" and not rule.cause_in:
        yield "cause_in", "a consequence must say where its cause is to be looked for"
    elif rule.role != "consequence" and rule.cause_in:
        yield "cause_in", f"a {rule.role} has its cause nowhere else"


def _remedies(rule: Rule, patches: frozenset[str]) -> Iterator[tuple[str, str]]:
    if rule.role == "cause" and not rule.remedies:
        yield "remedies", "a cause without a remedy leaves a person with nothing to do"
    for number, remedy in enumerate(rule.remedies):
        for key in ("summary", "set", "distribution"):
            if not str(getattr(remedy, key, "given")).strip():
                yield f"remedies.{number}.{key}", "it is empty"
        patch = getattr(remedy, "patch", None)
        if patch is not None and patch not in patches:
            yield f"remedies.{number}.patch", f"there is no patch {patch}"


def _doubles(rules: Iterable[tuple[Path, Rule]]) -> Iterator[Problem]:
    """Ids and signatures that stand in two rules."""
    ids: dict[str, Path] = {}
    seen: dict[str, Rule] = {}
    for path, rule in rules:
        if rule.id in ids:
            yield Problem(path, "id", f"it is already that of {ids[rule.id]}")
        ids.setdefault(rule.id, path)
        for number, signature in enumerate(rule.signatures):
            mark = _mark(signature)
            other = seen.setdefault(mark, rule)
            if other is not rule and (other.engine == rule.engine or not (other.engine and rule.engine)):
                yield Problem(path, f"signatures.{number}", f"it is also that of {other.id}")


def _mark(signature: Signature) -> str:
    """The signature without the names that it gives to frames."""
    bare = {frame: {"name": True} for frame in range(len(signature.frames))}
    return signature.model_dump_json(exclude={"frames": bare} if bare else None)


def _twice(path: Path) -> Iterator[str]:
    """Keys that stand twice in one mapping, which YAML readers pass over in silence."""
    pending: list[tuple[str, Any]] = [("", compose_yaml(read_plain(path, MAX_BYTES).decode("utf-8-sig")))]
    visited: set[int] = set()
    while pending:
        where, node = pending.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                name = f"{where}{key.value}"
                if name in keys:
                    yield name
                keys.add(name)
                pending.append((f"{name}.", value))
        elif isinstance(node, yaml.SequenceNode):
            pending += ((f"{where}{number}.", item) for number, item in enumerate(node.value))
