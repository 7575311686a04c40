"""What was made of files before, kept under the state that those files had."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from triage import __version__
from triage.common.errors import TriageError
from triage.common.files import write_atomically

KEPT = 4  # files of earlier states of one kind


def cache_path(kind: str, files: Iterable[Path], parts: Iterable[str] = ()) -> Path:
    """Return the file in which something made of `files` is kept.

    Its name tells the release, `parts`, and the path, size and time of each file. Raises OSError.
    """
    digest = hashlib.sha256("\0".join((__version__, *parts)).encode())
    for file in files:
        state = file.stat()
        digest.update(f"{file}\0{state.st_size}\0{state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return home / "triage" / f"{kind}-{digest.hexdigest()[:24]}.json"


def keep(path: Path, kind: str, data: bytes) -> None:
    """Write `data`, and remove all but the latest files of the kind. What cannot be kept is made again."""
    with contextlib.suppress(TriageError, OSError):
        write_atomically(path, data)
        old = sorted(path.parent.glob(f"{kind}-*.json"), key=lambda other: other.stat().st_mtime)
        for other in old[:-KEPT]:
            other.unlink(missing_ok=True)
