"""The arguments with which a run was started, as its log shows them in the engine's own form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from triage.engines import ENGINES
from triage.logs.model import LogSource

LOOKED_AT = 8 << 20
"""Bytes of a log in which the line of the arguments is looked for."""

LONGEST = 65_536
_PAIR = re.compile(
    r"(?<![\w.])\\?['\"]?([a-z][a-z0-9_]{1,60})\\?['\"]?(?:=|: )"
    r"(?:\\?'([^'\\\n]{0,500})\\?'|\\?\"([^\"\\\n]{0,500})\\?\"|(-?[\w.+/-]{1,200}))"
)


def launch_arguments(sources: Iterable[LogSource]) -> dict[str, str]:
    """The arguments of the last start in the logs, by the name of their attribute: `{"tp_size": "4"}`."""
    found: dict[str, str] = {}
    for source in sources:
        data = bytes(source.data[:LOOKED_AT])
        for words in _lines_of_engines():
            place = data.rfind(words.encode())
            if place >= 0:
                end = data.find(b"\n", place)
                line = data[place : min(end if end >= 0 else len(data), place + LONGEST)]
                text = line.decode("utf-8", "replace")[len(words) :]
                found.update(
                    {match[1]: next(filter(None, match.groups()[1:]), "") for match in _PAIR.finditer(text)}
                )
    return found


def _lines_of_engines() -> Iterator[str]:
    for engine in ENGINES.values():
        yield from engine.log.argument_lines
