"""Commands as text: quoted for a remote shell, and shown to people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from triage.common.errors import UsageError
from triage.hosts.connection import ENVIRONMENT, UNWANTED

BANNER = 64 * 1024  # bytes that start-up files may print before a command
SAID = "triage: pid"
_ODD = re.compile(r"([!\\])")
_MARK = re.compile(rb"(?:^|\n)triage: pid ([0-9]{1,10}) (timeout|setsid|group|)\n")

# Finds what makes the command the leader of a process group. `group` means that nothing does but the shell
# leads a group itself. (ksh93 would take a bare `)` here as its own.)
_FIND = (
    'if [ "$lead" = unknown ]; then lead=; '
    "if timeout -k 1 1 true; then lead=timeout; elif setsid true; then lead=setsid; "
    'elif [ "$(read -r stat </proc/$$/stat; set -- ${{stat##*")" }}; echo $3)" = $$ ]; then lead=group; '
    "fi 2>/dev/null; fi; "
)
# The command has its own time limit, so that it also ends if the connection is lost silently.
_LIMIT = (
    "case $lead in "
    'timeout) set -- timeout -k 2 "$seconds" "$@" ;; '
    "setsid) set -- setsid sh -c "
    """'{{ sleep "$0"; kill -KILL 0; }} >/dev/null 2>&1 </dev/null & exec "$@"' "$seconds" "$@" ;; """
    'group) {{ sleep "$seconds"; kill -TERM $$; }} >/dev/null 2>&1 </dev/null 3<&- & ;; esac; '
)
# A signal asks the group to end, and later kills it. (For parentheses yash would fork twice.)
_WATCH = (
    "pid=$!; whom=-$pid; case $lead in group) whom=0 ;; esac; "
    'trap "trap \\"\\" TERM HUP; kill -TERM $whom || kill -TERM $pid; '
    'sleep 2; kill -KILL $whom || kill -KILL $pid" TERM HUP; '
)
# Whatever the command leaves in its group ends with it; in our own group, whatever obeys SIGTERM does. A
# death by signal becomes 128+N: ksh93 counts from 256, and yash from 384.
_WAIT = (
    "exec 2>/dev/null 3<&-; wait $pid; code=$?; "
    '[ -z "$watch" ] || kill -KILL $watch; '
    'case $lead in group) trap "" TERM; kill -TERM 0 ;; ?*) kill -KILL -$pid ;; esac; '
    "[ $code -lt 256 ] || code=$((128 + code % 128)); exit $code"
)

# Under any login shell this starts a POSIX shell, which prints its pid, starts the command as the leader of a
# process group, waits for it, and turns a signal into 128+N. The pid is printed on both streams: anything
# before it came from the start-up files of the account and is not part of the answer. Beside the pid stands
# what makes the group, which is searched only once. Our input continues after that of the command: when it
# ends, because we stopped waiting or are gone, the command is ended.
_SHELL = (
    "unset {unwanted}; export {environment}; exec 3<&0; size=$1; seconds=$2; lead=$3; shift 3; "
    f"{_FIND}"
    'said="triage: pid $$ $lead"; printf "\\n%s\\n" "$said"; printf "\\n%s\\n" "$said" >&2; '
    f"{_LIMIT}"
    'if [ "$size" = 0 ]; then exec "$@" 3<&- </dev/null & '
    'else {{ head -c "$size" <&3; exec sh -c "{{ cat <&4; kill -TERM $$; }} &" 4<&3 >/dev/null 2>&1; }} | '
    'exec "$@" 3<&- & fi; '
    f"{_WATCH}watch=; "
    'if [ "$size" = 0 ]; then {{ read -r _ <&3; kill -TERM $$; }} >/dev/null 2>&1 & watch=$!; fi; '
    f"{_WAIT}"
)
_GUARD = (
    f'seconds=$1; shift; lead=unknown; {_FIND}{_LIMIT}exec 3<&0; exec "$@" <&3 3<&- & {_WATCH}watch=; {_WAIT}'
).format()
UNKNOWN = "unknown"
"""The value of `lead` before it is known what makes a process group on the host."""


def remote_command(argv: Sequence[str], seconds: int, size: int, lead: str = UNKNOWN) -> str:
    """Return the line that runs `argv` on a host for at most `seconds`, with the first `size` bytes of its
    input.

    The command ends when no more input can come. `lead` is what an earlier command found to make a process
    group. Raises UsageError for a NUL in `argv`.
    """
    if any("\0" in word for word in argv):
        raise UsageError(
            "running", shlex.join(argv)[:200], "a NUL byte cannot be part of a command", "name it without one"
        )
    environment = shlex.join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    shell = _SHELL.format(unwanted=" ".join(UNWANTED), environment=environment)
    words = ["sh", "-c", shell, "sh", str(size), str(seconds), lead, *argv]
    return " ".join(("exec", *map(_quoted, words)))


def guarded(argv: Sequence[str], seconds: str) -> tuple[str, ...]:
    """Return `argv` wrapped in a shell that ends the command's children with it, and everything after
    `seconds`.
    """
    return ("sh", "-c", _GUARD, "sh", seconds, *argv)


def _quoted(word: str) -> str:
    """Quote one word for any login shell: a C shell expands `!` even in quotes, and fish a backslash."""
    if not word:
        return "''"
    return "".join(
        f"\\{part}" if part in ("!", "\\") else shlex.quote(part) for part in _ODD.split(word) if part
    )


def lead_of(stderr: bytes | bytearray) -> str:
    """Return what a remote command found to make a process group with, "" if it found nothing."""
    match = _MARK.search(stderr, 0, BANNER)
    return match[2].decode() if match else UNKNOWN


def pid_of(stderr: bytes | bytearray) -> int | None:
    """Return the pid that a remote command printed."""
    match = _MARK.search(stderr, 0, BANNER)
    return int(match[1]) if match else None


def drop_banner(stream: bytearray) -> bool:
    """Remove everything before the command's own output. Returns False while its beginning is not known."""
    match = _MARK.search(stream, 0, BANNER)
    if match:
        end = match.end()
        del match  # it would keep the buffer alive
        del stream[:end]
        return True
    return False
