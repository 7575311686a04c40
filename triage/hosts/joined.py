"""Several commands sent as one and run in sequence, which saves a channel, a login shell and a round trip
each.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from triage.hosts.capture import Capture
from triage.hosts.connection import Command, Output

_TOLD = 'mark=$1; told() { printf "\\n%s %s\\n" "$mark" $?; printf "\\n%s\\n" "$mark" >&2; };'


def joined(commands: Sequence[Command], mark: str) -> Command:
    """Return one command that runs several, reads no input, and has the longest of their timeouts.

    `mark` is an unpredictable word that separates their outputs.
    """
    script = "; told; ".join(map(_line, commands))
    return Command(
        ("sh", "-c", f"{_TOLD} {script}; told", "sh", mark),
        timeout=max(command.timeout for command in commands),
        limit=sum(command.limit for command in commands),
    )


def _line(command: Command) -> str:
    """Return the command as one line, because a C shell accepts only that."""
    if not command.stdin:
        return shlex.join(command.argv)
    text = command.stdin.replace("\\", r"\\").replace("\n", r"\n")
    return f"printf %b {shlex.quote(text)} | {shlex.join(command.argv)}"


def parted(output: Output, commands: Sequence[Command], mark: str) -> tuple[Output, ...]:
    """Split the output of joined commands.

    A command that a limit ended before its output was complete has no output, and neither have the later
    ones.
    """
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
    """Return the exit code for a shell's exit status: negative for a signal."""
    return 128 - status if 128 < status <= 192 else status
