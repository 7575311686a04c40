"""What a start script does before it starts an engine: simple commands, with the variables that it sets.

Assignments, arrays, export, arguments, expansions with defaults; no conditions, no loops, no substitutions.
What nobody sets stays as it is written, `$NAME`.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence

MAX_SCRIPT = 256 * 1024  # characters
MAX_WORDS = 1024  # of a command, with what its variables hold
MAX_VALUE = 4096  # characters of a variable
MAX_VARIABLES = 64  # in a word

EXPORTS = ("export", "declare", "readonly")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*|[1-9]\d?)(?::?[-=]([^{}]{0,4096}))?\}|([A-Za-z_]\w*|[1-9]))")
_LONE = re.compile(r"\$(?:\{(\w+|@)(?:\[[@*]\])?\}|(\w+|@))")
_REST = re.compile(r"\$\{@:([1-9]\d?)\}")
_ARRAY = re.compile(
    r"^[ \t]*(?:(?:declare|typeset|local|readonly)[ \t]+(?:-\w+[ \t]+)?)?([A-Za-z_]\w*)(\+?)=\(([^()]*)\)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
_QUOTED = r"""'[^']*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$)"""
_REDIRECTION = re.compile(_QUOTED + r"|(?<!\S)(\d|&)?([<>]{1,2})\|?(?:&\d|[ \t]*([^\s;&|]+))")
_SET, _ADD = "\0set", "\0add"  # an array, as a command that no script can hold
OUTPUT = "\0out"  # before the file that a command writes to


class Variables:
    """What is set so far. `known` begins with the environment; `given` is what follows the script's name."""

    def __init__(self, known: Mapping[str, str], given: Sequence[str] = ()) -> None:
        self.known = dict(known)
        self._arrays: dict[str, list[str]] = {}
        self._numbered: dict[str, str] = {}
        self._all = ChainMap(self._numbered, self.known)
        self._give(given)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command with its variables filled in; none for what only sets some."""
        if words[0] in (_SET, _ADD):
            before = self._arrays.get(words[1], []) if words[0] == _ADD else []
            self._arrays[words[1]] = [*before, *self._filled(words[2:])][:MAX_WORDS]
            return []
        whole = self._filled(words)
        assigned = list(itertools.takewhile(bool, map(ASSIGNMENT.fullmatch, whole)))
        self._assign(assigned)
        rest = whole[len(assigned) :]
        if rest and rest[0] in EXPORTS:
            self._assign(map(ASSIGNMENT.fullmatch, rest[1:]))
            return []
        if rest and rest[0] == "shift":
            self._give(self._arrays["@"][int(rest[1]) if rest[1:] and rest[1] in self._numbered else 1 :])
            return []
        return rest

    def source(self, text: str) -> None:
        """Another file, of which only what sets variables counts."""
        for words in commands_of(text):
            if words[0] in (_SET, _ADD, *EXPORTS) or ASSIGNMENT.fullmatch(words[0]):
                self.command(words)

    def _give(self, words: Sequence[str]) -> None:
        """What `$@` and `$1` are from now on."""
        self._arrays["@"] = list(words)
        self._numbered.clear()
        self._numbered.update((str(number), word) for number, word in enumerate(words[:99], 1))

    def _assign(self, matches: Iterable[re.Match[str] | None]) -> None:
        self.known.update((match[1], match[2][:MAX_VALUE]) for match in matches if match)

    def _filled(self, words: Sequence[str]) -> list[str]:
        found: list[str] = []
        for word in words[:MAX_WORDS]:
            lone = _LONE.fullmatch(word)
            name = (lone[1] or lone[2]) if lone else ""
            if rest := _REST.fullmatch(word):
                found += self._arrays["@"][int(rest[1]) - 1 :]
            elif name in self._arrays:
                found += self._arrays[name]
            elif name in self._all:
                found += self._all[name].split()
            else:
                found.append(expand(word, self._all))
        return found[:MAX_WORDS]


def expand(word: str, environment: Mapping[str, str]) -> str:
    """`$NAME`, `${NAME}` and `${NAME:-DEFAULT}` replaced where they are known."""

    def value(match: re.Match[str]) -> str:
        known = environment.get(match[1] or match[3], "")
        if known or match[2] is None:
            return environment.get(match[1] or match[3], match[0])
        return _VARIABLE.sub(lambda inner: environment.get(inner[1] or inner[3], inner[0]), match[2])

    return _VARIABLE.sub(value, word, count=MAX_VARIABLES)


def unknown_in(text: str) -> tuple[str, ...]:
    """The variables that nobody set."""
    return tuple(dict.fromkeys(match[1] or match[3] for match in _VARIABLE.finditer(text)))


def commands_of(text: str) -> list[list[str]]:
    """The simple commands of a script, as words. What cannot be read as shell text is left out."""
    commands: list[list[str]] = [[]]
    whole = re.sub(r"\\\r?\n", " ", text[:MAX_SCRIPT].replace("\0", ""))
    for line in _ARRAY.sub(_on_one_line, whole).splitlines():
        lexer = shlex.shlex(_REDIRECTION.sub(_output, line), posix=True, punctuation_chars=True)
        lexer.wordchars += ":@%+,{}[]$!^\0"
        lexer.commenters = "#"
        try:
            words = list(lexer)
        except ValueError:
            words = line.split()
        for word in words:
            if not word.strip(";&|()<>"):
                commands.append([])
            else:
                commands[-1].append(word)
        commands.append([])
    return [command for command in commands if command]


def _output(found: re.Match[str]) -> str:
    """What is quoted, and a word for the file that is written to instead of a redirection."""
    channel, way, file = found.groups()
    if not way:
        return found[0]
    says = channel in (None, "1", "2", "&") and way[0] == ">"
    return f" {OUTPUT}{file}" if says and file and not file.startswith("/dev/") else ""


def _on_one_line(array: re.Match[str]) -> str:
    words = " ".join(_COMMENT.sub("", array[3]).split("\n"))
    return f"{_ADD if array[2] else _SET} {array[1]} {words};"
