"""Log files as they lie on disk: plain, gzip, xz, zstd, or on standard input."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from triage.errors import UnreachableError, UsageError
from triage.logs.model import LogSource

LIMIT = 4 << 30
"""Bytes of a log that are read, after decompression."""

_CHUNK = 1 << 20


def open_log(path: str, limit: int = LIMIT) -> LogSource:
    """Read a log; `-` is standard input. A longer one is cut at `limit` bytes and marked as partial.

    Raises UsageError for what is no log (a directory, an empty file, damaged compression) and
    UnreachableError for what cannot be read; both name the next command.
    """
    if path == "-":
        data, partial = _bounded(sys.stdin.buffer, limit)
        return _source("standard input", data, partial)
    doing = "reading the log"
    place = Path(path)
    try:
        if place.is_dir():
            raise UsageError(doing, path, "it is a directory", f"name one file of it: ls {path}")
        with place.open("rb") as raw:
            magic = raw.read(6)
            raw.seek(0)
            with _decompressed(raw, magic, path) as stream:
                data, partial = _bounded(stream, limit)
    except FileNotFoundError:
        raise UsageError(doing, path, "there is no such file", f"ls {place.parent}") from None
    except PermissionError:
        raise UnreachableError(doing, path, "permission denied", f"ls -l {path}") from None
    except OSError as error:
        if error.errno is None:  # gzip and zstd say so of damaged data
            raise UsageError(doing, path, f"its compression is damaged: {error}", f"file {path}") from None
        raise UnreachableError(doing, path, error.strerror or str(error), f"ls -l {path}") from None
    except UsageError:
        raise
    except Exception as error:  # each compression library has its own errors for damaged data
        raise UsageError(doing, path, f"its compression is damaged: {error}", f"file {path}") from None
    return _source(path, data, partial)


def _source(name: str, data: bytes, partial: str) -> LogSource:
    if not data.strip():
        raise UsageError(
            "reading the log", name, "it is empty", "journalctl -u UNIT -o json --all > service.json"
        )
    return LogSource(name, data, partial)


def _bounded(stream: IO[bytes], limit: int) -> tuple[bytes, str]:
    chunks = []
    size = 0
    while size < limit and (chunk := stream.read(min(_CHUNK, limit - size))):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks), "bytes" if size >= limit and stream.read(1) else ""


def _decompressed(raw: IO[bytes], magic: bytes, path: str) -> IO[bytes]:
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", importlib.import_module("gzip").open(raw))
    if magic.startswith(b"\xfd7zXZ"):
        return cast("IO[bytes]", importlib.import_module("lzma").open(raw))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd()(raw)
    return raw


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
