"""Finds secrets that a name announces: `api_key='...'`, `HF_TOKEN: ...`, `"--password", "..."`.

The way in which a value follows its name decides what it must look like. After `=` or `:` any value is a
secret. After other marks, blanks and line breaks it must not look like a word: it must be long, or consist of
letters and digits.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from enum import Enum
from typing import cast

from triage.evidence.redaction.word_search import Words, compiled

Span = tuple[int, int]

MAX_SECRET = 4096  # characters
MAX_IDLE = 8  # list items in a row that are not secrets, each of which may contain a list
LONG = 16  # characters from which a value is not a word

QUOTES = r"\\{0,3}[\"']"
TOKEN = rf"[A-Za-z0-9_.~+/=-]{{1,{MAX_SECRET}}}"
_LINES = r"(?:\s|\\{1,3}[nrt]){0,200}"  # blanks and line ends, also as JSON writes them
_LINE_END = r"(?:\r?\n|(?:\\{1,3}r)?\\{1,3}n)"
_BLANKS = r"[ \t]{0,24}"
_QUOTED = rf"[bruf]{{0,2}}{QUOTES}"


class Look(Enum):
    """What a value must look like, depending on how surely its name means a secret."""

    ANY = "anything"
    NO_WORD = "letters and digits, or long"
    RANDOM = "letters and digits"
    LONG = "letters and digits, and long"


# Words in the names of secrets, in lower case, and how the name may continue.
_SURE = {
    "secret": "s?(?:[_-]?(?:key|id))?",
    "password": "s?",
    "passwd": "",
    "passphrase": "s?",
    "credential": "s?(?:[_-]?(?:key|id))?",
    "passcode": "s?",
    "authorization": "",
    **dict.fromkeys(
        ("passwort", "kennwort", "contraseña", "contrasena", "senha", "wachtwoord", "пароль", "密码", "密碼"),
        "",
    ),
    **dict.fromkeys(("パスワード", "비밀번호", "hasło", "heslo", "parola"), ""),
    **dict.fromkeys(("lösenord", "adgangskode", "passord", "salasana", "şifre", "jelszó"), ""),
    "mot de passe": "",
    "parola d'ordine": "",
    "x-amz-signature": "",
    "x-goog-signature": "",
}
_DOUBTFUL = {"token": "s?", "key": "s?(?:-data)?"}
_DOUBTFUL |= dict.fromkeys(("pass", "pwd", "pw", "auth", "creds", "cred", "pat", "salt"), "")
_VARIABLE = re.compile(r"(?<=_)(?:KEY|PASS|PWD|PW|PAT|CRED|SALT)\b")
_KIND_OF_KEY = re.compile(
    r"(?:api|access|account|admin|anthropic|app|auth|azure|client|encryption|gemini|licen[cs]e|master|ngc"
    r"|openai|private|secret|service|shared|signing|subscription|wandb)[ _-]?\Z",
    re.IGNORECASE,
)

_NUMBER = r"(?![ \t]{0,4}[0-9.]{1,20}(?:[\s,;)\]}]|\Z))"  # `#new-token: 7` is common and not a secret
_RANDOM = (
    rf"(?=[a-z0-9][a-z0-9_.~+/-]{{{LONG - 1}}})(?=[a-z_.~+/-]{{0,64}}[0-9])(?=[0-9_.~+/-]{{0,64}}[a-z])"
    rf"[a-z0-9_.~+/-]{{{LONG},{MAX_SECRET}}}={{0,2}}(?![\w.~+/=:(\[-])"
)
_MARKS = r"(?=[\s\"'\\:=|>(){\[\]}│])(?:\\{1,3}(?:[nrt]|u[0-9a-f]{4})|[^\w*+/%@#$~;]){1,48}"
_JOINED = rf"(?:(?:{QUOTES})?{_BLANKS}(?:=>|:=|==|[:=\uff1a])|>|%3d|&#61;)"
# `{"name": "HF_TOKEN", "value": "..."}`, also in YAML and XML, and as Python shows it
_VALUE = rf"(?:{QUOTES})?,?{_LINES}(?:{QUOTES})?value(?:{QUOTES})?{_BLANKS}[:=]"
_PAIR = rf"{QUOTES},[ \t]{{0,4}}(?={_QUOTED})"  # `(b'x-api-key', b'...')`
_NEAR = rf"(?:_[a-z0-9]{{1,20}}){{0,3}}(?:[ \t](?:is|was|provided|for [\w.@-]{{1,64}}))?(?={_MARKS}{_RANDOM})"
_CUT = r"(?=(?:\\{0,3}[\"'])?[,:=]{0,2}[ \t]{0,4}[\[({]?\r?\n)"
_NAMES = {
    stem: (
        rf"{stem}(?:{tail}(?:(?P<joined>(?:{_JOINED}|{_VALUE}){'' if stem in _SURE else _NUMBER}{_BLANKS})"
        rf"|(?P<pair>{_PAIR}))|(?P<near>{'s?' if stem in _SURE else ''}{_NEAR})|(?P<cut>{_CUT}))"
    )
    for stem, tail in (_SURE | _DOUBTFUL).items()
}
_FLAG = (
    r"--(?:[a-z0-9]{1,20}[_-]){0,4}(?:(?:api|access|auth|master|private|secret|signing)[_-]?keys?"
    r"|secret|password|passwd|passphrase|(?:auth)?token)"
    rf"(?:(?P<joined>=|[ \t]{{0,4}}\\{{1,3}}n?\r?\n?[ \t]{{1,40}}(?![ \t]|- )|[ \t\0]{{1,8}}|\\{{1,3}}t"
    rf"|{QUOTES},?{_LINES}(?={QUOTES})|{_LINE_END}{_BLANKS}-[ \t]{{1,8}})"
    rf"|(?P<near>(?={_MARKS}{_RANDOM}))|(?P<cut>{_CUT}))"
)
# The value is in the next line, which has its own prefix, or in the next entry of a journal in JSON.
_NEXT_LINE = re.compile(
    rf"(?:{QUOTES})?[,:=]{{0,2}}[ \t]{{0,4}}(?:[\[({{]|\\{{1,3}})?"
    rf"(?:\r?\n[^\n]{{0,200}}?[ \t](?:[ \t]{{1,40}}|(?={QUOTES}|- ))(?:- )?"
    rf"|\"[^\n]{{0,600}}\n[^\n]{{0,600}}?\"message\": ?\"(?:[ \t]|\\t){{0,80}}(?:- )?)"
    rf"(?:{QUOTES})?({_RANDOM})(?:{QUOTES})?,?(?:[ \t]{{1,4}}\\{{1,3}})?(?=[ \t\r]{{0,8}}(?:\n|\"|\Z))"
)
_BLOCK = re.compile(rf"{_BLANKS}([|>][+-]?)?{_BLANKS}(?={_LINE_END})")
_BLOCK_ITEM = re.compile(
    rf"{_LINE_END}(?:[ \t]{{0,40}}(- {{1,4}})|[ \t]{{1,40}})(?:{QUOTES})?(?!--|[,}}\])])"
    rf"([^\s\"'\\:<]{{1,{MAX_SECRET}}})(?:{QUOTES})?"
    rf"{_BLANKS}(?={_LINE_END}|\Z|\")"
)
_OWN_QUOTE = re.compile(rf"({QUOTES})[\w.-]{{0,64}}\Z")
_NEXT_VALUE = re.compile(  # `--api-key A B`
    rf"[ \t]{{1,8}}(?=[^\s-])|{QUOTES},?{_LINES}(?={QUOTES}[^-])"
    rf"|(?:{QUOTES})?{_LINE_END}{_BLANKS}- (?=[^\s-])"
)
_STANDING = Words((*_NAMES, "--"))

_NEARBY = re.compile(rf"({_MARKS})({_RANDOM})")
_COLOUR = r"(?:(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;]{0,16}m){0,4}"
_BEFORE = re.compile(rf"{_COLOUR}(?:[bruf]{{0,2}}((?:{QUOTES}){{3}}|{QUOTES}))?")
_CLOSING = re.compile(rf"{_COLOUR}{QUOTES}\s{{0,4}}(?:[,}}\])]|\Z)")  # `{"MESSAGE": "password=", ...`
_BARE = re.compile(rf"(?:\\[^\snrtu\"']|[^\s\"'\\,;&)\]}}<>\x1b]){{1,{MAX_SECRET}}}")
_TOKEN = re.compile(TOKEN)
_QUOTED_VARIABLE = re.compile(rf"({QUOTES})[A-Z0-9_]{{1,64}}\Z")  # "MY_PASSWORD=two words"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,30}[ \t]{1,4}(?=[A-Za-z0-9._~+/<{-]{8}|None|null)")
_NOTHING = frozenset(("none", "null", "true", "false", "empty"))
_NO_SECRET = _NOTHING | {"", "bearer", "basic", "str", "string", "{", "|", "|-", "|+"}

# A list, a set, a mapping, a call, and one of those inside another.
_KEYWORD = rf"[A-Za-z_]{{1,40}}=(?={_QUOTED})"
_OPENING = re.compile(
    rf"\[|(?:\{{|[A-Za-z_.]{{0,40}}\()(?={_LINES}(?:{_QUOTED}|[\[({{]|[A-Za-z_.]{{1,40}}\(|{_KEYWORD}))"
)
_BETWEEN = re.compile(
    rf"(?:\s|\\{{1,3}}[nrt]|[,:\[({{\])}}]|[A-Za-z_.]{{1,40}}\(|{_KEYWORD}|[bruf]{{1,2}}(?={QUOTES})){{0,200}}"
)
_QUOTE = re.compile(QUOTES)
_ITEM = re.compile(
    rf"[^\s\"'\\,;:=&()\[\]{{}}<>\x1b]{{1,{MAX_SECRET}}}={{0,2}}(?=[ \t]{{0,4}}(?:[,\])}}\"'\n]|\Z))"
)  # outside quotes
_IS_KEY = re.compile(rf"(?:{QUOTES})?{_LINES}:")
_HOLDING_VALUES = ("value", "secret_value")
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def announced(text: str) -> Iterator[Span]:
    """Yield where the values stand that a name announces."""
    lower = in_small_letters(text)
    for stem in _STANDING.in_text(lower):
        pattern = compiled(_NAMES.get(stem, _FLAG))
        match = pattern.search(lower)
        while match:
            spans, end = _after(text, lower, match, stem)
            yield from spans
            match = pattern.search(lower, max(match.end(), end))


def in_small_letters(text: str) -> str:
    """Return the text in lower case with the same length, even if the lower case of a letter is longer."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


