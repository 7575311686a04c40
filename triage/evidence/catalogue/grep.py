"""Regular expressions as `grep -E` wants them."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"\(\?i:(?P<any_case>[a-z|]+)\)|\(\?:|\[(?P<set>(?:[^\]\\]|\\.)+)\]"
    r"|\\x(?P<byte>[0-9a-f]{2})|\\(?P<escaped>.)|\((?!\?)|[^\\[(]"
)
_CLASSES = {"d": "[0-9]", "s": "[[:space:]]", "w": "[[:alnum:]_]", "b": "", "t": "\t"}
_IN_SETS = {r"\d": "0-9", r"\s": "[:space:]", r"\w": "[:alnum:]_"}
_PLAIN = re.compile(r"[^\w\s]")


def extended(pattern: str) -> str:
    r"""A POSIX extended expression that finds at least what a Python one finds in a line.

    Literals, sets, groups, repeats, `\b` (left out), `\d`, `\s`, `\w`, `\t`, `\xhh` and `(?i:words)` are
    known. Raises ValueError for anything else.
    """
    parts, at = [], 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise ValueError(f"no such expression in grep -E: {pattern[at:]!r} of {pattern!r}")
        parts.append(_spelled(piece))
        at = piece.end()
    return "".join(parts)


def _spelled(piece: re.Match[str]) -> str:
    text = piece[0]
    if piece["any_case"]:
        return "(" + re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", text[4:-1]) + ")"
    if piece["set"]:
        inside = re.sub(r"\\[dsw]", lambda found: _IN_SETS[found[0]], piece["set"])
        return f"[{inside.replace(chr(92) * 2, chr(92))}]"  # a backslash is a letter like any other there
    if piece["byte"]:
        return chr(int(piece["byte"], 16))
    if piece["escaped"]:
        escaped = piece["escaped"]
        if escaped in _CLASSES:
            return _CLASSES[escaped]
        if not _PLAIN.fullmatch(escaped):
            raise ValueError(f"no such expression in grep -E: {text}")
        return text if escaped in r".^$*+?{}[]|()\\" else escaped
    return "(" if text == "(?:" else text
