"""Replaces secrets when evidence is received, and people and machines when it leaves as a case.

Each distinct value has its own placeholder, such as `<token-1>`, which is the same in every text that one
redactor sees, so evidence can still be correlated. Everything here takes linear time: a plain search finds
the words that announce a secret, and bounded patterns examine the text from there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from triage.evidence.redaction.conversations import in_conversations, without_tokens
from triage.evidence.redaction.named_secrets import (
    LONG,
    MAX_SECRET,
    QUOTES,
    TOKEN,
    Span,
    announced,
    in_small_letters,
    mixed,
    random,
)
from triage.evidence.redaction.secret_blocks import in_blocks
from triage.evidence.redaction.secret_shapes import SHAPES
from triage.evidence.redaction.service_names import of_services
from triage.evidence.redaction.word_search import Words, compiled

V = TypeVar("V")

SHORTEST_CRUMB = 8  # characters of a cookie that can be a secret

_IN_SHAPES = Words(inside for inside, _ in SHAPES)

_BEARER = re.compile(rf"bearer[ \t]{{1,4}}([A-Za-z0-9._~+/=-]{{8,{MAX_SECRET}}})", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"([^\s/@:\"']{0,256}):([^\s/@\"']{1,1024})@")
_URL_PASSWORD_WITH_SLASH = re.compile(
    r"([^\s/@:\"']{1,256}):(?!\d{1,5}/)([^\s@\"']{1,256})@(?=[\w.-]{1,253}(?::\d|[/?\s\"']|\Z))"
)
MAX_PASSWORD = 128  # characters, of what has no scheme before it
_USER = re.compile(r"(?<![\w.:/@-])[\w.-]{1,64}:\Z")
_PLAIN = re.compile(r"[^\s/@\"'<>]{6,}")
_AT_HOST = re.compile(r"(?!sha\d)[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}(?::\d|\.[a-z]{2,24}\b)")
_URL_TOKEN = re.compile(r"([A-Za-z0-9_.~-]{20,1024})@")

# Only the position says that these are secrets, so the value must look like one, too.
_ARGUMENT = r"[\"']?([^\s\"'\\]{1,1024})"
_OPTIONS = r"[^\n|;&]{0,300}?[ \t]"
_PLACES = {
    "pass": rf"pass(?:word|wd|phrase)(?:[ \t]{{1,4}}is)?[ \t]{{1,4}}({TOKEN})",
    "requirepass": rf"requirepass[ \t]{{1,4}}{_ARGUMENT}",
    "pass ": rf"-(?:dest|src)?(?:store|key)pass[ \t]{{1,4}}{_ARGUMENT}",
    "sshpass": rf"sshpass[ \t]{{1,4}}-p[ \t]{{0,4}}{_ARGUMENT}",
    "curl": rf"curl\b{_OPTIONS}(?:-u|--user)[= \t]{{1,4}}[\"']?[^\s:\"']{{1,128}}:{_ARGUMENT}",
    "mysql": rf"mysql[a-z]{{0,16}}\b{_OPTIONS}-p([^\s\"'\\]{{1,1024}})",
    "mongo": rf"mongo[a-z]{{0,16}}\b{_OPTIONS}-p[ \t]{{0,4}}{_ARGUMENT}",
    "redis-cli": rf"redis-cli\b{_OPTIONS}-a[ \t]{{1,4}}{_ARGUMENT}",
    " login ": rf"(?:docker|podman|nerdctl|registry) login{_OPTIONS}-p[ \t]{{0,4}}{_ARGUMENT}",
    "wandb login": rf"wandb login{_OPTIONS}{_ARGUMENT}",
    "echo ": r"echo [\"']?([^\s\"'|]{1,1024})[\"']?[ \t]{0,4}\|[^\n|]{0,128}?(?:sudo -S|-stdin|login)\b",
    "auth(": r"Auth\([a-z=]{0,16}[\"'][^\"'\n]{1,128}[\"'],[ \t]{0,4}[a-z=]{0,16}[\"']([^\"'\n]{1,1024})",
    "webhook": r"(?i:webhook)[\w\"'-]{0,32}[=:][ \t]{0,4}[\"']?https?://[^/\s]{1,128}/([^\s\"'\\]{16,1024})",
}
_IN_PLACES = Words((*_PLACES, "bearer", "cookie"))
_COOKIE = re.compile(rf"cookie(?:{QUOTES})?[ \t]{{0,4}}[:,=][ \t]{{0,4}}(?:[bru]{{0,2}}{QUOTES})?")
_CRUMB = re.compile(rf"[; \t]{{0,4}}[^\s=;,\"'\\<>]{{1,256}}=([^\s;,\"'\\<>]{{0,{MAX_SECRET}}})")


class Redactor:
    """Replaces secrets and conversations, and keeps the mapping from values to placeholders."""

    def __init__(self, keep_prompts: bool = False) -> None:
        self.keeps_prompts = keep_prompts
        self._placeholders: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def redact(self, text: str, source: bool = False) -> str:
        """`text` without secrets, and unless they are kept without what users asked and models answered.

        In program text (`source`) only unmistakable shapes are replaced: `token = get_token()` is code there,
        and must stay what it is.
        """
        if not (source or self.keeps_prompts):
            text = without_tokens(self.replace(text, in_conversations(text), "prompt"))
        spans = [*_shapes(text), *in_blocks(text)]
        if not source:
            spans += [*announced(text), *of_services(text), *_placed(text), *_in_urls(text)]
        return self.replace(text, spans, "token")

    def replace(self, text: str, spans: Iterable[Span], kind: str) -> str:
        """Return `text` with each span replaced by a placeholder of its kind. Of overlapping spans, the first
        one counts.
        """
        parts, at = [], 0
        for start, end in sorted(spans):
            if start >= at:
                parts += [text[at:start], self.placeholder(text[start:end], kind)]
                at = end
        return "".join((*parts, text[at:])) if parts else text

    def placeholder(self, value: str, kind: str) -> str:
        if value not in self._placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._placeholders[value] = f"<{kind}-{self._counts[kind]}>"
        return self._placeholders[value]


def _shapes(text: str) -> Iterator[Span]:
    standing = _IN_SHAPES.in_text(text)
    for inside, pattern in SHAPES:
        if inside in standing:
            for match in compiled(pattern).finditer(text):
                if _begins(text, match.start()):
                    yield match.span(match.lastindex or 0)


def _begins(text: str, at: int) -> bool:
    """Return whether a word begins at this position."""
    before = text[at - 1 : at]
    return not before or not before.isascii() or not (before.isalnum() or before in "_-")


def _in_urls(text: str) -> Iterator[Span]:
    """Yield the secrets in `user:password@` and `token@`."""
    at = text.find("://")
    while at >= 0:
        match = (
            _URL_PASSWORD.match(text, at + 3)
            or _URL_TOKEN.match(text, at + 3)
            or _URL_PASSWORD_WITH_SLASH.match(text, at + 3)
        )
        if match and len(match[1]) >= LONG and random(match[1]):
            yield match.span(1)
        if match and match.re is not _URL_TOKEN and not match[2].startswith("<"):
            yield match.span(2)
        at = text.find("://", match.end() if match else at + 3)
    at = text.find("@")
    while at >= 0:
        start = text.rfind(":", max(0, at - MAX_PASSWORD), at) + 1
        is_joined = start and _PLAIN.fullmatch(text, start, at) and _AT_HOST.match(text, at + 1)
        if is_joined and random(text[start:at]) and _USER.search(text, max(0, start - 66), start):
            yield start, at
        at = text.find("@", at + 1)


def _placed(text: str) -> Iterator[Span]:
    lower = in_small_letters(text)
    standing = _IN_PLACES.in_text(lower)
    for inside, pattern in _PLACES.items():
        if inside in standing:
            yield from (match.span(1) for match in compiled(pattern).finditer(text) if random(match[1]))
    if "bearer" in standing:
        yield from (match.span(1) for match in _BEARER.finditer(text) if mixed(match[1], 20))
    cookie = _COOKIE.search(lower) if "cookie" in standing else None
    while cookie:
        at = cookie.end()
        while crumb := _CRUMB.match(text, at):
            if len(crumb[1]) >= SHORTEST_CRUMB:
                yield crumb.span(1)
            at = crumb.end()
        cookie = _COOKIE.search(lower, at)


def redact_values(value: V, redactor: Redactor) -> V:
    """Return a frozen dataclass, tuple or mapping with every text in it redacted; other values stay as they
    are.
    """
    found: Any = value
    if isinstance(found, str):
        found = redactor.redact(found)
    elif isinstance(found, tuple):
        found = tuple(redact_values(item, redactor) for item in found)
    elif isinstance(found, Mapping):
        found = MappingProxyType({key: redact_values(item, redactor) for key, item in found.items()})
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        fields = {item.name: getattr(found, item.name) for item in dataclasses.fields(found)}
        found = dataclasses.replace(
            found, **{name: redact_values(item, redactor) for name, item in fields.items()}
        )
    return cast("V", found)