def random(value: str) -> bool:
    """Return whether the value mixes letters and digits, as no word does."""
    return mixed(value, MAX_SECRET) and any(letter.isalpha() for letter in value)


def mixed(value: str, long: int) -> bool:
    """Return whether the value mixes letters and digits, or is too long for a word."""
    has_digit = any(letter.isdecimal() for letter in value)
    return len(value) >= long or (len(value) >= 8 and has_digit and not value.isdecimal())


def _after(text: str, lower: str, name: re.Match[str], stem: str) -> tuple[list[Span], int]:
    """Return the secrets after a name (a match in the lower-case text), and where to search for the next
    name.

    Of the lines that follow, the later ones begin with prefixes in which a name can stand.
    """
    look, joint = _look(text, name.start(), stem), cast("str", name.lastgroup)
    if look is None:
        return [], name.end()
    found = [*_in_block(text, name.end())] if look is Look.ANY else []
    if not found and joint != "cut":
        found = [*_joined(text, lower, name, stem, look)]
    if found or look is not Look.ANY:
        return found, found[-1][1] if found else name.end()
    found = [*_in_next_lines(lower, name.start(joint))]
    return found, found[0][1] if found else name.end()


def _joined(text: str, lower: str, name: re.Match[str], stem: str, look: Look) -> Iterator[Span]:
    joint, at, is_flag = name.lastgroup, name.end(), stem == "--"
    if joint == "near":
        if look is Look.ANY or (stem in ("token", "key") and not name["near"].startswith("_")):
            yield from _nearby(text, lower, at, is_flag)
        return
    if _OPENING.match(text, at):
        yield from _held(text, at, look)
        return
    is_item = joint == "pair" or (is_flag and "," in name["joined"])
    own_quote = _OWN_QUOTE.search(text, max(0, name.start() - 70), name.start())
    if _CLOSING.match(text, at) or (is_item and not own_quote):
        return
    (start, end), is_quoted = _value_at(text, name, stem, look)
    if is_item and _IS_KEY.match(text, end):  # `{"MESSAGE": "--hf-token", "_PID": ...`
        return
    value = text[start:end]
    is_random = random(value)
    if _is_secret(value, look, is_quoted) and (is_random or joint != "pair"):
        yield start, end
    if is_flag:
        yield from _more_values(text, end)
    elif not (is_quoted or is_random or value.lower() in _NOTHING or (value and look is not Look.ANY)):
        yield from _nearby(text, lower, end, is_flag)  # `!vault`, `Optional[str] =`, YAML's `|`


