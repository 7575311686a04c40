"""Runs commands as root through sudo, with a password if sudo asks for one."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator, Sequence

from triage.common.errors import UnreachableError
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Connection, Output
from triage.hosts.options import Ask
from triage.hosts.quoting import guarded

_REFUSED = re.compile(
    rb"^sudo: (?:a terminal|a password) is required|^sudo: [^\n]*not allowed"
    rb"|is not allowed to (?:execute|run)|is not in the sudoers file|^Sorry, user ",
    re.MULTILINE,
)
_NO_RIGHTS = re.compile(rb"may not run sudo|not in the sudoers file|not allowed to run sudo")
_NOT_FOUND = re.compile(rb"^sudo: [^\n]*: command not found", re.MULTILINE)
_PASSWORD = b"password is required"

_ANYTHING = re.compile(rb"^\s+\([^)\n]*\) (?:[A-Z]+: )*ALL\s*$", re.MULTILINE)

_FREELY = re.compile(rb"^\s+\([^)\n]*\) (?:[A-Z]+: )*NOPASSWD: (?:[A-Z]+: )*ALL\s*$", re.MULTILINE)

# Where sudo asks for a password, it reads it from the first line of standard input; for some commands it does
# not ask. This skips everything up to a mark, so that the command never reads the password.
_SKIP = 'while IFS= read -r line && [ "$line" != "$1" ]; do :; done; shift; exec "$@"'


def become_root(connection: Connection, ask: Ask | None = None, whose: str = "") -> Connection:
    """Return a connection that runs commands as root: `connection` itself if it already does.

    If sudo wants a password, `ask` is called once. `whose` names in the prompt whose password it is, if it is
    not that of this host alone.

    Raises UnreachableError, with the connection closed, if sudo refuses.
    """
    if connection.run(["id", "-u"]).stdout.strip() == b"0":
        return connection
    allowed = connection.run(["sudo", "-n", "-l"])
    if allowed.code == 0:
        guarded = _ANYTHING.search(allowed.stdout) is not None
        if guarded and not _FREELY.search(allowed.stdout):  # the list includes commands that take a password
            allowed = connection.run(["sudo", "-n", "--", "true"])
        if allowed.code == 0:
            return RootConnection(connection, guarded=guarded)
    next = "allow it without a password (`triage policy` prints sudoers lines), or log in as root"
    if b"must have a tty" in allowed.stderr:
        next = "in the host's sudoers: Defaults:USER !requiretty; or log in as root"
    if ask is not None and _PASSWORD in allowed.stderr:
        password = ask(f"sudo password on {whose or connection.address}: ")
        if password:
            allowed = connection.run(["sudo", "-k", "-S", "-p", "", "-v"], stdin=f"{password}\n".encode())
            if allowed.code == 0:
                rights = connection.run(["sudo", "-k", "-S", "-p", "", "-l"], stdin=f"{password}\n".encode())
                guarded = _ANYTHING.search(rights.stdout) is not None
                return RootConnection(connection, password, guarded)
            next = "repeat with the right password; it was tried once"
            if _NO_RIGHTS.search(allowed.stderr):
                next = "the account may not use sudo, whatever the password: take one that may, or root"
    connection.close()
    said = allowed.stderr.decode("utf-8", "replace").strip().splitlines()
    raise UnreachableError(
        "becoming root on",
        connection.address,
        "there is no sudo" if allowed.code == 127 else said[-1][:200] if said else "sudo refused",
        next,
    )


class RootConnection:
    """Puts sudo before every command. A command that sudo does not allow runs as the ordinary user.

    A password goes only to sudo's standard input, never onto a command line. `timeout` runs below sudo,
    because the user who started a process of root cannot end it. If the user may run only some commands, and
    those with a password, commands that read input run as the ordinary user.
    """

    def __init__(self, inner: Connection, password: str = "", guarded: bool = False) -> None:
        self._inner = inner
        self._guarded = guarded
        self._password = password

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
        if stdin and self._password and not self._guarded:
            return self._inner.run(argv, stdin=stdin, timeout=timeout, limit=limit)
        words, before = self._sudo(argv, timeout)
        output = self._inner.run(words, stdin=before + stdin, timeout=timeout + 2, limit=limit)
        if output.code == 1 and _REFUSED.search(output.stderr):
            return self._inner.run(argv, stdin=stdin, timeout=timeout, limit=limit)
        if output.code == 1 and _NOT_FOUND.search(output.stderr):
            return Output(127, output.stdout, output.stderr)
        if output.code == 124:
            return Output(None, output.stdout, output.stderr, "time")
        return output

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        words, before = self._sudo(argv, timeout)
        return self._inner.stream(words, timeout=timeout, stdin=before + stdin)

    def close(self) -> None:
        self._inner.close()

    def _sudo(self, argv: Sequence[str], timeout: float) -> tuple[tuple[str, ...], bytes]:
        """Return the command line, and the bytes that go before its standard input."""
        seconds = str(math.ceil(timeout))
        # With the right to run anything, a shell ends the remaining processes of the command's group: only
        # root can do that.
        limited = guarded(argv, seconds) if self._guarded else ("timeout", "-k", "2", seconds, *argv)
        if not self._password:
            return ("sudo", "-n", "--", *limited), b""
        if not self._guarded:
            return ("sudo", "-k", "-S", "-p", "", "--", *limited), f"{self._password}\n".encode()
        mark = secrets.token_hex(16)
        words = ("sudo", "-k", "-S", "-p", "", "--", "sh", "-c", _SKIP, "sh", mark, *limited)
        return words, f"{self._password}\n{mark}\n".encode()
