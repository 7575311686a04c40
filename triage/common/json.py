"""JSON from outside: hosts, cases, logs."""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 64  # nothing that is read here is nested deeper; what is, would break whoever walks it


def parse_json(text: str | bytes) -> Any:
    """The value that `text` spells. Raises ValueError for what is not JSON, or is nested too deeply."""
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


def _children(value: Any) -> list[Any]:
    """The containers right inside of a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inside if isinstance(each, (dict, list))]
