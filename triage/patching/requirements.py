"""Preconditions of a patch, decided on the syntax of other modules of the tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triage.patching import inspect
from triage.patching.inspect import ClassSource
from triage.patching.model import Check, SourceTree
from triage.patching.schema import CodeShape, Requirement


def check(
    requirement: Requirement | CodeShape, tree: SourceTree, context: Mapping[str, str]
) -> tuple[Check, ...]:
    """Everything that was looked at; the requirement holds when all of it does.

    Raises Unanswered when a module is there and cannot be read, Unparsable when it cannot be parsed.
    """
    if isinstance(requirement, CodeShape):
        return (_stands(requirement, tree),)
    module, _, name = requirement.subclass_of.rpartition(".")
    base = inspect.find_class(tree, (module,), name)
    if base is None:
        return (Check(f"there is no {name} in {module}", False),)
    serving = requirement.named or context.get(requirement.named_by or "", "")
    if not serving:
        return _any(requirement, tree, base)
    found = inspect.find_class(tree, (module, *requirement.modules), serving)
    if found is None:
        where = ", ".join(requirement.modules)
        open_ = Check(f"{serving}, which serves, was not found in {where}", None)
        return (open_, *_any(requirement, tree, base))
    return _one(requirement, tree, found)


def _stands(requirement: CodeShape, tree: SourceTree) -> Check:
    from triage.patching.edits import where

    files = [file for module in requirement.modules if (file := tree.read(module)) is not None]
    for file in files:
        if found := next(where(requirement.stands, file.path, file.data), None):
            return Check(requirement.says, True, (found,))
    names = ", ".join(file.path for file in files) or ", ".join(requirement.modules)
    return Check(f"not in {names}", False)


def _one(requirement: Requirement, tree: SourceTree, serving: ClassSource) -> tuple[Check, ...]:
    has = inspect.has_attribute(tree, serving, requirement.attribute)
    if requirement.absent:
        return (_lacks(requirement, tree, serving, has),)
    checks = [has]
    if requirement.indexed_in:
        checks.append(inspect.indexes_from(tree, serving, requirement.indexed_in, requirement.attribute))
    return tuple(checks)


def _lacks(requirement: Requirement, tree: SourceTree, serving: ClassSource, has: Check) -> Check:
    if inspect.lineage(tree, serving).method(requirement.attribute) is not None:
        return Check(f"{serving.name} has a method {requirement.attribute}", False, has.sites)
    return dataclasses.replace(has, holds=None if has.holds is None else not has.holds)


def _any(requirement: Requirement, tree: SourceTree, base: ClassSource) -> tuple[Check, ...]:
    """Nobody knows which class serves: all must have the attribute; where only some have, it is open."""
    found = inspect.subclasses(tree, requirement.modules, base)
    checks = [inspect.has_attribute(tree, owner, requirement.attribute) for owner in found]
    with_it = [check for check in checks if check.holds]
    without = [check for check in checks if not check.holds]
    if not with_it:
        return tuple(without) or (inspect.has_attribute(tree, base, requirement.attribute),)
    if not without:
        every = f"every {base.name} of this tree has {requirement.attribute}"
        return (Check(every, True, tuple(site for check in with_it[:1] for site in check.sites)),)
    key = (requirement.named_by or "class").replace("_", " ")
    return tuple(
        dataclasses.replace(
            check, summary=f"{check.summary}, and the {key} that serves is not known", holds=None
        )
        for check in without
    )
