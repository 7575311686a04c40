"""JSON from outside: hosts, cases, logs."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_DEPTH = 64  # nothing that is read here is nested deeper; what is, would break whoever walks it
MAX_CONTAINERS = 2_000_000  # objects and lists; an empty one takes 2 bytes of text and 64 of memory
MAX_VALUES = 16_000_000
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def parse_json(text: str | bytes) -> Any:
    """The value that `text` spells.

    Raises ValueError for what is not JSON, is nested too deeply, or holds too many values.
    """
    if len(text) > MAX_CONTAINERS:
        _check_size(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
        if not level:
            return value
    raise ValueError("it is nested too deeply")


def _check_size(data: bytes) -> None:
    """Check the size before anything is read. Strings count only if a first look finds too much."""
    for _ in range(2):
        if data.count(b"[") + data.count(b"{") <= MAX_CONTAINERS and data.count(b",") <= MAX_VALUES:
            return
        data = _STRING.sub(b"", data)
    raise ValueError("it holds too many values")


def _children(value: Any) -> list[Any]:
    """The containers right inside of a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inside if isinstance(each, (dict, list))]
