"""Finds what end users asked and what a model answered, where an engine or a proxy logged it.

    Receive: obj=GenerateReqInput(rid='..', text='Tell me ..', sampling_params={..})
    Received request cmpl-1: prompt: 'Tell me ..', params: SamplingParams(..), prompt_token_ids: [1, 22, 7]
    {"messages": [{"role": "user", "content": "Tell me .."}]}

Names that mean a conversation everywhere are taken by themselves; names such as `text` only on a line that
has the words of a request. What a server says of a prompt (its length, an error) stays. The time is linear in
the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.evidence.redaction.word_search import Words

Span = tuple[int, int]

MOST_BACKSLASHES = 15  # before a quote, as JSON in JSON in JSON writes it

_SURE = (
    *("prompt", "prompts", "content", "reasoning_content", "reasoning", "completion", "generated_text"),
    *("user_input", "system_prompt", "negative_prompt", "input_text", "output_text", "chat_history"),
)
_ON_REQUESTS = ("text", "input", "inputs", "output", "outputs", "arguments", "answer", "instruction", "query")
_TOKENS = (
    *("prompt_token_ids", "output_token_ids", "token_ids", "input_ids", "output_ids", "origin_input_ids"),
    "prompt_tokens_ids",
)
_REQUESTS = (
    *("ReqInput(", "obj=", "Received request", "Generated response", "Finish:", "Receive:"),
    *(
        "sampling_params",
        "SamplingParams(",
        '"role"',
        '\\"role\\"',
        "'role'",
        '"choices"',
        '\\"choices\\"',
        "'choices'",
    ),
    *('"messages"', '\\"messages\\"', "'messages'", '"request.', "meta_info"),
)
_NAMES = (*_SURE, *_ON_REQUESTS)
_IN_TEXT, _IN_LISTS = Words(_NAMES), Words(_TOKENS)
_JOINED = rf"(?:\\{{0,{MOST_BACKSLASHES}}}[\"'])?[ \t]{{0,4}}[:=][ \t]{{0,4}}\[?"
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_.])(?P<name>{'|'.join(sorted(_NAMES, key=len, reverse=True))}){_JOINED}"
    rf"[bruf]{{0,2}}(?P<slashes>\\{{0,{MOST_BACKSLASHES}}})(?P<quote>[\"'])"
)
_LISTED = re.compile(
    rf"(?<![A-Za-z0-9_])(?P<head>(?:{'|'.join(_TOKENS)})(?P<quote>\\{{0,{MOST_BACKSLASHES}}}[\"'])?"
    r"[ \t]{0,4}[:=][ \t]{0,4}(?:(?:array|tensor)\(|array\('q', )?\[)[0-9][0-9, .\n]{3,}"
)
TOKENS = "<tokens>"
"""What stands instead of a list of token numbers, in the quotes of its name where that has any."""


def without_tokens(text: str) -> str:
    """Return the text without the numbers of tokens, from which a prompt can be read back."""
    if not _IN_LISTS.in_text(text):
        return text
    return _LISTED.sub(
        lambda found: f"{found['head']}{found['quote'] or ''}{TOKENS}{found['quote'] or ''}", text
    )


def in_conversations(text: str) -> Iterator[Span]:
    """Yield where users and models speak: the insides of quotes."""
    if not _IN_TEXT.in_text(text):
        return
    line = _TextLine(text)
    at = 0
    while match := _NAMED.search(text, at):
        at = match.end()
        line.move(match.start())
        if match["name"] in _ON_REQUESTS and not line.is_request:
            continue
        end = _closing(text, at, match["quote"], len(match["slashes"]), line)
        if end > at and not text.startswith("<prompt-", at):
            yield at, end
        at = end


class _TextLine:
    """The line of a text that a place stands in; places come in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.start, self.end = 0, -1
        self.is_request = self.is_json = False

    def move(self, place: int) -> None:
        text = self._text
        if place < self.end:
            return
        self.start = text.rfind("\n", max(self.end, 0), place) + 1  # 0 on the first line
        end = text.find("\n", place)
        self.end = len(text) if end < 0 else end
        said = text[self.start : self.end]
        self.is_request = any(map(said.__contains__, _REQUESTS))
        self.is_json = said.lstrip()[:1] == "{"


def _closing(text: str, at: int, quote: str, slashes: int, line: _TextLine) -> int:
    """Return where a quoted text ends: at its quote, at that of the JSON around it, or with its line."""
    other = '"' if line.is_json and quote == "'" else ""
    marks = re.compile(rf"\\*[{quote}{other}]")
    for match in marks.finditer(text, at, line.end):
        before = match.end() - 1 - match.start()
        if match[0][-1] == quote:
            if _ends(before, slashes, within_json=bool(other)):
                return match.end() - 1 - (slashes if before >= slashes else 0)
        elif before == 0:
            return match.start()
    return line.end


def _ends(before: int, slashes: int, within_json: bool) -> bool:
    """Whether a quote with so many backslashes before it closes one that was opened behind `slashes`."""
    if within_json:
        return before // 2 % 2 == 0
    if slashes == 0:
        return before % 2 == 0
    return before % (2 * (slashes + 1)) == slashes
