"""The host aliases of an ssh configuration, for listing only."""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from triage.common.errors import UsageError
from triage.common.files import read_plain

MAX_BYTES = 16 << 20
_DEPTH = 16  # of Include, as in OpenSSH


def aliases(ssh_config: Path | None) -> tuple[str, ...]:
    """Return the aliases without patterns. Raises UsageError for a broken configuration."""
    path = (ssh_config or Path("~/.ssh/config")).expanduser()
    try:
        names = list(_named(path, 0))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise UsageError(
            "reading", f"the ssh configuration {path}", str(error), f"ssh -F {path} -G HOST"
        ) from None
    return tuple(dict.fromkeys(name for name in names if not re.search(r"[*?!]", name)))


def _named(path: Path, depth: int) -> Iterator[str]:
    if depth > _DEPTH:
        raise ValueError(f"Include is nested more than {_DEPTH} deep at {path}")
    for line in read_plain(path, MAX_BYTES).decode("utf-8", "replace").splitlines():
        key, *rest = re.split(r"[\s=]+", line.strip(), maxsplit=1)
        if key.lower() not in ("host", "include"):
            continue
        words = shlex.split("".join(rest), comments=True)
        if key.lower() == "host":
            yield from words
            continue
        for pattern in words:
            for included in sorted(glob.glob(str(Path("~/.ssh").expanduser() / Path(pattern).expanduser()))):
                yield from _named(Path(included), depth + 1)
