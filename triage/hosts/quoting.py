"""Commands as text, for a shell on the other side and for people."""

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

# What makes the command the leader of a process group; `group` where nothing does and the shell leads one,
# which then counts. (ksh93 would take a bare `)` there for its own.)
_FIND = (
    'if [ "$lead" = unknown ]; then lead=; '
    "if timeout -k 1 1 true; then lead=timeout; elif setsid true; then lead=setsid; "
    'elif [ "$(read -r stat </proc/$$/stat; set -- ${{stat##*")" }}; echo $3)" = $$ ]; then lead=group; '
    "fi 2>/dev/null; fi; "
)
# It has a time limit of its own: it ends also where the connection is gone without a word.
_LIMIT = (
    "case $lead in "
    'timeout) set -- timeout -k 2 "$seconds" "$@" ;; '
    "setsid) set -- setsid sh -c "
    """'{{ sleep "$0"; kill -KILL 0; }} >/dev/null 2>&1 </dev/null & exec "$@"' "$seconds" "$@" ;; """
    'group) {{ sleep "$seconds"; kill -TERM $$; }} >/dev/null 2>&1 </dev/null 3<&- & ;; esac; '
)
# On a signal the group is asked to end, and made to. (For parentheses yash would fork twice.)
_WATCH = (
    "pid=$!; whom=-$pid; case $lead in group) whom=0 ;; esac; "
    'trap "trap \\"\\" TERM HUP; kill -TERM $whom || kill -TERM $pid; '
    'sleep 2; kill -KILL $whom || kill -KILL $pid" TERM HUP; '
)
# What the command has left in its group ends with it; in our own, what heeds it. A death by signal is 128+N
# here: ksh93 counts from 256, and yash from 384.
_WAIT = (
    "exec 2>/dev/null 3<&-; wait $pid; code=$?; "
    '[ -z "$watch" ] || kill -KILL $watch; '
    'case $lead in group) trap "" TERM; kill -TERM 0 ;; ?*) kill -KILL -$pid ;; esac; '
    "[ $code -lt 256 ] || code=$((128 + code % 128)); exit $code"
)

# Under the account's login shell, whatever it is: a POSIX shell that says its pid, starts the command as the
# leader of a process group, waits, and turns a signal into 128+N. The pid is said on both streams: what comes
# before it was printed by the start-up files of the account, and is no answer. With it stands what makes the
# group, which is looked for once. Our input goes on after that of the command: where it ends, because we no
# longer wait or are no more, the command is ended.
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
"""What makes a process group on a host, before that was looked for."""


def remote_command(argv: Sequence[str], seconds: int, size: int, lead: str = UNKNOWN) -> str:
    """The line that runs `argv` on a host, for at most `seconds`, with the first `size` bytes of its input;
    the command ends where more of it can no longer come.

    `lead` is what a command before has found to make a group with. Raises UsageError for a NUL in it.
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
    """`argv` with a shell around it that ends with the command, or after `seconds`, what that has started."""
    return ("sh", "-c", _GUARD, "sh", seconds, *argv)


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
