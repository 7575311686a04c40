"""This machine."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from threading import Event

from triage.errors import UsageError
from triage.hosts.capture import CHUNK, Capture
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, ENVIRONMENT, UNWANTED, Output
from triage.hosts.options import check

GRACE = 2.0  # seconds between SIGTERM and SIGKILL, and for a stray child that holds our pipes


class LocalConnection:
    """Runs commands as children of this process, each in a process group of its own."""

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
            _exchange(process, stdin, time.monotonic() + timeout, capture, self._stop)
            return capture.output(None if capture.cut else process.wait())
        finally:
            _end(process, capture.cut != "")

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        """As Connection's; `stdin` is at most what a pipe holds."""
        process = _start(argv, bool(stdin))
        if isinstance(process, Output):
            return
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(stdin)
        deadline = time.monotonic() + timeout
        try:
            with selectors.DefaultSelector() as selector:
                for pipe in (process.stdout, process.stderr):
                    assert pipe is not None
                    selector.register(pipe, selectors.EVENT_READ)
                while selector.get_map() and (left := deadline - time.monotonic()) > 0:
                    check(self._stop)
                    quiet = True
                    for key, _ in selector.select(min(left, 1.0)):
                        data = os.read(key.fd, CHUNK)
                        if not data:
                            selector.unregister(key.fileobj)
                        elif key.fileobj is process.stdout:
                            quiet = False
                            yield data
                    if quiet:
                        yield b""
        finally:
            _end(process, True)

    def close(self) -> None:
        """Nothing is held open between commands."""


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


def _exchange(
    process: subprocess.Popen[bytes], stdin: bytes, deadline: float, capture: Capture, stop: Event | None
) -> None:
    """Feed standard input and drain both outputs until they end or a limit is reached."""
    left_to_write = memoryview(stdin)
    ended: float | None = None  # when the command itself was first seen to have ended
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, stream)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        while selector.get_map():
            check(stop)
            now = time.monotonic()
            if now >= deadline:
                capture.cut = "time"
                return
            if process.poll() is not None:
                ended = ended or now
                if now - ended > GRACE:
                    return
            for key, _ in selector.select(min(deadline - now, 0.5)):
                if key.data == "stdin":
                    try:
                        left_to_write = left_to_write[os.write(key.fd, left_to_write[:CHUNK]) :]
                    except BrokenPipeError:
                        left_to_write = left_to_write[:0]
                    if not left_to_write:
                        selector.unregister(key.fileobj)
                        assert process.stdin is not None
                        process.stdin.close()
                    continue
                data = os.read(key.fd, CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                capture.add(key.data, data)
                if capture.cut:
                    return
        while process.poll() is None:  # closed its outputs, and goes on
            check(stop)
            if time.monotonic() >= deadline:
                capture.cut = "time"
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(0.5, max(0.0, deadline - time.monotonic())))


def _end(process: subprocess.Popen[bytes], early: bool) -> None:
    """Reap the command; one that has not ended by itself goes with its whole process group."""
    if early or process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        _signal_group(process, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _signal_group(process: subprocess.Popen[bytes], signal_: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal_)
