"""Documents of lists and values as tables: those that have no form of their own in a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROWS = 500  # of a table
COLUMNS = 12
CELL = 300  # characters
DEEP = 4  # tables within tables


@dataclass(frozen=True)
class DocumentTable:
    """`hidden` rows are not in it. Without `columns` each row is a name and its value."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    hidden: int = 0


def tables(document: Mapping[str, Any]) -> Iterator[DocumentTable]:
    """The plain values of a document in one table, each of its lists of objects in one of its own."""
    rest = {name: value for name, value in document.items() if name != "schema"}
    yield from _of_object("", rest, DEEP)


def _of_object(title: str, values: Mapping[str, Any], deep: int) -> Iterator[DocumentTable]:
    rows = tuple((name, cell(value)) for name, value in values.items() if not _is_nested(value))
    if rows:
        yield DocumentTable(title, (), rows)
    yield from _nested(title, values, deep)


def _nested(title: str, values: Mapping[str, Any], deep: int) -> Iterator[DocumentTable]:
    for name, value in values.items():
        below = f"{title}: {name}" if title else name
        if deep and isinstance(value, list) and _is_nested(value):
            yield from _of_list(below, value, deep - 1)
        elif deep and isinstance(value, dict) and _is_nested(value):
            yield from _of_object(below, value, deep - 1)


def _of_list(title: str, items: Sequence[Any], deep: int) -> Iterator[DocumentTable]:
    objects = [item for item in items if isinstance(item, dict)][:ROWS]
    plain = {name: None for item in objects for name, value in item.items() if not _is_nested(value)}
    columns = tuple(plain)[:COLUMNS]
    rows = tuple(tuple(cell(item.get(name, "")) for name in columns) for item in objects)
    if columns:
        yield DocumentTable(title, columns, rows, len(items) - len(objects))
    for number, item in enumerate(objects, 1):
        names = [item[name] for name in columns if isinstance(item.get(name), str) and item[name]]
        yield from _nested(f"{title}: {cell(names[0] if names else number)}", item, deep)


def _is_nested(value: Any) -> bool:
    """A list of objects, or an object that holds one."""
    if isinstance(value, list):
        return any(isinstance(item, dict) for item in value)
    return isinstance(value, dict) and any(map(_is_nested, value.values()))


def cell(value: Any) -> str:
    """A value as text, short: `1.5`, `yes`, `a, b`, `tp 8, pp 1`."""
    if value is None:
        text = "-"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, float):
        text = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    elif isinstance(value, dict):
        text = ", ".join(f"{name} {cell(item)}" for name, item in value.items())
    elif isinstance(value, list):
        text = ("; " if any(isinstance(item, list) for item in value) else ", ").join(map(cell, value))
    else:
        text = str(value)
    return text if len(text) <= CELL else f"{text[: CELL - 3]}..."
