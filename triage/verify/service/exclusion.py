"""One verification of a service at a time, whoever asks for it, and from wherever.

A process on the host holds a lock (flock) for as long as the connection behind it lives, so nothing has to be
cleaned up after a run that was cut, killed, or lost its network.
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
from triage.verify.service.service import text_of

DIRECTORY = "/tmp"  # where every user may lock: a directory in it, which needs no right to write
LONGEST = 24 * 3600.0  # seconds that a lock is held at most
WAIT = 3.0  # seconds for a lock whose holder was ended just now
HELD = b"held"

# `--close` leaves the lock with flock alone; what it runs ends with the pipe to us, and so does flock.
_HOLD = """
command -v flock >/dev/null || exit
mkdir -- "$1" 2>/dev/null
[ -d "$1" ] && [ ! -L "$1" ] || exit  # in a place where everybody writes
exec flock --wait "$2" --close "$1" sh -c 'echo held; while sleep 1 && echo; do :; done' triage "$3" "$4"
"""
_HOLDER = """
inode=$(stat -c %i -- "$1")
while read -r _ kind _ _ pid place _; do
    [ "$kind ${place##*:}" = "FLOCK $inode" ] || continue
    echo "$pid"
    tr '\\0' '\\n' <"/proc/$pid/cmdline" | tail -n 2
done </proc/locks
"""


@contextmanager
def alone(connection: Connection, deployment: Deployment) -> Iterator[str]:
    """Keep other verifications of the deployment out. Yields why that cannot be done, "" where it is.

    Raises RefusedError, which says who is at work there, and since when.
    """
    directory = f"{DIRECTORY}/triage-{name_of(deployment)}.lock"
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    argv = ("sh", "-c", _HOLD, "sh", directory, f"{WAIT:g}", operator(), now)
    lock = connection.stream(argv, timeout=LONGEST)
    try:
        if any(HELD in chunk for chunk in lock):
            yield ""
            return
    finally:
        if isinstance(lock, Generator):
            lock.close()
    holder = holder_of(connection, directory)
    if not holder:
        yield f"other runs of triage are not kept out: {directory} cannot be locked"
        return
    pid, who, since = holder
    raise RefusedError(
        "verify",
        f"{deployment.name} on {connection.name}",
        f"{who or 'somebody'} does so since {since or 'some time'}, and two at once disturb each other",
        f"wait for it; should nobody be there any more: kill {pid}, on the host",
    )


def holder_of(connection: Connection, directory: str) -> tuple[str, str, str] | None:
    """Pid, operator and time of the run that holds the lock; the last two "" where they may not be seen."""
    output = connection.run(("sh", "-c", _HOLDER, "sh", directory), timeout=10.0)
    lines = text_of(output.stdout[:4096]).splitlines()
    if not lines or not lines[0].isdecimal():
        return None
    who, since = lines[1:3] if len(lines) > 2 else ("", "")
    return lines[0], who[:100], since[:40]


def name_of(deployment: Deployment) -> str:
    """Of the lock; the same whoever asks."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", f"{deployment.manager}-{deployment.name}")[:150]
