"""Files of the operator's own, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from triage.common.errors import UnreachableError


def state_directory(name: str) -> Path:
    """`$XDG_STATE_HOME/triage/NAME`, or below `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "triage" / name


MAX_JSON = 256 << 20  # bytes of one file of results; a verification keeps every request


_GIVEN = re.compile(r"/dev/null|/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]{1,9}")


_LINKS = 40  # as Linux follows at most


def open_plain(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file that somebody named; a pipe or a device could keep its reader for ever.

    What this process was given open is read as it is: /dev/stdin, and /dev/fd/63 of a shell's `<(...)`; and
    /dev/null. Raises OSError.
    """
    if _GIVEN.fullmatch(os.fspath(path)):
        return open(path, "rb")
    _check_plain(os.stat(path), path)  # to open a device can be enough to change it
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_plain(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_plain(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no plain file", path)


def read_plain(path: str | os.PathLike[str], limit: int) -> bytes:
    """What a regular file holds. Raises OSError, and ValueError for more than `limit` bytes."""
    with open_plain(path) as file:
        return read_all(file, limit)


def read_all(file: BinaryIO, limit: int) -> bytes:
    """Read an open file as `read_plain` does, in pieces: asking for many bytes takes their memory."""
    size = os.fstat(file.fileno()).st_size
    parts, left = [], limit + 1 if size <= limit else 0
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    data = b"".join(parts)
    if size > limit or len(data) > limit:
        raise ValueError(f"larger than {limit >> 20} MiB" if limit >> 20 else f"larger than {limit} bytes")
    return data


def read_json_file(path: Path) -> bytes:
    """What a file of JSON holds. Raises UnreachableError, and ValueError for one that is too large."""
    try:
        return read_plain(path, MAX_JSON)
    except OSError as error:
        raise UnreachableError(
            "reading", str(path), error.strerror or str(error), f"ls -l {path.parent}"
        ) from None


def write_atomically(path: Path, data: bytes, shared: bool = False) -> None:
    """Write beside and rename, so that a cut leaves the old file or the new one.

    A new file is the user's alone, or as the umask has it where it is `shared`; an old one keeps its mode.
    A symbolic link stays one; a pipe or device, such as /dev/stdout, is written to: where they are the
    user's own or root's. Raises UnreachableError.
    """
    temporary = ""
    try:
        path = resolved(path)
        old = _own(path) if os.path.lexists(path) else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = str(path.parent / f".{path.name}.{os.urandom(6).hex()}")
        with os.fdopen(create(temporary, 0o666 if shared else 0o600), "wb") as file:
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        look = "df -h" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "ls -ld"
        raise UnreachableError(
            "writing", str(path), error.strerror or str(error), f"{look} {path.parent}"
        ) from None
    except BaseException:
        _remove(temporary)
        raise


def create(path: str | os.PathLike[str], mode: int = 0o600) -> int:
    """A descriptor of a new file, to be written; the umask takes from its mode. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def resolved(path: Path) -> Path:
    """Return where a path to be written leads. Raises OSError if a link on the way is another user's.

    Root's links count as one's own. What this process was given open stays as it is.
    """
    if _GIVEN.fullmatch(os.fspath(path)) or str(path) in ("/dev/stdout", "/dev/stderr"):
        return path
    here = Path("/")
    rest = list(reversed(path.absolute().parts[1:]))
    for _ in range(_LINKS):
        while rest:
            part = rest.pop()
            if part == "..":
                here = here.parent
                continue
            here /= part
            if here.is_symlink():
                break
        else:
            return here
        if here.lstat().st_uid not in (os.geteuid(), 0):
            raise PermissionError(errno.EPERM, f"{here} is a link of another user's, and is not followed")
        target = Path(os.readlink(here))
        here = Path("/") if target.is_absolute() else here.parent
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _own(path: Path) -> os.stat_result:
    """Raises OSError for a directory, and for a pipe or device that is another user's."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode) and found.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, "it is another user's, and no plain file")
    return found


def _remove(temporary: str) -> None:
    if temporary:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def name_for(what: str, host: str) -> str:
    """Return a file name, without ending, for what is kept of a host: it leads out of no directory."""
    return f"{quote(what, safe='')}@{quote(host, safe='')}"
