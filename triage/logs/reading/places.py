"""Finds where in the bytes of a log something tells of a run, a fact or a fault.

Everything that is looked for is compiled into one Hyperscan database, once for all logs; it is kept in
`$XDG_CACHE_HOME/triage` under the hash of its patterns. Without the hyperscan package there is no
database, and logs are read whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from triage.common.errors import TriageError
from triage.common.files import open_plain, write_atomically
from triage.engines import ENGINES
from triage.logs import facts, formats
from triage.logs.faults import dumps, lines, traceback
from triage.logs.formats import containers

LONGEST = 512
"""Bytes that a place can be long."""

VALUES = 1 << 16
"""The number of the pattern that says that there are lists of byte values."""

MANY = 1 << 13
"""Places in one stretch of a log after which the whole of it counts as one."""

STOPS = tuple(words for engine in ENGINES.values() for words in engine.log.stopping)
BOOTS = ("-- Boot ", "-- Reboot --")
LOST = "Suppressed "

_TEXTS = (*facts.NEEDLES, *STOPS, *BOOTS, LOST, *traceback.BEGINNINGS, *dumps.BEGINNINGS)
_ESCAPE = r"(?:(?:\x1b|#033|\\+u001[bB])\[[0-9;]{0,16}m){0,2}"  # raw, of rsyslog, in JSON
_COLOURED = (r'File {escape}\\*"', "Error{escape}: ", "systemd")
_AS_VALUES = r'"MESSAGE"\s?:\s?\['

Find = Callable[[bytes], "list[int] | None"]
"""The ends of the places in a stretch of bytes; None when all of it is one."""


def patterns() -> tuple[str, ...]:
    """What is looked for, as regular expressions that Hyperscan, Rust and Python read alike."""
    texts = dict.fromkeys(
        form for text in (*lines.needles(), *_TEXTS) for form in (text, json.dumps(text)[1:-1])
    )
    coloured = (*_COLOURED, *formats.ERRORS, *containers.PARTS)
    return (*map(_literal, texts), *(pattern.replace("{escape}", _ESCAPE) for pattern in coloured))


def patterns_in_values() -> tuple[str, ...]:
    """Return the patterns for the lists of byte values that a journal in JSON has for coloured messages."""
    values = (map(str, text.encode()) for text in (*lines.needles(), *_TEXTS, "ERROR", "CRITICAL"))
    return tuple(form for value in map(list, values) for form in (",".join(value), ", ".join(value)))


def _literal(text: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


@lru_cache(maxsize=1)
def finder() -> Find | None:
    """What finds the places; None without Hyperscan."""
    try:
        import hyperscan
    except ImportError:
        return None
    in_text = _database(hyperscan, {**dict(enumerate(patterns())), VALUES: _AS_VALUES})
    scanning = Lock()  # a database has one scratch, for one scan at a time
    in_values = lru_cache(maxsize=1)(lambda: _database(hyperscan, dict(enumerate(patterns_in_values()))))

    def find(data: bytes) -> list[int] | None:
        places: list[int] = []
        values = False

        def found(number: int, start: int, end: int, flags: int, context: object) -> bool | None:
            nonlocal values
            if number == VALUES:
                values = True
                return None
            places.append(end)
            return True if len(places) >= MANY else None

        try:
            with scanning:
                in_text.scan(data, match_event_handler=found)
                if values:
                    in_values().scan(data, match_event_handler=found)
        except hyperscan.ScanTerminated:
            return None
        return places

    return find


def _database(hyperscan: Any, expressions: dict[int, str]) -> Any:
    """The compiled expressions, from where they were kept."""
    mark = "\n".join((hyperscan.__version__, platform.platform(), platform.machine(), *expressions.values()))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = Path(home) / "triage" / f"places-{hashlib.sha256(mark.encode()).hexdigest()[:16]}"
    database = _kept(hyperscan, path)
    if database is None:
        database = _built(hyperscan, expressions)
        _keep(path, hyperscan.dumpb(database))
    return database


def _built(hyperscan: Any, expressions: dict[int, str]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[pattern.encode() for pattern in expressions.values()],
        ids=list(expressions),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH if number == VALUES else 0 for number in expressions],
    )
    return database


def _kept(hyperscan: Any, path: Path) -> Any:
    """The database as it was kept, if it is our own, whole, and made for this processor."""
    try:
        with open_plain(path) as file:
            told = os.fstat(file.fileno())
            if told.st_uid != os.geteuid() or told.st_mode & 0o022:
                return None
            database = hyperscan.loadb(file.read(), hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        database.scan(b"made for another processor?", match_event_handler=lambda *_: None)
    except (OSError, hyperscan.HyperscanError):
        return None
    return database


def _keep(path: Path, data: bytes) -> None:
    try:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # an old one would keep its mode, which may be why it is not trusted
        write_atomically(path, data)
    except TriageError:
        return  # without a place to keep it, it is built each time: a tenth of a second
