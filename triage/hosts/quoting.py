"""Commands as text, for a shell on the other side and for people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.errors import UsageError
from triage.hosts.connection import ENVIRONMENT

BANNER = 64 * 1024  # bytes that start-up files may print before a command
_ODD = re.compile(r"([!\\])")
_MARK = re.compile(rb"(?:^|\n)triage: pid ([0-9]{1,10})\n")

# A process group, asked to end, and made to.
_END = "kill -TERM -{pid} || kill -TERM {pid}; sleep 2; kill -KILL -{pid} || kill -KILL {pid}"

# Under the account's login shell, whatever it is: one POSIX shell that waits and turns a signal into
# 128+N, and in it one that says its pid, puts `timeout` in front where there is one, and becomes the
# command: the leader of a process group. The pid is said on both streams: what comes before it was printed
# by the start-up files of the account, and is no answer. `timeout` keeps the promise of a time limit when the
# connection is gone without a word, and what has ignored it goes with its group. A command without input is
# tied to ours: where that ends, because we no longer wait or are no more, the command is ended.
_OUTER = (
    'exec 3<&0; if [ "$1" = tied ]; then sh -c "$0" sh "$@" 3<&- </dev/null & pid=$!; '
    f'(trap "" TERM; read -r _ <&3; {_END.format(pid="$pid")}) >/dev/null 2>&1 & watch=$!; '
    'else sh -c "$0" sh "$@" <&3 3<&- & pid=$!; watch=; fi; '
    'exec 2>/dev/null 3<&-; wait $pid; code=$?; [ -z "$watch" ] || kill -KILL $watch; '
    "[ $code -lt 124 ] || kill -KILL -$pid; exit $code"
)
_INNER = (
    'export {environment}; printf "\\ntriage: pid $$\\n"; printf "\\ntriage: pid $$\\n" >&2; '
    "seconds=$2; shift 2; "
    'if timeout -k 1 1 true 2>/dev/null; then exec timeout -k 2 "$seconds" "$@"; fi; '
    'if setsid true 2>/dev/null; then exec setsid "$@"; fi; exec "$@"'
)


def remote_command(argv: Sequence[str], seconds: int, tied: bool) -> str:
    """The line that runs `argv` on a host, for at most `seconds`; `tied` to its input, which is none.

    Raises UsageError for a NUL in it.
    """
    if any("\0" in word for word in argv):
        raise UsageError(
            "running", shlex.join(argv)[:200], "a NUL byte cannot be part of a command", "name it without one"
        )
    inner = _INNER.format(environment=shlex.join(f"{name}={value}" for name, value in ENVIRONMENT.items()))
    words = ["sh", "-c", _OUTER, inner, "tied" if tied else "free", str(seconds), *argv]
    return " ".join(map(_quoted, words))


def ending_command(pid: int) -> str:
    """The line that ends what runs on a host, and what that has started; it does not wait for it."""
    return shlex.join(["sh", "-c", f"({_END.format(pid=pid)}) >/dev/null 2>&1 &"])


def _quoted(word: str) -> str:
    """One word for any login shell: a C shell sees `!` in quotes as well, and fish a backslash."""
    if not word:
        return "''"
    return "".join(
        f"\\{part}" if part in ("!", "\\") else shlex.quote(part) for part in _ODD.split(word) if part
    )


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
