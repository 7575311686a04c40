"""Secrets are replaced where evidence enters; people and machines where it leaves as a case.

Each distinct value has its own placeholder, `<token-1>`, the same in every text that one redactor
sees, so that evidence still correlates. Everything here takes linear time: secrets are found by plain
search for the word that gives them away, and looked at with bounded patterns from there.
"""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from triage.evidence.secretshapes import SHAPES
from triage.evidence.words import Words

V = TypeVar("V")

MAX_SECRET = 4096  # characters
MAX_KEY = 20_000  # characters of a private key
MAX_IDLE = 8  # items of a list, one after the other, that are none; a list may stand in each of them
SHORTEST_CRUMB = 8  # characters of a cookie that can be a secret

_KEY_BEGIN, _KEY_END = "PRIVATE KEY-----", "-----END "
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}")

# Words before a secret, lower case: `api_key='...'`, `"password": "..."`, `--hf-token ...`, `HF_TOKEN=...`
_WORDS = (
    *("api_key", "api-key", "apikey", "access_key", "access-key", "accesskey", "private_key", "private-key"),
    *("account_key", "accountkey", "sharedaccesskey", "subscription-key", "client-key-data", "license_key"),
    *("encryption_key", "signing_key", "master_key", "master-key", "x-amz-signature", "x-goog-signature"),
    *("secret", "password", "passwd", "passphrase", "credential", "token", "authorization"),
    *("_pass", "_pwd", "_pw"),
)
_DOUBTFUL = frozenset(("token", "_pass", "_pwd", "_pw"))  # in small letters they mean other things as well
_NUMBER = r"(?![ \t]{0,4}[0-9.]{1,20}(?:[\s,;)\]}]|\Z))"  # `#new-token: 7` is no secret, and common
_QUOTES = r"\\{0,3}[\"']"
_PAIR = rf"{_QUOTES},[ \t]{{0,4}}(?=[bru]{{0,2}}{_QUOTES})"  # `(b'x-api-key', b'...')`
_ASSIGNED = {
    word: re.compile(
        word
        + (r"(?:[_-]?(?:key|id))?" if word in ("secret", "credential") else "")
        + ("" if word in _DOUBTFUL else "s?")
        + rf"(?:(?:(?:{_QUOTES})?[ \t]{{0,4}}(?:=>|[:=])|>|%3d)"
        + (_NUMBER if word in _DOUBTFUL else "")
        + rf"[ \t]{{0,4}}|{_PAIR})"
    )
    for word in _WORDS
}
_IN_SHAPES, _ANNOUNCING = Words(inside for inside, _ in SHAPES), Words((*_ASSIGNED, "--"))
_FLAG = re.compile(
    r"--(?:[a-z0-9]{1,20}[_-]){0,4}(?:api[_-]?keys?|access[_-]?keys?|secret|password|passwd|passphrase|token)"
    rf"(?:=|[ \t]{{1,8}}|{_QUOTES},[ \t]{{0,4}}(?={_QUOTES}))"
)
_NEXT_VALUE = re.compile(
    rf"[ \t]{{1,8}}(?=[^\s-])|{_QUOTES},[ \t]{{0,4}}(?={_QUOTES}[^-])"
)  # `--api-key A B`
_NEXT_LINE = re.compile(r"(?:\r?\n|(?:\\r)?\\n)[ \t]{1,40}(?=[^\s])")
_COLOUR = r"(?:(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;]{0,16}m){0,4}"
_WRAPPER = re.compile(rf"{_COLOUR}(?:(?:[A-Za-z_]{{1,32}}\()?[bru]{{0,2}}(?={_QUOTES}))?")  # `SecretStr('...`
_LIST = re.compile(rf"\[|\((?=\s{{0,4}}[bru]{{0,2}}{_QUOTES})")
_LIST_ITEM = re.compile(rf"\s{{0,4}},?\s{{0,4}}(?:[bru]{{0,2}}({_QUOTES})|(?=[A-Za-z0-9_+/]))")
_CLOSING = re.compile(rf"{_QUOTES}\s{{0,4}}(?:[,}}\])]|\Z)")  # `{"MESSAGE": "password=", ...`
_QUOTE = re.compile(rf"({_QUOTES})")
_BARE = re.compile(rf"(?:\\[^nrtu\"']|[^\s\"'\\,;&)\]}}<>\x1b]){{1,{MAX_SECRET}}}")
_TOKEN = re.compile(rf"[A-Za-z0-9_.~+/=-]{{1,{MAX_SECRET}}}")
_QUOTED_VARIABLE = re.compile(rf"({_QUOTES})[A-Z0-9_]{{1,64}}\Z")  # "MY_PASSWORD=two words"
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_SCHEME = re.compile(r"(?:bearer|basic|digest|token)[ \t]{1,4}", re.IGNORECASE)
_BEARER = re.compile(rf"bearer[ \t]{{1,4}}([A-Za-z0-9._~+/=-]{{8,{MAX_SECRET}}})", re.IGNORECASE)
_NO_SECRET = frozenset(
    ("", "none", "null", "true", "false", "empty", "bearer", "basic", "str", "string", "{")
)
_URL_PASSWORD = re.compile(r"[^\s/@:\"']{0,256}:([^\s/@\"']{1,1024})@")
_URL_TOKEN = re.compile(r"([A-Za-z0-9_.~-]{20,1024})@")

