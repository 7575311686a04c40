"""One edit on one file: where it applies, where the fix already is, and the new bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from triage.patching import pattern
from triage.patching.model import Site
from triage.patching.pattern import Match
from triage.patching.schema import Edit
from triage.patching.source import Segment, Source, parse
from triage.patching.syntax import may_match

Span = tuple[int, int]  # start and end, as offsets into a source
Change = tuple[Span, str]  # and the text that takes its place


@dataclass(frozen=True)
class Found:
    """What one edit finds in one file. `new` is the edited file, None when there is nothing to edit.

    `outside` are sites of the defect's shape outside the class or function that is known to have it.
    """

    sites: tuple[Site, ...] = ()
    fixed: tuple[Site, ...] = ()
    suspect: tuple[Site, ...] = ()
    outside: tuple[Site, ...] = ()
    new: bytes | None = None


@dataclass(frozen=True)
class _Place:
    """A match, and where it stands."""

    segment: Segment
    match: Match

    @property
    def span(self) -> Span:
        return self.segment.span(self.match.node)


def look(edit: Edit, path: str, data: bytes) -> Found:
    """Look for an edit in a file. Raises Unparsable for a file that cannot be read or written back."""
    others = (edit.replace, *edit.fixed, *edit.suspect)
    if not any(may_match(shape, data) for shape in (edit.find, *others)):
        return Found()
    source = parse(data)
    inside: list[_Place] = []
    outside: list[_Place] = []
    fixed: list[_Place] = []
    suspect: list[_Place] = []

    def wanted(part: bytes) -> bool:
        here = not edit.inside or edit.inside.partition(".")[0].encode() in part
        return may_match(edit.find, part) or (here and any(may_match(shape, part) for shape in others))

    for segment in source.segments(wanted):
        scopes = _scopes(edit, segment.module)
        inside += _places(edit, (edit.find,), segment, scopes)
        fixed += _places(edit, (edit.replace, *edit.fixed), segment, scopes)
        suspect += _places(edit, edit.suspect, segment, scopes)
        if edit.inside:
            known = {id(place.match.node) for place in inside}
            everywhere = _places(edit, (edit.find,), segment, [segment.module])
            outside += [place for place in everywhere if id(place.match.node) not in known]

    changes = [
        (place.segment.span(part.node), part.text)
        for place in inside
        for part in pattern.substitutions(edit.find, edit.replace, place.match)
    ]
    return Found(
        tuple(_site(source, path, place.span, changes) for place in inside),
        tuple(_site(source, path, place.span) for place in fixed),
        tuple(_site(source, path, place.span) for place in suspect),
        tuple(_site(source, path, place.span) for place in outside),
        source.encode(_spliced(source.utf8, changes)) if changes else None,
    )


def _places(
    edit: Edit, shapes: Iterable[str], segment: Segment, scopes: Iterable[cst.CSTNode]
) -> list[_Place]:
    found: dict[int, _Place] = {}
    for scope in scopes:
        for shape in shapes:
            for match in pattern.find(shape, scope):
                if _holds(edit, match):
                    found.setdefault(id(match.node), _Place(segment, match))
    return list(found.values())


def _holds(edit: Edit, match: Match) -> bool:
    return all(
        pattern.last_name(match.bound[name]) == condition.last_name
        for name, condition in edit.where.items()
        if name in match.bound
    )


def _scopes(edit: Edit, module: cst.Module) -> list[cst.CSTNode]:
    """The module, or the classes and functions of the qualified name that the edit must stand in."""
    qualified = edit.inside
    if not qualified:
        return [module]

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


def _site(source: Source, path: str, span: Span, changes: Iterable[Change] = ()) -> Site:
    """The statement around a span, and what the changes make of it."""
    last_offset = max(span[0], span[1] - 1)
    first, last = source.statement(source.line_at(span[0]), source.line_at(last_offset))
    start, end = source.lines(first, last)
    inner = [((a - start, b - start), text) for (a, b), text in changes if start <= a < end]
    before = source.utf8[start:end]
    after = _spliced(before, inner).decode().rstrip("\r\n") if inner else ""
    return Site(path, first, last, before.decode().rstrip("\r\n"), after)


def _spliced(utf8: bytes, changes: Iterable[Change]) -> bytes:
    parts, at = [], 0
    for (start, end), text in sorted(changes):
        if start < at:
            raise ValueError("two sites of one edit overlap")
        parts += [utf8[at:start], text.encode()]
        at = end
    return b"".join([*parts, utf8[at:]])
