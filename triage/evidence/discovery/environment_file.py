"""A file of `NAME=value` lines as systemd reads it (`EnvironmentFile=`, systemd.exec(5)).

Comments begin with # or ;. A value may be quoted, and goes on over lines in quotes and after a backslash.
"""

from __future__ import annotations

import re

_ASSIGNMENT = re.compile(
    r"""^[ \t]*([A-Za-z_]\w*)[ \t]*=[ \t]*
    ((?:"(?:[^"\\]|\\.)*(?:"|\\?\Z)[ \t]*|'[^']*(?:'|\Z)[ \t]*)*)
    ((?:[^\n\\]|\\.)*)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"?|'([^']*)'?""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read_environment_file(text: str) -> dict[str, str]:
    """The variables that it sets."""
    return {
        found[1]: "".join(map(_inside, _QUOTED.finditer(found[2]))) + _ESCAPE.sub(_outside, found[3]).rstrip()
        for found in _ASSIGNMENT.finditer(text)
    }


def _inside(quoted: re.Match[str]) -> str:
    """Return the text within double quotes, where a backslash counts before what a shell would interpret."""
    if quoted[1] is None:
        return quoted[2]
    return _ESCAPE.sub(lambda it: it[1].strip("\n") if it[1] in '"\\`$\n' else it[0], quoted[1])


def _outside(escaped: re.Match[str]) -> str:
    return escaped[1].strip("\n")