# Where nothing but the place says that it is a secret; it has to look like one, too.
_PLACES = tuple(
    (inside, re.compile(pattern))
    for inside, pattern in (
        ("pass", rf"pass(?:word|wd|phrase)(?:[ \t]{{1,4}}is)?[ \t]{{1,4}}({_TOKEN.pattern})"),
        (
            "curl",
            r"curl\b[^\n|;&]{0,300}?[ \t](?:-u|--user)[= \t]{1,4}[\"']?[^\s:\"']{1,128}:([^\s\"'\\]{1,1024})",
        ),
        ("sshpass", r"sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"'\\]{1,1024})"),
        ("mysql", r"mysql[a-z]{0,16}\b[^\n|;&]{0,300}?[ \t]-p([^\s\"'\\]{1,1024})"),
    )
)
_COOKIE = re.compile(rf"cookie(?:{_QUOTES})?[ \t]{{0,4}}[:,=][ \t]{{0,4}}(?:[bru]{{0,2}}{_QUOTES})?")
_CRUMB = re.compile(rf"[; \t]{{0,4}}[^\s=;,\"'\\<>]{{1,256}}=([^\s;,\"'\\<>]{{0,{MAX_SECRET}}})")

Span = tuple[int, int]


class Redactor:
    """Replaces secrets. Keeps the mapping from values to placeholders."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def redact(self, text: str, source: bool = False) -> str:
        """`text` without secrets. In program text (`source`) only unmistakable shapes are replaced:
        `token = get_token()` is code there, and must stay what it is."""
        spans = [*_shapes(text), *_private_keys(text)]
        if not source:
            spans += [*_assigned(text), *_placed(text), *_in_urls(text)]
        return self.replace(text, spans, "token")

    def replace(self, text: str, spans: Iterable[Span], kind: str) -> str:
        """`text` with each span as a placeholder of that kind; of spans that overlap the first counts."""
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
            for match in pattern.finditer(text):
                if _begins(text, match.start()):
                    yield match.span(match.lastindex or 0)


def _begins(text: str, at: int) -> bool:
    """Whether nothing of the same word stands before."""
    before = text[at - 1 : at]
    return not before or not before.isascii() or not (before.isalnum() or before in "_-")


def _private_keys(text: str) -> Iterator[Span]:
    """From BEGIN to END; where other text stands between (one log entry a line), the long base64 runs."""
    at = text.find(_KEY_BEGIN)
    while at >= 0:
        start = at + len(_KEY_BEGIN)
        end = text.find(_KEY_END, start, start + MAX_KEY)
        stop = end if end >= 0 else min(len(text), start + MAX_KEY)
        body = text[start:stop]
        if end >= 0 and '"' not in body:
            yield start, stop
        else:
            yield from ((start + match.start(), start + match.end()) for match in _KEY_BODY.finditer(body))
        at = text.find(_KEY_BEGIN, stop)


def _in_urls(text: str) -> Iterator[Span]:
    """`user:password@` and `token@`."""
    at = text.find("://")
    while at >= 0:
        match = _URL_PASSWORD.match(text, at + 3) or _URL_TOKEN.match(text, at + 3)
        if match and not match[1].startswith("<") and (match.re is _URL_PASSWORD or _random(match[1])):
            yield match.span(1)
        at = text.find("://", match.end() if match else at + 3)


def _placed(text: str) -> Iterator[Span]:
    lower = _lower(text)
    for inside, pattern in _PLACES:
        if inside in lower:
            yield from (match.span(1) for match in pattern.finditer(text) if _random(match[1]))
    cookie = _COOKIE.search(lower) if "cookie" in lower else None
    while cookie:
        at = cookie.end()
        while crumb := _CRUMB.match(text, at):
            if len(crumb[1]) >= SHORTEST_CRUMB:
                yield crumb.span(1)
            at = crumb.end()
        cookie = _COOKIE.search(lower, at)


def _assigned(text: str) -> Iterator[Span]:
    """Values that a word announces."""
    lower = _lower(text)
    standing = _ANNOUNCING.in_text(lower)
    for word, pattern in (*_ASSIGNED.items(), ("--", _FLAG)):
        match = pattern.search(lower) if word in standing else None
        while match:
            end = match.end()
            for span in _values_after(text, match, word):
                yield span
                end = max(end, span[1])
            match = pattern.search(lower, end)
    if "bearer" in lower:
        for match in _BEARER.finditer(text):
            if _mixed(match[1], 20):
                yield match.span(1)


def _lower(text: str) -> str:
    """As long as the text, also where a letter's lower case is longer."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


def _values_after(text: str, announced: re.Match[str], word: str) -> Iterator[Span]:
    """The secrets that `announced` (a match in the lower-case text) stands before."""
    start, at = announced.span()
    is_doubtful = word in _DOUBTFUL and not text[start : start + len(word)].isupper()
    if items := _LIST.match(text, at):
        yield from _listed(text, items.end(), is_doubtful)
        return
    line = _NEXT_LINE.match(text, at)
    span = _value_at(text, announced, word, line.end() if line else at, is_doubtful)
    if span is None:
        return
    is_pair = word != "--" and "," in announced[0]  # or two words of a list
    is_random = _random(text[slice(*span)])
    if (is_pair and not is_random) or (line and not (is_random and _ends_line(text, span[1]))):
        return
    yield span
    while word == "--" and (following := _NEXT_VALUE.match(text, span[1])):
        span = _value_at(text, announced, word, following.end(), is_doubtful)
        if span is None or "/" in text[slice(*span)] or not _random(text[slice(*span)]):
            return
        yield span


def _ends_line(text: str, at: int) -> bool:
    return text[at : at + 1] in ("", "\n", "\r", "\\", '"', "'")


def _listed(text: str, at: int, is_doubtful: bool) -> Iterator[Span]:
    """The secrets in a list, quoted or, in brackets, bare."""
    word, idle = _TOKEN if is_doubtful else _BARE, 0
    while idle < MAX_IDLE and (item := _LIST_ITEM.match(text, at)):
        quote, start = item[1], item.end()
        if quote:
            end = text.find(quote, start, start + MAX_SECRET)
        else:
            bare = word.match(text, start)
            end = bare.end() if bare else -1
        if end < 0:
            return
        idle += 1
        if _is_secret(text[start:end], is_doubtful, bool(quote)):
            yield start, end
            idle = 0
        at = end + len(quote or "")


def _value_at(text: str, announced: re.Match[str], word: str, at: int, is_doubtful: bool) -> Span | None:
    """The value at a place, if it can be a secret."""
    start = announced.start()
    wrapper = _WRAPPER.match(text, at)
    at = wrapper.end() if wrapper else at
    if _CLOSING.match(text, at):
        return None
    quote = _QUOTE.match(text, at)
    at = quote.end() if quote else at
    scheme = _SCHEME.match(text, at) if word == "authorization" else None
    at = scheme.end() if scheme else at
    around = quote or _QUOTED_VARIABLE.search(text, max(0, start - 70), start + len(word))
    close = text.find(around[1], at, at + MAX_SECRET) if around else -1
    if close < 0:  # not quoted, or cut before the quote that closes
        bare = (_TOKEN if is_doubtful else _BARE).match(text, at)
        close = bare.end() if bare else at
    is_secret = _is_secret(text[at:close], is_doubtful, bool(quote))
    return (at, close) if is_secret else None


def _is_secret(value: str, is_doubtful: bool, is_quoted: bool) -> bool:
    if value.lower() in _NO_SECRET or value.startswith("<"):
        return False
    # `eos_token: "</s>"`, `Unexpected token: end`
    return not is_doubtful or bool(_TOKEN.fullmatch(value) and _mixed(value, 16 if is_quoted else 24))


def _random(value: str) -> bool:
    """Letters and digits together: no word of prose."""
    return _mixed(value, MAX_SECRET) and any(letter.isalpha() for letter in value)


def _mixed(value: str, long: int) -> bool:
    """Letters and digits together, or simply long: not a word of prose."""
    has_digit = any(letter.isdecimal() for letter in value)
    return len(value) >= long or (len(value) >= 8 and has_digit and not value.isdecimal())


def redact_values(value: V, redactor: Redactor) -> V:
    """A frozen dataclass, tuple or mapping with every text in it redacted; other values as they are."""
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
