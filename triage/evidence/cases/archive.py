"""A case as one file: a `.tar.zst` of its directory.

    zstd -dc CASE.tar.zst | tar -t
    manifest.json
    answers/journal-windows-sglang-kimi.service.jsonl
    expected.yaml

Equal cases make equal archives. An archive from elsewhere is hostile until it is unpacked: only plain files
with plain names come out of it, and no more of them, and no more bytes, than a case can have.
"""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from triage.common.errors import TriageError, UnreachableError, UsageError
from triage.common.files import open_plain, write_atomically

SUFFIX = ".tar.zst"
MAX_FILES = 10_000
MAX_BYTES = 2 << 30  # of all files together
MAX_NAME = 255  # characters
_BETWEEN = 64 << 10  # bytes of headers between two files
_WINDOW = 1 << 25  # bytes that the compression may look back
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.@+-]*){0,3}")
_DOING = "reading the case"
_AGAIN = "ask whoever made it for another copy, or capture it again: triage capture HOST -o CASE.tar.zst"


def is_archive(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


@contextlib.contextmanager
def opened(case: Path) -> Iterator[Path]:
    """Yield the directory of a case: the case itself, or its unpacked archive, which is deleted afterwards.

    Raises UsageError for an archive that holds anything but the files of a case.
    """
    if not is_archive(case):
        yield case
        return
    with tempfile.TemporaryDirectory(prefix="triage-case-") as room:
        inside = Path(room) / (case.name.removesuffix(SUFFIX) or "case")
        inside.mkdir()
        unpack(case, inside)
        try:
            yield inside
        except TriageError as error:  # the directory will be gone
            error.to = error.to.replace(str(inside), str(case))
            raise


def pack(directory: Path, archive: Path) -> None:
    """Write the files of a directory as an archive, completely or not at all. Raises UnreachableError."""
    import zstandard

    told = io.BytesIO()
    with (
        zstandard.ZstdCompressor(level=9).stream_writer(told, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink():
                info = tarfile.TarInfo(path.relative_to(directory).as_posix())
                info.size, info.mode = path.stat().st_size, 0o600
                with path.open("rb") as file:
                    tar.addfile(info, file)
    write_atomically(archive, told.getvalue())


def unpack(archive: Path, into: Path) -> None:
    """Unpack a case into an empty directory. Raises UsageError that says what is wrong with the archive."""
    import zstandard

    try:
        with (
            open_plain(archive) as file,
            zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(file) as stream,
        ):
            _unpack(_Bounded(stream), into, archive)
    except FileNotFoundError:
        raise UsageError(_DOING, str(archive), "there is no such file", f"ls {archive.parent}") from None
    except OSError as error:
        raise UnreachableError(
            _DOING, str(archive), error.strerror or str(error), f"ls -l {archive}"
        ) from None
    except (zstandard.ZstdError, tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _refused(archive, f"it is damaged, or no {SUFFIX}: {error}") from None


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Bounded(io.RawIOBase):
    """A stream that raises an error if more than the allowed bytes are read."""

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self.left = _BETWEEN

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(max(0, min(size, self.left + 1))) or b""
        self.left -= len(data)
        if self.left < 0:
            raise ValueError("its headers are too long")
        return data


def _unpack(stream: _Bounded, into: Path, archive: Path) -> None:
    files = size = 0
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        while (member := tar.next()) is not None:
            files += 1
            size += member.size
            if files > MAX_FILES:
                raise _refused(archive, f"it holds more than {MAX_FILES} files")
            if size > MAX_BYTES:
                raise _refused(archive, f"it holds more than {MAX_BYTES >> 30} GiB")
            name = member.name.removeprefix("./")
            if member.isdir() and (_NAME.fullmatch(name) or name in ("", ".")):
                continue
            if not member.isreg() or member.issparse():
                raise _refused(archive, f"{_shown(name)} is no plain file")
            if len(name) > MAX_NAME or not _NAME.fullmatch(name):
                raise _refused(archive, f"{_shown(name)} is no name of a file of a case")
            stream.left = member.size + _BETWEEN
            _write(tar, member, into / name, archive)
            stream.left = _BETWEEN


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, archive: Path) -> None:
    held = tar.extractfile(member)
    assert held is not None  # a regular file always has contents
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            while chunk := held.read(1 << 20):
                file.write(chunk)
    except FileExistsError:
        raise _refused(archive, f"it holds {path.name} twice") from None


def _shown(name: str) -> str:
    return repr(name[:80])


def _refused(archive: Path, why: str) -> UsageError:
    return UsageError(_DOING, str(archive), why, _AGAIN)
