"""What can be told of a regular expression without running it: how much it asks for, and what it may cost."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

UNBOUNDED = 1000  # repetitions from which a limit is none
MANY = 8  # repetitions after which what each can do in two ways is done in hundreds
WAYS = 10_000_000  # in which limited repetitions may share out a text
OTHER = 0x4E2D  # stands for every character that is not ASCII
ALL = frozenset((*range(128), OTHER))
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")

Item = tuple[Any, Any]
Characters = frozenset[int]


def literals(pattern: str) -> int:
    """The fewest literal characters that whatever matches must hold."""
    return _literals(_parser.parse(pattern))


def backtracking(pattern: str, whole: bool = False) -> str:
    """Why the pattern can take more than quadratic time on a hostile text; "" when nothing says so.

    `whole` says that it must match all of the text, from its beginning.
    """
    return next(_faults(list(_parser.parse(pattern)), anchored=whole), "")


def _literals(items: Sequence[Item]) -> int:
    total = 0
    for op, argument in items:
        name = str(op)
        if name == "LITERAL":
            total += 1
        elif name == "BRANCH":
            total += min(_literals(part) for part in argument[1])
        elif name in (*_REPEATS, "POSSESSIVE_REPEAT"):
            total += min(argument[0], 20) * _literals(argument[2])
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            total += _literals(_body(name, argument))
    return total


def _faults(items: list[Item], anchored: bool) -> Iterator[str]:
    """Yield the faults of one sequence and of the alternatives in it."""
    flat = list(_flat(items))
    anchored = anchored or (bool(flat) and str(flat[0][0]) == "AT" and "BEGINNING" in str(flat[0][1]))
    for index, (op, argument) in enumerate(flat):
        if str(op) in _REPEATS and argument[1] >= UNBOUNDED and _loose(list(argument[2])):
            yield "nested quantifiers: a repetition of a repetition that nothing sets apart"
        elif str(op) == "BRANCH":
            for part in argument[1]:
                yield from _faults(list(part), anchored or any(map(_least, flat[:index])))
        elif str(op) in (*_REPEATS, "POSSESSIVE_REPEAT"):
            yield from _faults(list(argument[2]), anchored)
        elif str(op) in ("ASSERT", "ASSERT_NOT"):
            yield from _faults(list(argument[1]), anchored=True)
        elif str(op) == "ATOMIC_GROUP":
            yield from _faults(list(argument), anchored)
        if str(op) in _REPEATS and argument[1] >= MANY and _two_ways(list(argument[2])):
            yield "a repetition of something that can take the same characters in several ways"
    if _ways(flat) > WAYS:
        yield "many repetitions that can take the same characters: set them apart, or limit them to fewer"
    previous, before, chain = -1, frozenset[int](), 0
    for index, item in enumerate(flat):
        taken = _repeated(item)
        if taken is None:
            continue
        between = [other for other in flat[previous + 1 : index] if _least(other)]
        if before & taken and not between:
            yield "two unlimited repetitions side by side that can take the same characters"
        if all(_characters(other) & before & taken for other in between) and before:
            chain += 1
        else:  # a search begins anew at each character that can stand before the repetition
            apart = anchored or not all(_characters(other) & taken for other in between)
            chain = 1 if apart else 2
        if chain > 2:
            yield "several unlimited repetitions that can take what stands between them: limit them"
        previous, before = index, taken


def _two_ways(items: list[Item]) -> bool:
    """Whether alternatives in a sequence can begin alike, or a limited repetition in it is not set apart."""
    flat = list(_flat(items))
    for index, (op, argument) in enumerate(flat):
        name = str(op)
        if name == "BRANCH":
            firsts = [_first(list(part)) for part in argument[1]]
            alike = sum(map(len, firsts)) > len(frozenset().union(*firsts))
            if alike or sum(not first for first in firsts) > 1:
                return True
            if any(_two_ways(list(part)) for part in argument[1]):
                return True
        elif name in _REPEATS:
            others = [other for other in (*flat[:index], *flat[index + 1 :]) if _least(other)]
            taken = _union(argument[2])
            varies = argument[0] < argument[1] < UNBOUNDED
            if varies and taken and all(_characters(other) & taken for other in others):
                return True
            if _two_ways(list(argument[2])):
                return True
    return False


def _first(items: list[Item]) -> Characters:
    """Characters that a match of a sequence can begin with; none where it can be empty."""
    found = frozenset[int]()
    for item in _flat(items):
        name, argument = str(item[0]), item[1]
        if name == "BRANCH":
            found |= frozenset().union(*(_first(list(part)) for part in argument[1]))
        elif name in (*_REPEATS, "POSSESSIVE_REPEAT", "ATOMIC_GROUP"):
            body = argument if name == "ATOMIC_GROUP" else argument[2]
            found |= _first(list(body))
        else:
            found |= _characters(item)
        if _least(item):
            return found
    return frozenset()


def _ways(flat: list[Item]) -> int:
    """Return in how many ways the repetitions of a sequence can share what several of them can take."""
    worst = ways = 1
    before, previous = frozenset[int](), -1
    for index, (op, argument) in enumerate(flat):
        if str(op) not in _REPEATS or argument[0] == argument[1]:
            continue
        taken = _union(argument[2])
        between = [other for other in flat[previous + 1 : index] if _least(other)]
        together = before & taken and all(_characters(other) & before & taken for other in between)
        span = min(int(argument[1]), UNBOUNDED) - int(argument[0]) + 1
        ways = ways * span if together else span
        worst, before, previous = max(worst, ways), taken, index
    return worst


def _loose(items: list[Item]) -> list[Characters]:
    """Characters of the unlimited repetitions in a sequence that nothing else in it sets apart."""
    found = []
    flat = list(_flat(items))
    for index, item in enumerate(flat):
        others = [other for other in (*flat[:index], *flat[index + 1 :]) if _least(other)]
        found += [taken for taken in _inner(item) if all(_characters(other) & taken for other in others)]
    return found


def _inner(item: Item) -> list[Characters]:
    name, argument = str(item[0]), item[1]
    if name == "BRANCH":
        return [taken for part in argument[1] for taken in _loose(list(part))]
    if name in _REPEATS:
        taken = _repeated(item)
        return [*([taken] if taken else []), *_loose(list(argument[2]))]
    return []


def _repeated(item: Item) -> Characters | None:
    """The characters that an unlimited repetition takes; None for anything else."""
    name, argument = str(item[0]), item[1]
    if name not in _REPEATS or argument[1] < UNBOUNDED:
        return None
    return _union(argument[2])


def _flat(items: Sequence[Item]) -> Iterator[Item]:
    """Groups opened; a possessive or atomic part never gives back what it took."""
    for item in items:
        name = str(item[0])
        if name == "SUBPATTERN":
            yield from _flat(_body(name, item[1]))
        else:
            yield item


def _body(name: str, argument: Any) -> Sequence[Item]:
    body: Sequence[Item] = argument[3] if name == "SUBPATTERN" else argument
    return body


def _least(item: Item) -> int:
    """The fewest characters that an item takes."""
    name, argument = str(item[0]), item[1]
    if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
        return 1
    if name == "BRANCH":
        return min(sum(map(_least, part)) for part in argument[1])
    if name in (*_REPEATS, "POSSESSIVE_REPEAT"):
        return int(argument[0]) and sum(map(_least, argument[2]))
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return sum(map(_least, _body(name, argument)))
    return 0


def _union(items: Sequence[Item]) -> Characters:
    return frozenset().union(*map(_characters, items))


def _characters(item: Item) -> Characters:
    """Every character that an item can take."""
    name, argument = str(item[0]), item[1]
    if name == "LITERAL":
        return frozenset((_known(argument),))
    if name == "NOT_LITERAL":
        return ALL - ({argument} if argument < 128 else set())
    if name == "ANY":
        return ALL - {10}
    if name == "IN":
        taken = frozenset().union(*map(_member, argument))
        return ALL - taken if str(argument[0][0]) == "NEGATE" else taken
    if name == "BRANCH":
        return frozenset().union(*map(_union, argument[1]))
    if name in (*_REPEATS, "POSSESSIVE_REPEAT"):
        return _union(argument[2])
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _union(_body(name, argument))
    return frozenset()


def _member(item: Item) -> Characters:
    """Return the characters that a set in brackets stands for."""
    name, argument = str(item[0]), item[1]
    if name == "LITERAL":
        return frozenset((_known(argument),))
    if name == "RANGE":
        return frozenset(_known(code) for code in range(argument[0], min(argument[1], 128) + 1))
    if name == "CATEGORY":
        word = str(argument).rpartition("_")[2]
        taken = frozenset(code for code in ALL if re.match(_CATEGORIES[word], chr(code)))
        return ALL - taken if "_NOT_" in str(argument) else taken
    return frozenset()


def _known(code: int) -> int:
    return code if code < 128 else OTHER