def _look(text: str, start: int, stem: str) -> Look | None:
    """Return what the value must look like for the name that ends with this stem, or None if it means no
    secret.
    """
    name, before = text[start : start + len(stem)], text[max(0, start - 16) : start]
    if stem in _SURE or stem == "--":
        return Look.ANY
    if stem == "token":
        if text[start + 5 : start + 6] in ("s", "S"):  # `VLLM_MAX_TOKENS`
            return Look.LONG
        return Look.ANY if name.isupper() else Look.NO_WORD
    if stem == "key" and (kind := _KIND_OF_KEY.search(before)):
        return Look.RANDOM if kind[0].endswith(" ") else Look.ANY
    if _VARIABLE.match(text, start):
        return Look.LONG if stem == "key" else Look.ANY
    is_inside = before[-1:].isalnum() and not (before[-1].islower() and name.istitle())
    if stem == "key" or (is_inside and name != "PASS"):
        return None
    return Look.LONG if stem in ("auth", "creds") else Look.RANDOM


def _nearby(text: str, lower: str, at: int, is_flag: bool) -> Iterator[Span]:
    """Find a value that follows without an assignment and is not a word. On another line it must stand alone,
    indented or quoted.
    """
    if match := _NEARBY.match(lower, at):
        marks, end = match[1].replace("\\n", "\n"), match.end()
        stands = not marks.endswith("\n") or is_flag
        if "\n" not in marks or (stands and text[end : end + 1] in ("", "\n", "\r", "\\", '"', "'")):
            yield match.span(2)


