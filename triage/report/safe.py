"""Untrusted text made safe to show: nothing of a log or host reaches a terminal as a control sequence."""

from __future__ import annotations

import re

# C0 and C1 controls, bidirectional overrides and isolates, zero-width characters, line separators, BOM, lone
# surrogates. A newline stays: callers decide what lines mean.
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def safe(text: str) -> str:
    """`text` with tabs as spaces and everything that could steer a terminal spelled out as `\\x1b`."""
    return _UNSAFE.sub(_spell, text)


def safe_line(text: str, limit: int = 500) -> str:
    """Return a safe text on one line of at most `limit` characters."""
    line = safe(text[: limit + 1]).replace("\n", " ")
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _spell(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\t":
        return "    "
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
