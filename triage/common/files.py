"""Files of the operator's own, written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from triage.common.errors import UnreachableError


def state_directory(name: str) -> Path:
    """`$XDG_STATE_HOME/triage/NAME`, or below `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "triage" / name


MAX_JSON = 256 << 20  # bytes of one file of results; a verification keeps every request


def read_json_file(path: Path) -> bytes:
    """What a file of JSON holds. Raises UnreachableError, and ValueError for one that is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_JSON + 1)
    except OSError as error:
        raise UnreachableError(
            "reading", str(path), error.strerror or str(error), f"ls -l {path.parent}"
        ) from None
    if len(data) > MAX_JSON:
        raise ValueError(f"larger than {MAX_JSON >> 20} MiB")
    return data


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write beside and rename, so that a cut leaves the old file or the new one.

    A symbolic link stays one; a pipe or device, such as /dev/stdout, is written to. Raises UnreachableError.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        look = "df -h" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "ls -ld"
        raise UnreachableError(
            "writing", str(path), error.strerror or str(error), f"{look} {path.parent}"
        ) from None


def name_for(what: str, host: str) -> str:
    """Of what is kept of something on a host, without an ending: no name leads out of a directory."""
    return f"{quote(what, safe='')}@{quote(host, safe='')}"
