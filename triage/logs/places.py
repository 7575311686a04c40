"""Where in the bytes of a log something stands that tells of a run, a fact or a fault.

Everything that is looked for is compiled into one Hyperscan database, once for all logs; it is kept in
`$XDG_CACHE_HOME/triage` under the hash of its patterns. Without the hyperscan package there is no
database, and logs are read whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from triage.logs import dumps, facts, formats, symptoms, traceback
from triage.logs.formats import containers

LONGEST = 512
"""Bytes that a place can be long."""

MANY = 64
"""Places in one stretch of a log after which the whole of it counts as one."""

STOPS = (
    "SIGTERM received",
    "Gracefully exiting",
    "[shutdown] API server: shutdown triggered",
    "trigger received signal=SIGTERM",
)
BOOTS = ("-- Boot ", "-- Reboot --")

_TEXTS = (*symptoms.NEEDLES, *facts.NEEDLES, *STOPS, *BOOTS, *traceback.BEGINNINGS, *dumps.BEGINNINGS)
_ESCAPE = r"(?:(?:\x1b|#033|\\+u001[bB])\[[0-9;]{0,16}m){0,2}"  # raw, of rsyslog, in JSON
_COLOURED = (r'File {escape}\\*"', "Error{escape}: ", "systemd")

Find = Callable[[bytes], "list[int] | None"]
"""The ends of the places in a stretch of bytes; None when all of it is one."""


@lru_cache(maxsize=1)
def patterns() -> tuple[str, ...]:
    """What is looked for, as regular expressions that Hyperscan, Rust and Python read alike."""
    texts = dict.fromkeys(form for text in _TEXTS for form in _forms(text))
    coloured = (*_COLOURED, *formats.ERRORS, *containers.PARTS)
    return (*map(_literal, texts), *(pattern.replace("{escape}", _ESCAPE) for pattern in coloured))


def _forms(text: str) -> tuple[str, ...]:
    """A text as it is, as a JSON string has it, and as the byte values that journald writes in JSON."""
    return text, json.dumps(text)[1:-1], ",".join(map(str, text.encode()))


def _literal(text: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


@lru_cache(maxsize=1)
def finder() -> Find | None:
    """What finds the places; None without Hyperscan."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = _database(hyperscan)

    def find(data: bytes) -> list[int] | None:
        places: list[int] = []

        def found(number: int, start: int, end: int, flags: int, context: object) -> bool | None:
            places.append(end)
            return True if len(places) >= MANY else None

        try:
            database.scan(data, match_event_handler=found)
        except hyperscan.ScanTerminated:
            return None
        return places

    return find


def _database(hyperscan: Any) -> Any:
    import hashlib
    import platform

    mark = "\n".join((hyperscan.__version__, platform.platform(), platform.machine(), *patterns()))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = home / "triage" / f"places-{hashlib.sha256(mark.encode()).hexdigest()[:16]}"
    database = _kept(hyperscan, path)
    if database is None:
        database = _built(hyperscan)
        _keep(path, hyperscan.dumpb(database))
    return database


def _built(hyperscan: Any) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [pattern.encode() for pattern in patterns()]
    database.compile(expressions=expressions, ids=list(range(len(expressions))), flags=0)
    return database


def _kept(hyperscan: Any, path: Path) -> Any:
    """The database as it was kept, if it is our own, whole, and made for this processor."""
    try:
        with path.open("rb") as file:
            told = os.fstat(file.fileno())
            if told.st_uid != os.geteuid() or told.st_mode & 0o022:
                return None
            database = hyperscan.loadb(file.read(), hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        seen: list[int] = []
        database.scan(
            traceback.BEGINNINGS[0].encode(), match_event_handler=lambda number, *_: seen.append(number)
        )
    except (OSError, hyperscan.HyperscanError):
        return None
    return database if seen else None


def _keep(path: Path, data: bytes) -> None:
    from triage.errors import TriageError
    from triage.files import write_atomically

    try:
        write_atomically(path, data)
    except TriageError:
        return  # without a place to keep it, it is built each time: a tenth of a second
