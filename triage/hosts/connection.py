"""The one interface to a machine, whatever the way to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

from triage.common.errors import UnreachableError

DEFAULT_TIMEOUT = 30.0  # seconds
DEFAULT_LIMIT = 64 * 1024 * 1024  # bytes a stream

# What every command finds in its environment, so that answers read the same everywhere.
ENVIRONMENT: Mapping[str, str] = MappingProxyType({"LC_ALL": "C", "SYSTEMD_COLORS": "0", "TZ": "UTC"})
# What would make tools read their arguments, or print, otherwise.
UNWANTED = ("POSIXLY_CORRECT", "GREP_OPTIONS", "PS_FORMAT", "PS_PERSONALITY")
_LOGGED = re.compile(r'time="[^"]{0,60}" level=(?:error|fatal) msg="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Output:
    """What a command on a host left behind.

    `code` is its exit status, negative for a signal, None when we ended it. `cut` says which limit
    ended it early; what it had printed until then is kept. `shell` is the process on the host with which we
    ran it, 0 without one: that and what it started are not of the host.
    """

    code: int | None
    stdout: bytes
    stderr: bytes = b""
    cut: Literal["", "bytes", "time"] = ""
    shell: int = 0


@dataclass(frozen=True)
class Command:
    """One, and its limits: as for `Connection.run`. What it reads is text, of some kilobytes at most."""

    argv: tuple[str, ...]
    timeout: float = DEFAULT_TIMEOUT
    limit: int = DEFAULT_LIMIT
    stdin: str = ""


class LostError(UnreachableError):
    """The connection ended under a command. The next command opens it anew."""


def why_cut(cut: str, timeout: float, limit: int) -> str:
    """What is wrong with an output that one of its limits has cut."""
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
    """A machine on which commands run. Opened by `triage.hosts.open_connection`."""

    @property
    def name(self) -> str:
        """The host as the user named it: `local`, an ssh alias, `user@host:port`."""
        ...

    @property
    def address(self) -> str:
        """Where that leads: `root@127.0.1.1:22`, or `local`."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        """Run `argv`, never through an unquoted shell; end it at `timeout` seconds or `limit` bytes.

        Raises UnreachableError when the machine cannot be reached, LostError when it was lost under the
        command. A command that is not there gives code 127.
        """
        ...

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        """Yield standard output as it comes; b"" at least once a second while nothing does.

        Ends with the command, at `timeout` seconds, or when the iterator is closed, which ends the
        command on the host too.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Joining(Protocol):
    """A connection to a machine that is far: several commands can go there as one."""

    def run_each(self, commands: Sequence[Command]) -> tuple[Output, ...]:
        """The outputs of commands that depend on nothing of each other.

        Where one runs into a limit, there may be none of it, nor of those after it. Raises as `run`.
        """
        ...
