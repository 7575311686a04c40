"""What a log says of the deployment that wrote it: layout, model, version, phase of its start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from triage.engines import ENGINES

LIMIT = 65_536
"""Characters of a banner line that are read: one can be ten thousand long."""

BEGINNING = 400
"""Characters of a line in which words that tell the engine count."""

_LOGS = {name: engine.log for name, engine in ENGINES.items()}

# as the log spells it -> as a fact is called
_KEYS = {
    **{
        name: name
        for name in (
            *("nnodes", "node_rank", "attention_backend", "served_model_name", "kv_cache_dtype"),
            *("quantization", "device", "port", "num_hidden_layers"),
        )
    },
    **{name: fact for log in _LOGS.values() for name, fact in log.arguments.items()},
}
_PAIR = re.compile(
    r"(?<![\w.])'?("
    + "|".join(_KEYS)
    + r")(?:'?: |=)(?:'([^'\n]{0,1000})'|\"([^\"\n]{0,1000})\"|(?:\['([^'\n]{0,200})'\])|([\w.+-]{1,200}))"
)
_VERSIONS = [(name, version) for name, log in _LOGS.items() for version in log.versions]
_VERSION = re.compile("|".join(version.pattern for _, version in _VERSIONS))
_FACTS = [fact for log in _LOGS.values() for fact in log.facts]
_READY = tuple(ready for log in _LOGS.values() for ready in log.ready)
_PHASES = [phase for log in _LOGS.values() for phase in log.phases]

BANNERS = {banner: name for name, log in _LOGS.items() for banner in log.banners}
"""What an engine says at a start -> the engine's name."""

_ARGUMENT_LINES = {words: name for name, log in _LOGS.items() for words in log.argument_lines}
READY = tuple(ready.text for ready in _READY)
NEEDLES: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            *BANNERS,
            *_ARGUMENT_LINES,
            *(words for phase in _PHASES for words in phase.lines),
            *READY,
            *(version.needle for _, version in _VERSIONS if version.needle),
            *(fact.needle for fact in _FACTS),
        )
    )
)

STARTS = tuple(words.encode() for log in _LOGS.values() for words in log.starts)
"""What an engine says once at a start; code in tracebacks has no such words."""


def starts_in(data: bytes) -> int:
    """How many starts of an engine are in a log, about."""
    return max(map(data.count, STARTS))


def phase_of(text: str) -> str:
    """The phase that a line announces, "" when it announces none."""
    for phase in _PHASES:
        told = any(words in text for words in phase.lines)
        if told and (not phase.pattern or _compiled(phase.pattern).search(text)):
            return phase.name
    return next((ready.name for ready in _READY if ready.text in text), "")


def banner_of(text: str) -> str:
    """What an engine says at a start, where the line begins with about that; "" for any other line."""
    return next((banner for banner in BANNERS if banner in text[:BEGINNING]), "")


def facts_of(text: str) -> Iterator[tuple[str, str]]:
    """The facts on a line, as (name, value); later and more exact lines may say a name again."""
    version = _VERSION.search(text, 0, 2000)
    owner = ""
    if version is not None and version.lastindex is not None:
        yield "version", version[version.lastindex]
        name, line = _VERSIONS[version.lastindex - 1]
        owner = name if line.is_own else ""
    beginning = text[:BEGINNING]
    engine = next((name for words, name in _ARGUMENT_LINES.items() if words in beginning), "")
    if engine:
        yield "engine", engine
        yield from _pairs(text)
    elif engine := BANNERS.get(banner_of(text), owner):
        yield "engine", engine
    for fact in _FACTS:
        if fact.needle in text:
            found = _compiled(fact.pattern).search(text, 0, 2000) if fact.pattern else None
            if found is not None or not fact.pattern:
                yield fact.name, fact.value or (found[1].replace(" ", "") if found else "")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for match in _PAIR.finditer(text, 0, LIMIT):
        value = next((group for group in match.groups()[1:] if group is not None), "")
        if value != "None":
            yield _KEYS[match[1]], value


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def merge(facts: dict[str, str], name: str, value: str) -> None:
    """Keep what was said first; a pool of pools names itself after the pools that it holds."""
    if name == "kv_pool" and value == "SWAKVPool":
        facts[name] = value
    else:
        facts.setdefault(name, value)
