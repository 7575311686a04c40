"""Several commands in one, run one after the other: each would otherwise cost a channel, a login shell and
the way there and back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from triage.hosts.capture import Capture
from triage.hosts.connection import Command, Output

_TOLD = 'mark=$1; told() { printf "\\n%s %s\\n" "$mark" $?; printf "\\n%s\\n" "$mark" >&2; };'


def joined(commands: Sequence[Command], mark: str) -> Command:
    """One command for several, that reads no input; all have as long as the most patient of them.

    `mark` is a word that nobody can foresee: it parts what they print.
    """
    script = "; told; ".join(map(_line, commands))
    return Command(
        ("sh", "-c", f"{_TOLD} {script}; told", "sh", mark),
        timeout=max(command.timeout for command in commands),
        limit=sum(command.limit for command in commands),
    )


def _line(command: Command) -> str:
    """It, in one line as a C shell takes no other."""
    if not command.stdin:
        return shlex.join(command.argv)
    text = command.stdin.replace("\\", r"\\").replace("\n", r"\n")
    return f"printf %b {shlex.quote(text)} | {shlex.join(command.argv)}"


def parted(output: Output, commands: Sequence[Command], mark: str) -> tuple[Output, ...]:
    """The outputs of joined commands. There are none of one that a limit ended before it had all of its own,
    nor of those after it."""
    ended = re.compile(rb"\n%s ([0-9]{1,3})\n" % mark.encode())
    complaints = output.stderr.split(b"\n%s\n" % mark.encode())
    found: list[Output] = []
    at = 0
    for number, command in enumerate(commands):
        end = ended.search(output.stdout, at)
        if end is None and (number or not output.cut):
            break
        kept = Capture(command.limit)
        kept.cut = "" if end else output.cut
        kept.add("stdout", output.stdout[at : end.start() if end else None])
        kept.add("stderr", complaints[number] if number < len(complaints) else b"")
        code = code_of(int(end[1])) if end else output.code
        found.append(replace(kept.output(code), shell=output.shell))
        if end is None:
            break
        at = end.end()
    return tuple(found)


def code_of(status: int) -> int:
    """A shell's exit status: negative for a signal."""
    return 128 - status if 128 < status <= 192 else status
