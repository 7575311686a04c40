"""Programs that are sent to a host and run there. Nothing here imports the rest of the product.

A Python program runs under the oldest Python that its `Program` promises; `triage.hosts.sender` sends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Whose = Literal["ours", "owner", "service"]


@dataclass(frozen=True)
class Program:
    """A Python program of this package, and how an interpreter of a host runs it.

    `minor`: of the oldest Python 3 that runs it. `whose` rights it gets where we are root: `ours`, which
    stays root under an interpreter that nobody else can change; those of the `owner` of the interpreter;
    those of the account of the `service`. `before` names the file that is sent before it, as a part of it.
    `imports`: whether it needs packages that are installed for the interpreter.
    """

    name: str
    minor: int
    whose: Whose = "ours"
    before: str = ""
    imports: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of the interpreter: it writes no bytecode, and runs only what is needed."""
        return ("-B",) if self.imports else ("-I", "-S", "-B")

    @property
    def text(self) -> str:
        return (program_text(self.before) if self.before else "") + program_text(self.name)


PATCH_AGENT = Program("patch_agent", 6, before="owner")
PATCH_OBSERVER = Program("patch_observer", 6, "owner", before="owner")
LOAD_AGENT = Program("load_agent", 7)
TOOL_AGENT = Program("tool_agent", 7, "service")
LINKS_AGENT = Program("links_agent", 9, "service", imports=True)
CONTAINER_COMMAND = Program("container_command", 7, "service")


@cache
def program_text(name: str) -> str:
    """Return the text of the program `name` of this package, as it is sent to a host."""
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")
