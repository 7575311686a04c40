"""Lines that are JSON objects: journald, docker, and loggers that write JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from triage.logs.formats import containers, journal, times
from triage.logs.reading.line import Line

STARTS = "{\x1ed"
ERRORS = (r'(?:level|severity|levelname)\\*"\s{0,4}:\s{0,4}\\*"(?i:error|critical)',)

_AROUND = ("\x1e", "data: ")  # journalctl's json-seq and json-sse

_MESSAGE_KEYS = ("message", "msg", "textPayload", "body")
_LEVEL_KEYS = ("level", "severity", "levelname")
_TIME_KEYS = ("timestamp", "time", "ts", "@timestamp")


def peel(line: Line) -> bool:
    text = line.text
    for mark in _AROUND:
        text = text.removeprefix(mark)
    if not text.startswith("{") or '"' not in text:
        return False
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(fields, dict):
        return False
    return (
        (not line.enveloped and journal.from_json(line, fields))
        or containers.from_json(line, fields)
        or _logger(line, fields)
    )


def _logger(line: Line, fields: Mapping[str, Any]) -> bool:
    """`{"timestamp":"..","level":"ERROR","fields":{"message":".."},"target":".."}` and its relatives."""
    inner = fields.get("fields")
    places = (fields, inner) if isinstance(inner, dict) else (fields,)
    message = _first(places, _MESSAGE_KEYS)
    level = _first(places, _LEVEL_KEYS)
    time = _first(places, _TIME_KEYS)
    if not message or not (level or time):
        return False
    line.text = message.rstrip("\r\n")
    line.level = level.upper()[:12]
    line.at(times.stamp(time))
    line.head = True
    return True


def _first(places: tuple[Mapping[str, Any], ...], keys: tuple[str, ...]) -> str:
    for place in places:
        for key in keys:
            value = place.get(key)
            if isinstance(value, str) and value:
                return value
    return ""
