"""What is wrong with a file that people write, in words for them: pydantic's are for programmers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

SHOWN = 60  # characters of a value

# By the kind of error, of pydantic 2; `{name}` is what pydantic says beside it.
_EXPECTED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "keys with values",
    "mapping_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
    "dataclass_type": "keys with values",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "string_pattern_mismatch": "text like {pattern}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "none_required": "nothing",
}


def problems_of(error: ValidationError) -> tuple[tuple[str, str], ...]:
    """(key, what is wrong with it) of every problem; the key is "" for the whole file."""
    return tuple((_key(each["loc"]), _reason(each)) for each in error.errors(include_url=False))


def _key(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)


def _reason(item: ErrorDetails) -> str:
    kind, said = item["type"], item.get("ctx", {})
    if kind == "missing":
        return "it is missing"
    if kind == "extra_forbidden":
        return "there is no such key"
    if kind == "union_tag_invalid":
        return f"its {said['discriminator']} is none of {said['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"its {said['discriminator']} is missing"
    if kind == "value_error":
        return str(said.get("error", item["msg"]))
    if kind not in _EXPECTED:
        return item["msg"]
    return f"expected {_EXPECTED[kind].format_map(said)}, not {spelled(item['input'])}"


def spelled(value: Any) -> str:
    """A value as it would stand in a file, cut short. No more of it is written than is shown."""
    text = ""
    try:
        for part in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
            text += part
            if len(text) > SHOWN:
                break
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
