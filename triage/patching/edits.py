"""One edit on one file: where it applies, where the fix already is, and the new bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from triage.patching import pattern
from triage.patching.model import Site
from triage.patching.pattern import Match
from triage.patching.schema import Edit
from triage.patching.source import Source, parse
from triage.patching.syntax import words


@dataclass(frozen=True)
class Found:
    """What one edit finds in one file. `new` is the edited file, None when there is nothing to edit."""

    sites: tuple[Site, ...] = ()
    fixed: tuple[Site, ...] = ()
    suspect: tuple[Site, ...] = ()
    outside: tuple[
        Site, ...
    ] = ()  # the defect's shape, outside the class or function that is known to have it
    understood: bool = True  # the class or function is there, or no word of the patterns is
    new: bytes | None = None


def look(edit: Edit, path: str, data: bytes) -> Found:
    """Look for an edit in a file. Raises Unparsable for a file that cannot be read or written back."""
    shapes = (edit.find, edit.replace, *edit.fixed, *edit.suspect)
    if not any(all(word in data for word in words(shape)) for shape in shapes):
        return Found()
    source = parse(data)
    whole: list[cst.CSTNode] = [source.module]
    inside = _named(source.module, edit.inside) if edit.inside else whole
    matches = _matches(edit, (edit.find,), inside)
    everywhere = _matches(edit, (edit.find,), whole) if edit.inside else matches
    known = {id(match.node) for match in matches}
    outside = [match for match in everywhere if id(match.node) not in known]
    fixed = _matches(edit, (edit.replace, *edit.fixed), inside)
    suspect = _matches(edit, edit.suspect, inside)
    if not (matches or outside or fixed or suspect):
        return Found(understood=bool(inside))

    spans = _Spans(source, path)
    changes = [
        (spans.of(part.node), part.text)
        for match in matches
        for part in pattern.substitutions(edit.find, edit.replace, match)
    ]
    new = source.encode(_spliced(source.utf8, changes)) if changes else None
    return Found(
        tuple(spans.site(match, changes) for match in matches),
        tuple(spans.site(match) for match in fixed),
        tuple(spans.site(match) for match in suspect),
        tuple(spans.site(match) for match in outside),
        bool(inside),
        new,
    )


def _matches(edit: Edit, shapes: Iterable[str], scopes: list[cst.CSTNode]) -> list[Match]:
    found: dict[int, Match] = {}
    for shape in shapes:
        for scope in scopes:
            for match in pattern.find(shape, scope):
                if _holds(edit, match):
                    found.setdefault(id(match.node), match)
    return list(found.values())


def _holds(edit: Edit, match: Match) -> bool:
    return all(
        pattern.last_name(match.bound[name]) == condition.last_name
        for name, condition in edit.where.items()
        if name in match.bound
    )


def _named(module: cst.Module, qualified: str) -> list[cst.CSTNode]:
    """The classes and functions of that qualified name; several where a module defines it twice."""

    def definitions(node: cst.CSTNode, prefix: str) -> Iterator[tuple[str, cst.CSTNode]]:
        for child in node.children:
            if isinstance(child, (cst.ClassDef, cst.FunctionDef)):
                name = f"{prefix}{child.name.value}"
                yield name, child
                if qualified.startswith(f"{name}."):
                    yield from definitions(child.body, f"{name}.")
            elif isinstance(child, (cst.BaseCompoundStatement, cst.BaseSuite, cst.Else, cst.ExceptHandler)):
                yield from definitions(child, prefix)

    return [node for name, node in definitions(module, "") if name == qualified]


def _spliced(utf8: bytes, changes: list[tuple[CodeSpan, str]]) -> bytes:
    parts, at = [], 0
    for span, text in sorted(changes, key=lambda change: change[0].start):
        if span.start < at:
            raise ValueError("two sites of one edit overlap")
        parts += [utf8[at : span.start], text.encode()]
        at = span.start + span.length
    return b"".join([*parts, utf8[at:]])


class _Spans:
    """Where nodes stand in a source."""

    def __init__(self, source: Source, path: str) -> None:
        wrapper = MetadataWrapper(source.module, unsafe_skip_copy=True)
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        self._source = source
        self._path = path

    def of(self, node: cst.CSTNode) -> CodeSpan:
        return self._spans[node]

    def site(self, match: Match, changes: Iterable[tuple[CodeSpan, str]] = ()) -> Site:
        """The statement that a match stands in, and what the changes make of it."""
        span, source = self.of(match.node), self._source
        first, last = source.statement(
            source.line_at(span.start), source.line_at(max(span.start, span.start + span.length - 1))
        )
        start, end = source.lines(first, last)
        inner = [
            (CodeSpan(place.start - start, place.length), text)
            for place, text in changes
            if start <= place.start < end
        ]
        text = source.utf8[start:end]
        after = _spliced(text, inner).decode().rstrip("\r\n") if inner else ""
        return Site(self._path, first, last, text.decode().rstrip("\r\n"), after)