def _in_block(text: str, at: int) -> Iterator[Span]:
    """Return the items of a YAML list, or its block of text."""
    block = _BLOCK.match(text, at)
    at = block.end() if block else at
    while item := _BLOCK_ITEM.match(text, at):
        if not (block and (item[1] or block[1])) or item[2].lower() in _NO_SECRET:
            return
        yield item.span(2)
        at = item.end()


def _in_next_lines(lower: str, at: int) -> Iterator[Span]:
    while line := _NEXT_LINE.match(lower, at):
        yield line.span(1)
        at = line.end(1)


def _more_values(text: str, at: int) -> Iterator[Span]:
    """Return the further values of a flag that takes several."""
    while following := _NEXT_VALUE.match(text, at):
        quote = _QUOTE.match(text, following.end())
        bare = _BARE.match(text, quote.end() if quote else following.end())
        if not bare or "/" in bare[0] or not random(bare[0]):
            return
        yield bare.span()
        at = bare.end()


def _value_at(text: str, name: re.Match[str], stem: str, look: Look) -> tuple[Span, bool]:
    """Return where the value after a name stands (it may be empty), and whether it is quoted."""
    start, at = name.span()
    before = _BEFORE.match(text, at)
    quote, at = (before[1], before.end()) if before else (None, at)
    scheme = _SCHEME.match(text, at) if stem == "authorization" else None
    at = scheme.end() if scheme else at
    around = quote
    if not quote and (variable := _QUOTED_VARIABLE.search(text, max(0, start - 70), start + len(stem))):
        around = variable[1]
    close = _closing(text, around, at) if around else -1
    if close < 0:  # not quoted, or cut before the closing quote
        bare = (_BARE if look is Look.ANY else _TOKEN).match(text, at)
        close = bare.end() if bare else at
    return (at, close), bool(quote)


def _closing(text: str, quote: str, at: int) -> int:
    """Return where a quoted value ends within its line and within the text of a JSON line, -1 if it
    does not.
    """
    end = text.find(quote, at, at + MAX_SECRET)
    value = text[at:end]
    is_over = "\n" in value and quote not in ('"""', "'''")
    return -1 if end < 0 or is_over or '", "' in value or value.endswith("\\") else end


def _held(text: str, at: int, look: Look) -> Iterator[Span]:
    """Return the secrets in a list, a set, a mapping or a call; in a mapping only values that are
    not words.
    """
    inside, idle, is_mapping, is_value = "", 0, False, False
    while idle < MAX_IDLE and (between := _BETWEEN.match(text, at)):
        is_mapping = is_mapping or "env" in between[0]  # `os.environ.get("HF_TOKEN")`
        for mark in between[0]:
            inside = inside + mark if mark in "[({" else inside[:-1] if mark in "])}" else inside
            if not inside and mark in "])}":
                return
        if _CLOSING.match(text, between.end()):  # closes what the list stands in
            return
        quote = _QUOTE.match(text, between.end())
        start = quote.end() if quote else between.end()
        if quote:
            end = _closing(text, quote[0], start)
        else:
            bare = _ITEM.match(text, start)
            end = bare.end() if bare else -1
        if end < 0:
            return
        value, at = text[start:end], end + len(quote[0] if quote else "")
        is_key = inside[-1] == "{" and bool(_IS_KEY.match(text, end))
        is_mapping = is_mapping or is_key
        idle += 1
        if (quote or inside[-1] == "[") and _is_secret(
            value, Look.LONG if is_mapping and not is_value else look, bool(quote)
        ):
            yield start, end
            idle = 0
        is_value = is_key and value in _HOLDING_VALUES


def _is_secret(value: str, look: Look, is_quoted: bool) -> bool:
    if value.lower() in _NO_SECRET or value.startswith("<") or (value[0] == "{" and value[-1] == "}"):
        return False
    if look is Look.ANY:
        return True
    is_word = not _TOKEN.fullmatch(value)  # `eos_token: "</s>"`, `Unexpected token: end`
    if is_word or look is Look.NO_WORD:
        return not is_word and mixed(value, 16 if is_quoted else 24)
    return random(value) and (look is Look.RANDOM or len(value) >= LONG)
