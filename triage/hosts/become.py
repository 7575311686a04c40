"""Commands as root, through sudo that asks no password."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from triage.errors import UnreachableError
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Connection, Output

_REFUSED = re.compile(
    rb"^sudo: (?:a (?:terminal|password) is required|.*not allowed|.*not in the sudoers|I'm sorry|no tty)"
    rb"|is not in the sudoers file|is not allowed to (?:execute|run)|^Sorry, user ",
    re.MULTILINE,
)
_NOT_FOUND = re.compile(rb"^sudo: [^\n]*: command not found", re.MULTILINE)


def become_root(connection: Connection) -> Connection:
    """`connection` as root: itself where it already is. Raises UnreachableError when sudo asks or refuses."""
    if connection.run(["id", "-u"]).stdout.strip() == b"0":
        return connection
    rooted = RootConnection(connection)
    try:
        rooted.run(["true"])
    except UnreachableError:
        connection.close()
        raise
    return rooted


class RootConnection:
    """Puts `sudo -n` before every command.

    `timeout` stands behind sudo: a process of root cannot be ended by the user who started it.
    """

    def __init__(self, inner: Connection) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def address(self) -> str:
        return self._inner.address

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        output = self._inner.run(_sudo(argv, timeout), stdin=stdin, timeout=timeout + 1, limit=limit)
        if output.code == 1 and _REFUSED.search(output.stderr):
            said = output.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UnreachableError(
                "run as root",
                f"{argv[0]} on {self.address}",
                f"sudo did not let us: {said[-1][:200]}",
                "allow it without a password (`triage policy` prints sudoers lines), or log in as root",
            )
        if output.code == 1 and _NOT_FOUND.search(output.stderr):
            return Output(127, output.stdout, output.stderr)
        if output.code == 124:
            return Output(None, output.stdout, output.stderr, "time")
        return output

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        return self._inner.stream(_sudo(argv, timeout), timeout=timeout)

    def close(self) -> None:
        self._inner.close()


def _sudo(argv: Sequence[str], timeout: float) -> tuple[str, ...]:
    return ("sudo", "-n", "--", "timeout", "-k", "2", str(math.ceil(timeout)), *argv)
