"""Commands as text, for a shell on the other side and for people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.errors import UsageError
from triage.hosts.connection import ENVIRONMENT, UNWANTED

BANNER = 64 * 1024  # bytes that start-up files may print before a command
_ODD = re.compile(r"([!\\])")
_MARK = re.compile(rb"(?:^|\n)triage: pid ([0-9]{1,10}) (timeout|setsid|)\n")

# The command's process group, asked to end, and made to.
_END = "kill -TERM -$pid || kill -TERM $pid; sleep 2; kill -KILL -$pid || kill -KILL $pid"

# Under the account's login shell, whatever it is: a POSIX shell that says its pid, starts the command as the
# leader of a process group, waits, and turns a signal into 128+N. The pid is said on both streams: what comes
# before it was printed by the start-up files of the account, and is no answer. With it stands what makes the
# group, which is looked for once. That is `timeout` where there is one: it keeps the promise of a time limit
# when the connection is gone without a word, and what has ignored it goes with its group. A command without
# input is tied to ours: where that ends, because we no longer wait or are no more, the command is ended.
_SHELL = (
    "unset {unwanted}; export {environment}; exec 3<&0; tied=$0; seconds=$1; lead=$2; shift 2; "
    'if [ "$lead" = unknown ]; then lead=; '
    "if timeout -k 1 1 true; then lead=timeout; elif setsid true; then lead=setsid; fi 2>/dev/null; fi; "
    'said="triage: pid $$ $lead"; printf "\\n%s\\n" "$said"; printf "\\n%s\\n" "$said" >&2; '
    'if [ "$lead" = timeout ]; then set -- timeout -k 2 "$seconds" "$@"; '
    'elif [ "$lead" ]; then set -- "$lead" "$@"; fi; '
    'if [ "$tied" = tied ]; then (exec "$@") 3<&- </dev/null & else (exec "$@") <&3 3<&- & fi; '
    'pid=$!; watch=; trap "{end}" TERM; '
    'if [ "$tied" = tied ]; then (read -r _ <&3; kill -TERM $$) >/dev/null 2>&1 & watch=$!; fi; '
    'exec 2>/dev/null 3<&-; wait $pid; code=$?; [ -z "$watch" ] || kill -KILL $watch; '
    "[ $code -lt 124 ] || kill -KILL -$pid; exit $code"
)
UNKNOWN = "unknown"
"""What makes a process group on a host, before that was looked for."""


def remote_command(argv: Sequence[str], seconds: int, tied: bool, lead: str = UNKNOWN) -> str:
    """The line that runs `argv` on a host, for at most `seconds`; `tied` to its input, which is none.

    `lead` is what a command before has found to make a group with. Raises UsageError for a NUL in it.
    """
    if any("\0" in word for word in argv):
        raise UsageError(
            "running", shlex.join(argv)[:200], "a NUL byte cannot be part of a command", "name it without one"
        )
    environment = shlex.join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    shell = _SHELL.format(unwanted=" ".join(UNWANTED), environment=environment, end=_END)
    words = ["sh", "-c", shell, "tied" if tied else "free", str(seconds), lead, *argv]
    return " ".join(map(_quoted, words))


def ending_command(pid: int) -> str:
    """The line that ends what a remote command runs, by the pid that it said."""
    return f"kill -TERM {pid}"


def _quoted(word: str) -> str:
    """One word for any login shell: a C shell sees `!` in quotes as well, and fish a backslash."""
    if not word:
        return "''"
    return "".join(
        f"\\{part}" if part in ("!", "\\") else shlex.quote(part) for part in _ODD.split(word) if part
    )


def lead_of(stderr: bytes | bytearray) -> str:
    """What a remote command has found to make a process group with: "" where nothing does."""
    match = _MARK.search(stderr, 0, BANNER)
    return match[2].decode() if match else UNKNOWN


def pid_of(stderr: bytes | bytearray) -> int | None:
    """The process that a remote command said it is."""
    match = _MARK.search(stderr, 0, BANNER)
    return int(match[1]) if match else None


def drop_banner(stream: bytearray) -> bool:
    """Leave what the command itself printed; False as long as it is not known where that begins."""
    match = _MARK.search(stream, 0, BANNER)
    if match:
        end = match.end()
        del match  # it would hold the buffer
        del stream[:end]
        return True
    return False
