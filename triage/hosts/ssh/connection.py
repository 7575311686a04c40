"""The connection to a machine over SSH."""

from __future__ import annotations

import contextlib
import math
import secrets
import select
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Event
from typing import NoReturn

import paramiko

from triage.common.errors import UnreachableError
from triage.hosts.capture import CHUNK, Capture
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Command, LostError, Output
from triage.hosts.joined import code_of, joined, parted
from triage.hosts.options import ConnectionOptions, check
from triage.hosts.quoting import (
    BANNER,
    UNKNOWN,
    drop_banner,
    lead_of,
    pid_of,
    remote_command,
)
from triage.hosts.ssh.config import SshTarget, resolve
from triage.hosts.ssh.line import Route, dial

TICK = 0.5  # longest wait in seconds before the clock is checked
GRACE = 2.0  # seconds for output that a stray child still holds open
LOST = (paramiko.SSHException, OSError, EOFError)  # exceptions that paramiko raises for a dead transport


class SshConnection:
    """One SSH connection, which every command reuses. Each command is a channel of its own."""

    def __init__(self, name: str, target: SshTarget, options: ConnectionOptions, line: Route) -> None:
        self._name = name
        self._target = target
        self._options = options
        self._line = line
        self._lead = UNKNOWN

    @classmethod
    def open(cls, name: str, options: ConnectionOptions) -> SshConnection:
        """Connect. Raises as `triage.hosts.open_connection` does."""
        target = resolve(name, options)
        return cls(name, target, options, dial(target, options))

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> str:
        return self._target.address

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        capture = Capture(limit + BANNER)
        with self._channel(argv, timeout, stdin) as channel:
            _drain(channel, capture, time.monotonic() + timeout, self._options.stop)
            code = channel.exit_status if channel.exit_status_ready() else -1
            if code == -1 and not capture.cut:
                self._lost("running", argv, "the connection ended before the command did")
        began = drop_banner(capture.stdout)
        waits = capture.cut == "time" and self._lead == UNKNOWN  # known after the first command
        shell = pid_of(capture.stderr)
        if not (began and shell) and (waits or not capture.cut):
            before = (b"" if began else capture.stdout) + (b"" if shell else capture.stderr)
            self._no_shell(before, f"nothing within {timeout:g} s" if waits else f"exit status {code}")
        self._lead = lead_of(capture.stderr)
        kept = Capture(limit)
        kept.cut = capture.cut
        if began:
            kept.add("stdout", capture.stdout)
        drop_banner(capture.stderr)
        kept.add("stderr", capture.stderr)
        return replace(kept.output(code_of(code)), shell=shell or 0)

    def run_each(self, commands: Sequence[Command]) -> tuple[Output, ...]:
        mark = secrets.token_hex(16)
        all_ = joined(commands, mark)
        return parted(self.run(all_.argv, timeout=all_.timeout, limit=all_.limit), commands, mark)

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        deadline = time.monotonic() + timeout
        begun, before = False, bytearray()
        with self._channel(argv, timeout, stdin) as channel:
            while not _ended(channel) and (left := deadline - time.monotonic()) > 0:
                check(self._options.stop)
                _wait(channel, min(left, TICK))
                if channel.recv_stderr_ready():
                    channel.recv_stderr(CHUNK)
                data = channel.recv(CHUNK) if channel.recv_ready() else b""
                if not begun:
                    before += data
                    begun = drop_banner(before)
                    data = bytes(before) if begun else b""
                    del before[BANNER:]
                yield data
            if channel.closed and channel.exit_status == -1:
                self._lost("following", argv, "the connection ended before the command did")

    def close(self) -> None:
        self._line.close()

    @contextlib.contextmanager
    def _channel(self, argv: Sequence[str], timeout: float, stdin: bytes) -> Iterator[paramiko.Channel]:
        """Start `argv` on a new channel, which is closed with it."""
        command = remote_command(argv, math.ceil(timeout) + 1, len(stdin), self._lead)
        try:
            channel = self._session()
            # exec_command would wait forever
            watchdog = threading.Timer(self._target.connect_timeout, channel.close)
            watchdog.start()
            try:
                channel.exec_command(command)
            finally:
                watchdog.cancel()
        except LOST as error:
            self._lost("starting", argv, error)
        try:
            if stdin:
                _feed(channel, stdin)
            yield channel
        except LOST as error:
            self._lost("running", argv, error)
        finally:
            with contextlib.suppress(*LOST):
                channel.close()

    def _session(self) -> paramiko.Channel:
        """Open a channel on which nothing was sent yet, so that a lost connection can be reopened for it."""
        patience = self._target.connect_timeout
        if self._line.transport.is_active():
            with contextlib.suppress(*LOST):
                return self._line.transport.open_session(timeout=patience)
        self._line.close()
        self._line = dial(self._target, self._options)
        return self._line.transport.open_session(timeout=patience)

    def _lost(self, doing: str, argv: Sequence[str], why: object) -> NoReturn:
        raise LostError(
            doing,
            f"{argv[0]} on {self.address}",
            str(why) or type(why).__name__,
            "repeat; if it stays, try ssh",
        )

    def _no_shell(self, printed: bytes | bytearray, outcome: str) -> NoReturn:
        said = printed.decode("utf-8", "replace").strip().splitlines()
        told = ", ".join(filter(None, (said[0][:200] if said else "", outcome)))
        raise UnreachableError(
            "running commands on",
            self.address,
            f"the account's login shell does not run them: {told}",
            "use an account with an ordinary shell, whose start-up files neither wait nor end it",
        )


def _feed(channel: paramiko.Channel, stdin: bytes) -> None:
    """Send standard input while the output is read, so that neither waits for the other."""

    def send() -> None:
        with contextlib.suppress(*LOST):  # the command did not read all of it
            channel.sendall(stdin)

    threading.Thread(target=send, daemon=True).start()


def _drain(channel: paramiko.Channel, capture: Capture, deadline: float, stop: Event | None) -> None:
    """Read both outputs until the command has ended or a limit is reached."""
    exited: float | None = None
    while not capture.cut and not _ended(channel):
        check(stop)
        now = time.monotonic()
        if channel.exit_status_ready():
            exited = exited or now
            if now - exited > GRACE:
                return
        if now >= deadline:
            capture.cut = "time"
            return
        _wait(channel, min(deadline - now, TICK))
        if channel.recv_ready():
            capture.add("stdout", channel.recv(CHUNK))
        if channel.recv_stderr_ready():
            capture.add("stderr", channel.recv_stderr(CHUNK))


def _ended(channel: paramiko.Channel) -> bool:
    done = channel.closed or (bool(channel.eof_received) and channel.exit_status_ready())
    return done and not channel.recv_ready() and not channel.recv_stderr_ready()


def _wait(channel: paramiko.Channel, seconds: float) -> None:
    """Wait for output, or for the exit status once both outputs are closed."""
    if channel.eof_received and not channel.recv_ready() and not channel.recv_stderr_ready():
        channel.status_event.wait(seconds)
        return
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    poll.poll(seconds * 1000)
