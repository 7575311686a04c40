"""Secrets that stand in a form of several lines or fields: keys, Kubernetes secrets, settings with a meaning.

kind: Secret                       PuTTY-User-Key-File-3: ssh-ed25519
data:                              Private-Lines: 1
  hf: c3VwZXJzZWNyZXQxMjM0NQ==     AAAAIKx3q8Zr1uYw2VtB5nM7cP9dF0gH4jL6sQ
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.evidence.redaction.named_secrets import Span
from triage.evidence.redaction.word_search import compiled

MAX_KEY = 20_000  # characters of a private key
MAX_MAPPING = 65_536  # characters of the data of a secret

_BEGIN = re.compile(r"PRIVATE KEY(?: BLOCK)?-----")
_END = "-----END "
_RUN = re.compile(r"[A-Za-z0-9+/=]{40,}")
_QUOTED_RUN = re.compile(r"\"([A-Za-z0-9+/]{4,100}={0,2})\"(?!\s{0,4}:)")
_CUT_HEAD = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BASE64 = r"[A-Za-z0-9+/]"
_MORE = rf"(?:\r?\n{_BASE64}{{4,100}}={{0,2}}(?=\r?\n|\Z)){{0,200}}"
_BODY_LINES = re.compile(r"(?:(?:^|(?<=\n))[A-Za-z0-9+/]{4,100}={0,2}\r?\n){1,200}\Z")
_SECRET = re.compile(r"kind[\"']?:[ \t]{0,8}[\"']?Secret\b")
_YAML_DATA = re.compile(r"(?m)^([ \t]{0,40})(?:data|stringData):[ \t]{0,8}\r?\n")
_YAML_VALUE = re.compile(
    r"([ \t]{1,80})[\w.-]{1,253}:[ \t]{0,8}[\"']?([^\s\"']{0,65536})[^\n]{0,200}(?:\n|\Z)"
)
_JSON_DATA = re.compile(r"\"(?:data|stringData)\"\s{0,8}:\s{0,8}\{([^{}]{1,65536})\}")
_JSON_VALUE = re.compile(r":\s{0,8}\"([^\"]{4,65536})\"")

_LOGIN = r"(?=[^\n]{0,160}?(?:netrc|[Kk]ey|login|using|API))[^\n]{0,160}?"
_SCHEMES = r"(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id|[id])|scrypt|pbkdf2[a-z0-9-]{0,16})"
_FORMS = (
    ("Private-Lines: ", r"Private-Lines: \d{1,4}\r?\n((?:[A-Za-z0-9+/=]{4,100}(?:\r?\n|\Z)){1,200})"),
    ("Private-MAC: ", r"Private-MAC: ([0-9a-f]{40,64})"),
    ("MII", rf"(?<![A-Za-z0-9+/])(MII{_BASE64}{{50,8192}}={{0,2}}{_MORE})"),
    ("b3BlbnNzaC1rZXkt", rf"(b3BlbnNzaC1rZXkt{_BASE64}{{20,8192}}={{0,2}}{_MORE})"),
    (".dockerc", r"\.dockerc(?:onfigjson|fg)[\"']?:[ \t]{0,8}[\"']?([A-Za-z0-9+/=]{16,65536})"),
    ("OTLP_", r"OTLP_(?:[A-Z]{1,12}_)?HEADERS[\"']?[=:][ \t]{0,4}[\"']?([^\s\"'\\]{8,4096})"),
    ("Q~", r"Q~(?<=[A-Za-z0-9_~.-]{3}[0-9]Q~)([A-Za-z0-9_~.-]{31,34})"),
    (":A", r":(?<=[0-9]{5}:)(A[A-Za-z0-9_-]{34})(?![A-Za-z0-9_-])"),
    ("|", r"\|(?<=[0-9]{15}\|)([A-Za-z0-9_-]{27,40})(?![A-Za-z0-9_|-])"),
    ("%", r"%(?<=[0-9]{15}%)([A-Za-z0-9_-]{27,40})(?![A-Za-z0-9_%-])"),
    ("_PIN", r"_PIN[\"']?[=:][ \t]{0,4}[\"']?([0-9]{4,12})\b"),
    ("$", rf"\${_SCHEMES}\$([./A-Za-z0-9$=,+-]{{16,512}})"),
    ("discord", r"(?<![\w-])([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})"),
    ("wandb", rf"wandb{_LOGIN}(?<![0-9a-f])([0-9a-f]{{40}})(?![0-9a-f])"),
    ("WANDB", rf"WANDB{_LOGIN}(?<![0-9a-f])([0-9a-f]{{40}})(?![0-9a-f])"),
)


def in_blocks(text: str) -> Iterator[Span]:
    """Yield where secrets stand that a form of several words or lines gives away."""
    yield from private_keys(text)
    for inside, pattern in _FORMS:
        if inside in text:
            yield from (match.span(1) for match in compiled(pattern).finditer(text))
    if "Secret" in text and _SECRET.search(text):
        yield from _secret_data(text)


def private_keys(text: str) -> Iterator[Span]:
    """Yield the bodies of private keys: from BEGIN to END; where other text stands between (one log entry a
    line), their runs of base64; where the head is cut, the lines above END."""
    begins = _BEGIN.search(text) if "PRIVATE KEY" in text else None
    if begins is None:
        return
    stop = 0
    while begins is not None:
        start = begins.end()
        head = _CUT_HEAD.match(text, max(0, text.rfind("-----END", 0, start)))
        if head and head.end() == start:  # an END without its BEGIN
            if above := _BODY_LINES.search(text, max(stop, head.start() - MAX_KEY), head.start()):
                yield above.span()
            stop = start
            begins = _BEGIN.search(text, stop)
            continue
        end = text.find(_END, start, start + MAX_KEY)
        stop = end if end >= 0 else min(len(text), start + MAX_KEY)
        body = text[start:stop]
        if end >= 0 and '"' not in body:
            yield start, stop
        else:
            runs = [match.span() for match in _RUN.finditer(body)]
            if end >= 0:  # the last line of a key is short
                runs += [match.span(1) for match in _QUOTED_RUN.finditer(body)]
            yield from ((start + first, start + last) for first, last in runs)
        begins = _BEGIN.search(text, text.find("-----", stop + 5) + 5 if end >= 0 else stop)


def _secret_data(text: str) -> Iterator[Span]:
    """Yield the values of `data` and `stringData` in a text that has a Secret of Kubernetes."""
    for head in _YAML_DATA.finditer(text):
        at = head.end()
        while (item := _YAML_VALUE.match(text, at)) and len(item[1]) > len(head[1]):
            if item[2]:
                yield item.span(2)
            at = item.end()
    for mapping in _JSON_DATA.finditer(text):
        for value in _JSON_VALUE.finditer(text, mapping.start(1), mapping.end(1)):
            yield value.span(1)
