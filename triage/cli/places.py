"""A word that is a host or a directory here: how it is written decides, not what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from triage.common.errors import TriageError


def is_directory(word: str) -> bool:
    """Whether it is written as a directory: `./x`, `/x`, `x/`, `~/x`, `.`, `..`. A bare name is a host."""
    return word in (".", "..", "~") or (os.sep in word and "://" not in word)


def directory_of(word: str) -> Path:
    return Path(word).expanduser()


@contextmanager
def named(host: str) -> Iterator[None]:
    """Let an error about a host say that a directory of that name is here, and how to write that."""
    try:
        yield
    except TriageError as error:
        if not is_directory(host) and Path(host).is_dir():
            error.happened += f"; for the directory {host} that is here write ./{host}"
        raise


def may_run(program: Path) -> bool:
    """Whether only we and root can change a program of this machine and the way to it."""
    from triage.remote.owner import Refused, account_of

    try:
        uid, _, shared = account_of(os.path.abspath(program))
    except (OSError, Refused):
        return False
    return not shared and uid in (0, os.geteuid())
