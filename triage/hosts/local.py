"""The connection to this machine."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from threading import Event

from triage.common.errors import UsageError
from triage.hosts.capture import CHUNK, Capture, Stream
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, ENVIRONMENT, UNWANTED, Output
from triage.hosts.options import check

GRACE = (
    2.0  # seconds between SIGTERM and SIGKILL, and for a child in another session that holds our pipes open
)
TICK = 0.5  # longest wait in seconds before the clock is checked


class LocalConnection:
    """Runs commands as children of this process, each in its own process group."""

    name = "local"
    address = "local"

    def __init__(self, stop: Event | None = None) -> None:
        self._stop = stop

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        process = _start(argv, bool(stdin))
        if isinstance(process, Output):
            return process
        capture = Capture(limit)
        try:
            for stream, data in _said(process, stdin, timeout, self._stop):
                capture.add(stream, data)
                if capture.cut:
                    break
            if not _over(process):
                capture.cut = capture.cut or "time"
            return capture.output(process.returncode)
        finally:
            _end(process)

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        process = _start(argv, bool(stdin))
        if isinstance(process, Output):
            return
        try:
            for stream, data in _said(process, stdin, timeout, self._stop):
                yield data if stream == "stdout" else b""
        finally:
            _end(process)

    def close(self) -> None:
        """Do nothing: no resource is held between commands."""


def _start(argv: Sequence[str], with_stdin: bool) -> subprocess.Popen[bytes] | Output:
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in UNWANTED} | {**ENVIRONMENT},
        )
    except FileNotFoundError:
        return Output(127, b"", f"{argv[0]}: not found".encode())
    except PermissionError as error:
        return Output(126, b"", f"{argv[0]}: {error.strerror}".encode())
    except (OSError, ValueError) as error:
        raise UsageError(
            "running",
            f"{argv[0]!r} on local",
            str(error),
            "check the names in the command for odd characters",
        ) from None


def _said(
    process: subprocess.Popen[bytes], stdin: bytes, timeout: float, stop: Event | None
) -> Iterator[tuple[Stream, bytes]]:
    """Feed standard input and yield both outputs, with b"" while there is none.

    Ends when the command and both its outputs have ended, or when the time is over.
    """
    left_to_write = memoryview(stdin)
    deadline = time.monotonic() + timeout
    ended: float | None = None  # when the command was first seen to have ended
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, stream)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        while (now := time.monotonic()) < deadline:
            check(stop)
            patience = min(TICK, deadline - now)
            silent = not selector.get_map()
            if _over(process, patience if silent else 0.0):
                ended = ended or now
                if silent or now - ended > GRACE:
                    return
            ready = [] if silent else selector.select(patience)
            if not ready:
                yield "stdout", b""
            for key, _ in ready:
                if key.data == "stdin":
                    try:
                        left_to_write = left_to_write[os.write(key.fd, left_to_write[:CHUNK]) :]
                    except BrokenPipeError:
                        left_to_write = left_to_write[:0]
                    if not left_to_write:
                        selector.unregister(key.fileobj)
                        assert process.stdin is not None
                        process.stdin.close()
                elif data := os.read(key.fd, CHUNK):
                    yield key.data, data
                else:
                    selector.unregister(key.fileobj)


def _over(process: subprocess.Popen[bytes], patience: float = 0.0) -> bool:
    """Wait up to `patience` seconds and return whether the command has ended. If so, the rest of its process
    group is killed.
    """
    if process.returncode is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            _signal_group(process, signal.SIGKILL)
    return process.returncode is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Reap the command. If it has not ended by itself, end its whole process group."""
    if not _over(process):
        _signal_group(process, signal.SIGTERM)
        if not _over(process, GRACE):
            _signal_group(process, signal.SIGKILL)
            process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _signal_group(process: subprocess.Popen[bytes], signal_: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal_)
