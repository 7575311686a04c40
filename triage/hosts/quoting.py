"""Commands as text, for a shell on the other side and for people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.errors import UsageError
from triage.hosts.connection import ENVIRONMENT

_PID = re.compile(rb"^triage: pid ([0-9]{1,10})\n", re.MULTILINE)

# Under the account's login shell, whatever it is: one POSIX shell that waits and turns a signal into
# 128+N, and in it one that says its pid, puts `timeout` in front where there is one, and becomes the
# command. `timeout` keeps the promise of a time limit when the connection is gone.
_OUTER = 'sh -c "$0" sh "$@"; exit $?'
_INNER = (
    'export {environment}; echo "triage: pid $$" >&2; seconds=$1; shift; '
    'if timeout -k 1 1 true 2>/dev/null; then exec timeout -k 2 "$seconds" "$@"; fi; exec "$@"'
)


def remote_command(argv: Sequence[str], seconds: int) -> str:
    """The line that runs `argv` on a host, for at most `seconds`. Raises UsageError for a NUL in it."""
    if any("\0" in word for word in argv):
        raise UsageError(
            "running", shlex.join(argv)[:200], "a NUL byte cannot be part of a command", "name it without one"
        )
    inner = _INNER.format(environment=shlex.join(f"{name}={value}" for name, value in ENVIRONMENT.items()))
    return shlex.join(["sh", "-c", _OUTER, inner, str(seconds), *argv])


def pid_of(stderr: bytes | bytearray) -> int | None:
    """The process that a remote command said it is."""
    match = _PID.search(stderr)
    return int(match[1]) if match else None


def without_pid(stderr: bytes | bytearray) -> bytes:
    return _PID.sub(b"", bytes(stderr), count=1)
