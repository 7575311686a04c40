"""Log files as they lie on disk: plain, gzip, xz, zstd, or on standard input."""

from __future__ import annotations

import codecs
import errno
import importlib
import io
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, cast

from triage.common.errors import UnreachableError, UsageError
from triage.common.files import open_plain
from triage.logs.model import LogSource
from triage.logs.reading.content import Content, Stored, blocks, is_utf16

LIMIT = 4 << 30
"""Bytes of a log that are read, after decompression."""

FREELY, RATIO = 64 << 20, 500
"""Bytes that any log may unpack to, and how often the size of its file beyond that: a log shrinks to a
hundredth at most, and what shrinks to less was made to fill a disk."""

MEMORY = 8 << 20
"""Bytes of a log that are kept in memory. A longer one is left in its file, or unpacked to a temporary."""

STDIN = "standard input"
JOURNAL = b"LPKSHHRH"  # how a file of journald begins
_CHUNK = 1 << 20


def open_log(path: str, limit: int = LIMIT) -> LogSource:
    """Open a log; `-` is standard input. A longer one is cut at `limit` bytes and marked as partial.

    Raises UsageError for what is no log (a directory, an empty file, damaged compression) and
    UnreachableError for what cannot be read; both name the next command.
    """
    doing, name = "reading the log", STDIN if path == "-" else path
    place = Path(path)
    try:
        if place.is_dir():
            raise UsageError(doing, path, "it is a directory", f"name one file of it: ls {path}")
        with nullcontext(sys.stdin.buffer) if path == "-" else open_plain(place) as file:
            raw = cast("io.BufferedReader", file if hasattr(file, "peek") else io.BufferedReader(file))
            if raw.peek(8).startswith(JOURNAL):
                there = shlex.quote(path) if path != "-" else "FILE.journal"
                advice = f"journalctl --file {there} --all -o short-iso-precise | triage diagnose --log -"
                raise UsageError(doing, name, "it is a file of journald's own, not text", advice)
            magic = raw.peek(6)
            packed = _Counted(raw)
            unpacked = _decompressed(cast("IO[bytes]", packed), magic)
            stream = _Unpacked(unpacked, packed, name) if unpacked else raw
            data, partial = _bounded(cast("IO[bytes]", stream), limit, in_place=stream is raw)
    except FileNotFoundError:
        raise UsageError(doing, path, "there is no such file", f"ls {place.parent}") from None
    except PermissionError:
        raise UnreachableError(doing, path, "permission denied", f"ls -l {path}") from None
    except OSError as error:
        if error.errno is None:  # gzip and zstd say so of damaged data
            raise UsageError(doing, name, f"its compression is damaged: {error}", f"file {path}") from None
        if error.errno == errno.ENOSPC:
            where = "there is no room to unpack it in the directory for temporary files"
            raise UnreachableError(doing, name, where, "name one with room: export TMPDIR=DIR") from None
        raise UnreachableError(doing, name, error.strerror or str(error), f"ls -l {path}") from None
    except UsageError:
        raise
    except Exception as error:  # each compression library has its own errors for damaged data
        raise UsageError(doing, name, f"its compression is damaged: {error}", f"file {path}") from None
    if not any(block.strip() for block in blocks(data, 0, len(data))):
        raise UsageError(doing, name, "it is empty", "journalctl -u UNIT -o json --all > service.json")
    return LogSource(name, data, partial)


class _Counted(io.RawIOBase):
    """A stream, and how many bytes were read of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


class _Unpacked:
    """What comes out of a compressed stream. Raises UsageError where far too much comes out of little."""

    def __init__(self, stream: IO[bytes], packed: _Counted, name: str) -> None:
        self._stream, self._packed, self._name = stream, packed, name
        self._count = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._count += len(data)
        if self._count > FREELY + RATIO * self._packed.count:
            happened = f"it unpacks to more than {RATIO} times its size, as no log does"
            raise UsageError("reading the log", self._name, happened, "unpack it yourself, and look at it")
        return data


def _bounded(stream: IO[bytes], limit: int, in_place: bool) -> tuple[Content, str]:
    """At most `limit` bytes of a stream, and whether there are more. `in_place`: it is a file as it lies."""
    few = min(limit, MEMORY)
    start = _read(stream, few + 1)
    if len(start) <= few:
        return start, ""
    if limit == few:
        return start[:few], "bytes"
    if in_place and _is_file(stream) and not is_utf16(start):
        size = os.fstat(stream.fileno()).st_size
        return Stored(stream, min(size, limit)), "bytes" if size > limit else ""
    import tempfile

    with tempfile.TemporaryFile() as spool:
        more = _copy(chain((start,), iter(lambda: stream.read(_CHUNK), b"")), spool, limit)
        spool.flush()
        return Stored(spool, spool.tell()), "bytes" if more else ""


def _read(stream: IO[bytes], size: int) -> bytes:
    chunks = []
    while size > 0 and (chunk := stream.read(min(_CHUNK, size))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _copy(chunks: Iterator[bytes], spool: IO[bytes], limit: int) -> bool:
    """Write what fits into the limit, in UTF-8; True when there is more."""
    decoder = None
    for number, chunk in enumerate(chunks):
        if number == 0 and is_utf16(chunk):
            decoder = codecs.getincrementaldecoder("utf-16")("backslashreplace")
        if decoder is not None:
            chunk = decoder.decode(chunk).encode("utf-8", "backslashreplace")
        room = limit - spool.tell()
        spool.write(chunk[:room])
        if len(chunk) > room:
            return True
    return False


def _is_file(stream: IO[bytes]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _decompressed(raw: IO[bytes], magic: bytes) -> IO[bytes] | None:
    """What comes out of a stream that begins so; None where it is not compressed."""
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", importlib.import_module("gzip").open(raw))
    if magic.startswith(b"\xfd7zXZ"):
        return cast("IO[bytes]", importlib.import_module("lzma").open(raw))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd()(raw)
    return None


def _zstd() -> Callable[[IO[bytes]], IO[bytes]]:
    for module in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        return cast("Callable[[IO[bytes]], IO[bytes]]", found.open)
    raise UsageError(
        "reading the log", "a zstd file", "no zstd library is installed", "unpack it first: zstd -d FILE"
    )
