"""The interface to a machine, which is the same for every kind of connection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

from triage.common.errors import UnreachableError

DEFAULT_TIMEOUT = 30.0  # seconds
DEFAULT_LIMIT = 64 * 1024 * 1024  # bytes of each stream

# Every command gets these variables, so that answers read the same on every host.
ENVIRONMENT: Mapping[str, str] = MappingProxyType({"LC_ALL": "C", "SYSTEMD_COLORS": "0", "TZ": "UTC"})
# These variables would change how tools read their arguments, or what they print.
UNWANTED = ("POSIXLY_CORRECT", "GREP_OPTIONS", "PS_FORMAT", "PS_PERSONALITY")
_LOGGED = re.compile(r'time="[^"]{0,60}" level=(?:error|fatal) msg="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Output:
    """The result of a command on a host.

    `code` is its exit status: negative for a signal, None if we ended the command. `cut` names the limit that
    ended it early; the output until then is kept. `shell` is the pid of the process on the host that ran the
    command for us, 0 if there is none. That process and its children are ours, not the host's.
    """

    code: int | None
    stdout: bytes
    stderr: bytes = b""
    cut: Literal["", "bytes", "time"] = ""
    shell: int = 0


@dataclass(frozen=True)
class Command:
    """A command and its limits, as in `Connection.run`. `stdin` is text of a few kilobytes at most."""

    argv: tuple[str, ...]
    timeout: float = DEFAULT_TIMEOUT
    limit: int = DEFAULT_LIMIT
    stdin: str = ""


class LostError(UnreachableError):
    """The connection was lost while a command ran. The next command opens a new one."""


def why_cut(cut: str, timeout: float, limit: int) -> str:
    """Return why an output is incomplete, for the limit that cut it ("time" or "bytes")."""
    if cut == "time":
        return f"no end of it within {timeout:g} s"
    return f"it is longer than {limit >> 20} MiB" if limit >> 20 else f"it is longer than {limit >> 10} KiB"


def last_words(output: Output) -> str:
    """The last line of what a command that failed said, without what crictl and podman put around theirs:

    time="2026-11-29T23:24:33Z" level=fatal msg="validate service connection: ..."

    Of the places where crictl looked for a runtime, one that may not be read counts more than the last.
    """
    lines = output.stderr.decode("utf-8", "replace").strip().splitlines()
    logged = [re.sub(r"\\(.)", r"\1", found[1]) for found in map(_LOGGED.match, lines) if found]
    if not lines or not _LOGGED.match(lines[-1]):
        return lines[-1][:300] if lines else f"exit status {output.code}"
    return next((line for line in logged if "permission denied" in line), logged[-1])[:300]


def reason_of(output: Output) -> str:
    """Why a command failed, in its own last words."""
    if output.cut:
        return "it took too long" if output.cut == "time" else "it printed too much"
    return last_words(output)


class Connection(Protocol):
    """A machine on which commands run. `triage.hosts.open_connection` opens one."""

    @property
    def name(self) -> str:
        """The host as the user named it: `local`, an ssh alias, `user@host:port`."""
        ...

    @property
    def address(self) -> str:
        """The address behind the name: `root@127.0.1.1:22`, or `local`."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        """Run `argv`, never through an unquoted shell, for at most `timeout` seconds and `limit` bytes of
        output.

        Raises UnreachableError if the machine cannot be reached, and LostError if the connection was lost
        while the command ran. A command that does not exist gives code 127.
        """
        ...

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        """Yield standard output as it arrives, and b"" at least once a second while there is none.

        The iterator ends with the command, after `timeout` seconds, or when it is closed. Closing it also
        ends the command on the host.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Joining(Protocol):
    """A connection to a remote machine that can send several commands as one."""

    def run_each(self, commands: Sequence[Command]) -> tuple[Output, ...]:
        """Return the outputs of commands that do not depend on each other.

        If one runs into a limit, its output and those of the later ones may be missing. Raises as `run` does.
        """
        ...
