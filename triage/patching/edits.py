"""One edit on one file: where it applies, where the fix already is, and the new bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from triage.patching import pattern
from triage.patching.model import Site
from triage.patching.pattern import SiteMatch
from triage.patching.schema import Edit
from triage.patching.source import Segment, Source, parse
from triage.patching.syntax import is_block, may_match

Span = tuple[int, int]  # start and end, as offsets into a source
Change = tuple[Span, str]  # and the text that takes its place


@dataclass(frozen=True)
class FoundSite:
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
    match: SiteMatch
    elsewhere: bool = False  # a fix that does not stand at the statement that has the defect

    @property
    def span(self) -> Span:
        return self.segment.span(self.match.node)


def look(edit: Edit, path: str, data: bytes) -> FoundSite:
    """Look for an edit in a file. Raises Unparsable for a file that cannot be read or written back."""
    others = (edit.replace, *edit.fixed, *edit.suspect)
    if not any(may_match(shape, data) for shape in (edit.find, *others)):
        return FoundSite()
    source = parse(data)
    inside: list[_Place] = []
    outside: list[_Place] = []
    fixed: list[_Place] = []
    suspect: list[_Place] = []

    def wanted(part: bytes) -> bool:
        here = not edit.inside or edit.inside.partition(".")[0].encode() in part
        return may_match(edit.find, part) or (here and any(may_match(shape, part) for shape in others))

    def needed(method: bytes) -> bool:
        return any(may_match(shape, method) for shape in (edit.find, *others))

    for segment in source.segments(wanted, needed):
        scopes = _scopes(edit, segment.module)
        mended = _mended(edit, segment, scopes)
        found = _places(edit, (edit.find,), segment, scopes)
        if not (edit.keeps and any(place.elsewhere for place in mended)):
            inside += [place for place in found if not _within(place, mended)]
        fixed += mended
        suspect += _places(edit, edit.suspect, segment, scopes)
        if edit.inside:
            everywhere = _places(edit, (edit.find,), segment, [segment.module])
            known = found + _mended(edit, segment, [segment.module])
            outside += [place for place in everywhere if not _within(place, known)]

    made = [(place, _changes(edit, source, place)) for place in inside]
    suspect += [place for place, own in made if own is None]
    changes = [change for _, own in made for change in own or ()]
    return FoundSite(
        tuple(_site(source, path, place.span, changes) for place, own in made if own is not None),
        tuple(_site(source, path, place.span) for place in fixed),
        tuple(_site(source, path, place.span) for place in suspect),
        tuple(_site(source, path, place.span) for place in outside),
        source.encode(_spliced(source.utf8, changes)) if changes else None,
    )


def where(shapes: Sequence[str], path: str, data: bytes) -> Iterator[Site]:
    """The places of some shapes in a file. Raises Unparsable."""

    def may_be_in(part: bytes) -> bool:
        return any(may_match(shape, part) for shape in shapes)

    if may_be_in(data):
        source = parse(data)
        for segment in source.segments(may_be_in, may_be_in):
            for match in (match for shape in shapes for match in pattern.find(shape, segment.module)):
                yield _site(source, path, segment.span(match.node))


def _within(place: _Place, others: Iterable[_Place]) -> bool:
    """Is a place one of some others, or a part of one, as `x` is of its fix `g(x)`?"""
    return any(node is place.match.node for other in others for node in pattern.nodes(other.match.node))


def _mended(edit: Edit, segment: Segment, scopes: Iterable[cst.CSTNode]) -> list[_Place]:
    """Return where the fix already is: at the statement that it keeps, or elsewhere in the scope."""
    places: dict[int, _Place] = {}
    for scope in scopes:
        for shape in (edit.replace, *edit.fixed):
            if not may_match(shape, segment.text):
                continue
            kept = pattern.kept_at(edit.find, shape) if is_block(shape) else None
            if kept is None:
                found = [match for match in pattern.find(shape, scope) if _holds(edit, match)]
            else:
                rows = pattern.find_blocks(shape, scope)
                found = [SiteMatch(row[kept].body[0], bound) for row, bound in rows]  # type: ignore[attr-defined]
            for match in found:
                places.setdefault(id(match.node), _Place(segment, match, elsewhere=kept is None))
    return list(places.values())


def _changes(edit: Edit, source: Source, place: _Place) -> list[Change] | None:
    """What makes of a place what it should be; None where it shares its line with other code."""
    if not is_block(edit.replace):
        parts = pattern.substitutions(edit.find, edit.replace, place.match)
        return [(place.segment.span(part.node), part.text) for part in parts]
    start, end = place.span
    first, last = source.line_at(start), source.line_at(max(start, end - 1))
    line_start, line_end = source.lines(first, last)
    indent, rest = source.utf8[line_start:start], source.utf8[end:line_end]
    if indent.strip() or (rest.strip() and not rest.lstrip().startswith(b"#")):
        return None
    newline = "\r\n" if rest.endswith(b"\r\n") else "\n"
    margin = newline + indent.decode()
    lines = pattern.block_lines(edit.find, edit.replace, place.match, "\t" if b"\t" in indent else "    ")
    if lines.kept:
        before = "".join(line + margin for line in lines.before)
        after = "".join(margin + line for line in lines.after)
        bottom = end + len(rest.rstrip(b"\r\n"))
        return [change for change in (((start, start), before), ((bottom, bottom), after)) if change[1]]
    return [((start, end), margin.join(lines.before))]


def _places(
    edit: Edit, shapes: Iterable[str], segment: Segment, scopes: Iterable[cst.CSTNode]
) -> list[_Place]:
    found: dict[int, _Place] = {}
    shapes = [shape for shape in shapes if may_match(shape, segment.text)]
    for scope in scopes:
        for shape in shapes:
            for match in pattern.find(shape, scope):
                if _holds(edit, match):
                    found.setdefault(id(match.node), _Place(segment, match))
    return list(found.values())


def _holds(edit: Edit, match: SiteMatch) -> bool:
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
    within = range(start, end + (end == len(source.utf8)))
    inner = [((a - start, b - start), text) for (a, b), text in changes if a in within]
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
