"""Commands as root, through sudo that asks no password."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from triage.errors import UnreachableError
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Connection, Output

_REFUSED = re.compile(
    rb"^sudo: (?:a terminal|a password) is required|^sudo: [^\n]*not allowed"
    rb"|is not allowed to (?:execute|run)|is not in the sudoers file|^Sorry, user ",
    re.MULTILINE,
)
_NOT_FOUND = re.compile(rb"^sudo: [^\n]*: command not found", re.MULTILINE)


def become_root(connection: Connection) -> Connection:
    """`connection` as root: itself where it already is.

    Raises UnreachableError, with the connection closed, when sudo lets us run nothing without a password.
    """
    if connection.run(["id", "-u"]).stdout.strip() == b"0":
        return connection
    allowed = connection.run(["sudo", "-n", "-l"])
    if allowed.code == 0:
        return RootConnection(connection)
    connection.close()
    said = allowed.stderr.decode("utf-8", "replace").strip().splitlines()
    raise UnreachableError(
        "becoming root on",
        connection.address,
        "there is no sudo" if allowed.code == 127 else said[-1][:200] if said else "sudo refused",
        "allow it without a password (`triage policy` prints sudoers lines), or log in as root",
    )


class RootConnection:
    """Puts `sudo -n` before every command; what sudo does not allow runs as the ordinary user.

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
        output = self._inner.run(_sudo(argv, timeout), stdin=stdin, timeout=timeout + 2, limit=limit)
        if output.code == 1 and _REFUSED.search(output.stderr):
            return self._inner.run(argv, stdin=stdin, timeout=timeout, limit=limit)
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
