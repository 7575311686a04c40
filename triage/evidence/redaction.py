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

from triage.evidence.words import Words

V = TypeVar("V")

MAX_SECRET = 4096  # characters
MAX_KEY = 20_000  # characters of a private key

# Shapes that are secrets wherever they stand: what they begin with, and the whole.
_SHAPES = tuple(
    (beginning, re.compile(pattern))
    for beginning, pattern in (
        ("hf_", r"hf_[A-Za-z0-9]{16,128}"),
        ("api_org_", r"api_org_[A-Za-z0-9]{16,128}"),
        ("sk-", r"sk-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{16,256}"),
        ("ghp_", r"ghp_[A-Za-z0-9]{20,255}"),
        ("gho_", r"gho_[A-Za-z0-9]{20,255}"),
        ("ghu_", r"ghu_[A-Za-z0-9]{20,255}"),
        ("ghs_", r"ghs_[A-Za-z0-9]{20,255}"),
        ("ghr_", r"ghr_[A-Za-z0-9]{20,255}"),
        ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
        ("glpat-", r"glpat-[A-Za-z0-9_-]{16,128}"),
        ("AKIA", r"AKIA[0-9A-Z]{16}(?![0-9A-Z])"),
        ("ASIA", r"ASIA[0-9A-Z]{16}(?![0-9A-Z])"),
        ("AIza", r"AIza[0-9A-Za-z_-]{30,64}"),
        ("ya29.", r"ya29\.[0-9A-Za-z_-]{20,1024}"),
        ("GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{20,64}"),
        ("nvapi-", r"nvapi-[0-9A-Za-z_-]{20,256}"),
        ("gsk_", r"gsk_[A-Za-z0-9]{20,128}"),
        ("xox", r"xox[abeprs]-[A-Za-z0-9-]{10,256}"),
        ("npm_", r"npm_[A-Za-z0-9]{30,64}"),
        ("pypi-", r"pypi-[A-Za-z0-9_-]{30,512}"),
        ("eyJ", r"eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{0,1024}"),
    )
)
_KEY_BEGIN, _KEY_END = "PRIVATE KEY-----", "-----END "
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}")

# Words before a secret, lower case: `api_key='...'`, `"password": "..."`, `--hf-token ...`, `HF_TOKEN=...`
_WORDS = (
    *("api_key", "api-key", "apikey", "access_key", "access-key", "accesskey", "private_key", "private-key"),
    *("secret", "password", "passwd", "passphrase", "credential", "token", "authorization"),
)
_NUMBER = r"(?![ \t]{0,4}[0-9.]{1,20}(?:[\s,;)\]}]|\Z))"  # `#new-token: 7` is no secret, and common
_ASSIGNED = {
    word: re.compile(
        word
        + (r"(?:[_-]?(?:key|id))?s?" if word in ("secret", "credential") else "")
        + r"(?:\\{0,3}[\"'])?[ \t]{0,4}(?:=>|[:=])"
        + (_NUMBER if word == "token" else "")
        + r"[ \t]{0,4}"
    )
    for word in _WORDS
}
_IN_SHAPES = Words(beginning for beginning, _ in _SHAPES)
_ANNOUNCING = Words((*_ASSIGNED, "--"))
_FLAG = re.compile(
    r"--(?:[a-z0-9]{1,20}[_-]){0,4}(?:api[_-]?key|access[_-]?key|secret|password|passwd|passphrase|token)"
    r"(?:=|[ \t]{1,8}|\\{0,3}[\"'],[ \t]{0,4}(?=\\{0,3}[\"']))"
)
_QUOTE = re.compile(r"(\\{0,3}[\"'])")
_BARE = re.compile(rf"(?:\\[^nrtu\"']|[^\s\"'\\,;&)\]}}<>]){{1,{MAX_SECRET}}}")
_TOKEN = re.compile(rf"[A-Za-z0-9_.~+/=-]{{1,{MAX_SECRET}}}")
_QUOTED_VARIABLE = re.compile(r"(\\{0,3}[\"'])[A-Z0-9_]{1,64}\Z")  # "MY_PASSWORD=two words"
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_SCHEME = re.compile(r"(?:bearer|basic|digest|token)[ \t]{1,4}", re.IGNORECASE)
_BEARER = re.compile(rf"bearer[ \t]{{1,4}}([A-Za-z0-9._~+/=-]{{8,{MAX_SECRET}}})", re.IGNORECASE)
_NO_SECRET = frozenset(("", "none", "null", "true", "false", "empty", "bearer", "basic", "str", "string"))
_URL_PASSWORD = re.compile(r"[^\s/@:\"']{0,256}:([^\s/@\"']{1,1024})@")

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
            spans += [*_assigned(text), *_url_passwords(text)]
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
    for beginning, pattern in _SHAPES:
        if beginning in standing:
            yield from (match.span() for match in pattern.finditer(text) if _begins(text, match.start()))


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


def _url_passwords(text: str) -> Iterator[Span]:
    at = text.find("://")
    while at >= 0:
        match = _URL_PASSWORD.match(text, at + 3)
        if match and not match[1].startswith("<"):
            yield match.span(1)
        at = text.find("://", match.end() if match else at + 3)


def _assigned(text: str) -> Iterator[Span]:
    """Values that a word announces."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter whose lower case is longer
        lower = text.translate(_ASCII_LOWER)
    standing = _ANNOUNCING.in_text(lower)
    for word, pattern in (*_ASSIGNED.items(), ("--", _FLAG)):
        match = pattern.search(lower) if word in standing else None
        while match:
            span = _value_after(text, match, word)
            if span:
                yield span
            match = pattern.search(lower, span[1] if span else match.end())
    if "bearer" in lower:
        for match in _BEARER.finditer(text):
            if _mixed(match[1], 20):
                yield match.span(1)


def _value_after(text: str, announced: re.Match[str], word: str) -> Span | None:
    """The secret that `announced` (a match in the lower-case text) stands before, if there is one."""
    start, at = announced.span()
    quote = _QUOTE.match(text, at)
    at = quote.end() if quote else at
    scheme = _SCHEME.match(text, at) if word == "authorization" else None
    at = scheme.end() if scheme else at
    name_end = start + len(word)
    around = quote or _QUOTED_VARIABLE.search(text, max(0, start - 70), name_end)
    close = text.find(around[1], at, at + MAX_SECRET) if around else -1
    is_doubtful = word == "token" and not text[start:name_end].isupper()
    if close < 0:  # not quoted, or cut before the quote that closes
        bare = (_TOKEN if is_doubtful else _BARE).match(text, at)
        close = bare.end() if bare else at
    value = text[at:close]
    if value.lower() in _NO_SECRET or value.startswith("<"):
        return None
    if word == "token" and value.replace(".", "").isdecimal():
        return None
    if is_doubtful and not (_TOKEN.fullmatch(value) and _mixed(value, 16 if quote else 24)):
        return None  # `eos_token: "</s>"`, `Unexpected token: end`
    return at, close


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
