"""The console blocks of a page: commands as a newcomer would type them, and what they print."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One command and its output, in which `...` stands for anything."""

    line: int
    arguments: tuple[str, ...]
    output: str
    page: str = "README.md"

    @property
    def needs_host(self) -> bool:
        return "gpu01" in self.arguments

    def differs_from(self, printed: str) -> str:
        """ "" when the output is as the page has it, else both."""
        plain = "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
        checker = doctest.OutputChecker()
        if checker.check_output(self.output, plain, doctest.ELLIPSIS):
            return ""
        return f"{self.page}:{self.line} has\n{self.output}\nbut it prints\n{plain}"


def examples(page: str = "README.md") -> Iterator[Example]:
    """Every `$ triage ...` of the page, in order."""
    text = (ROOT / page).read_text("utf-8")
    for block in _BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 2
        for part in re.split(r"^\$ ", block.group(1), flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "triage", command
            yield Example(line, tuple(arguments), output, page)
            line += part.count("\n")
