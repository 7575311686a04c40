"""One verification of a service at a time, whoever asks for it, and from wherever.

A process on the host holds a lock (flock) for as long as the connection behind it lives, so nothing has to be
cleaned up after a run that was cut, killed, or lost its network. An account locks where no other can: root in
/run, which keeps everybody out, and others in their own directory, which keeps out themselves.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from triage.common.errors import RefusedError
from triage.evidence.model import Deployment
from triage.hosts.connection import Connection
from triage.patching.transaction import operator
from triage.verify.service.model import text_of

DIRECTORY = "/run/triage"  # root's; everybody sees there which locks are held, and only root takes them
LONGEST = 24 * 3600.0  # seconds that a lock is held at most
WAIT = 3.0  # seconds for a lock whose holder was ended just now
HELD = b"held"

# What is locked is a directory that its account alone can open. /proc/locks tells files apart by the number
# of an inode, which another file system can have too, so a holder counts only where it is of that account.
_PLACES = """
uid=$(id -u)
own() { [ -d "$1" ] && [ ! -L "$1" ] && [ "$(stat -c %u -- "$1")" = "$uid" ]; }
ours=$1
if [ "$uid" != 0 ]; then
    ours=$XDG_RUNTIME_DIR
    own "$ours" || ours=/run/user/$uid
    own "$ours" || ours=$HOME
    ours=$ours/.triage-locks
fi
holder() {
    inode=$(stat -c %i -- "$1" 2>/dev/null) || return 1
    while read -r _ kind _ _ pid place _; do
        [ "$kind ${place##*:}" = "FLOCK $inode" ] || continue
        [ "$(stat -c %u "/proc/$pid" 2>/dev/null)" = "$2" ] || continue
        echo "$pid"
        tr '\\0' '\\n' <"/proc/$pid/cmdline" | tail -n 2
        return 0
    done </proc/locks
    return 1
}
"""
# `--close` leaves the lock with flock alone; what it runs ends with the pipe to us, and so does flock.
_HOLD = f"""{_PLACES}
command -v flock >/dev/null || exit
umask 077
mkdir -m 0711 -- "$ours" 2>/dev/null
own "$ours" || exit
mkdir -- "$ours/$2" 2>/dev/null
own "$ours/$2" && chmod 0700 "$ours/$2" || exit
[ "$uid" = 0 ] || ! holder "$1/$2" 0 >/dev/null || exit
cd "$ours" || exit
exec flock --wait "$3" --close "$2" sh -c 'echo held; while sleep 1 && echo; do :; done' triage "$4" "$5"
"""
_HOLDER = f"""{_PLACES}
[ "$uid" = 0 ] || holder "$1/$2" 0 || holder "$ours/$2" "$uid"
[ "$uid" != 0 ] || holder "$ours/$2" 0
"""


@contextmanager
def alone(connection: Connection, deployment: Deployment) -> Iterator[str]:
    """Keep other verifications of the deployment out. Yields why that cannot be done, "" where it is.

    Raises RefusedError, which says who is at work there, and since when.
    """
    name = name_of(deployment)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    argv = ("sh", "-c", _HOLD, "sh", DIRECTORY, name, f"{WAIT:g}", operator(), now)
    lock = connection.stream(argv, timeout=LONGEST)
    try:
        if any(HELD in chunk for chunk in lock):
            yield ""
            return
    finally:
        if isinstance(lock, Generator):
            lock.close()
    holder = holder_of(connection, name)
    if not holder:
        yield f"other runs of triage are not kept out: {name} cannot be locked"
        return
    pid, who, since = holder
    raise RefusedError(
        "verify",
        f"{deployment.name} on {connection.name}",
        f"{who or 'somebody'} does so since {since or 'some time'}, and two at once disturb each other",
        f"wait for it; should nobody be there any more: kill {pid}, on the host",
    )


def holder_of(connection: Connection, name: str) -> tuple[str, str, str] | None:
    """Pid, operator and time of the run that holds the lock; the last two "" where they may not be seen."""
    output = connection.run(("sh", "-c", _HOLDER, "sh", DIRECTORY, name), timeout=10.0)
    lines = text_of(output.stdout[:4096]).splitlines()
    if not lines or not lines[0].isdecimal():
        return None
    who, since = lines[1:3] if len(lines) > 2 else ("", "")
    return lines[0], who[:100], since[:40]


def name_of(deployment: Deployment) -> str:
    """Return the lock's name: the same whoever asks, and never an option of a command."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", f"{deployment.manager or 'plain'}-{deployment.name}")[:150]
