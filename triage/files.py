"""Files of the operator's own, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from triage.errors import UnreachableError


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside and rename, so that a cut leaves the old file or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UnreachableError(
            "writing", str(path), error.strerror or str(error), f"ls -ld {path.parent}"
        ) from None
