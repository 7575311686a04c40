"""The sources of an installed package that may hold something to find: from a directory or a host."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from triage.common.files import open_plain
from triage.patching.model import SourceFile
from triage.patching.source import MAX_BYTES
from triage.patching.transaction import HostTree
from triage.scan.prefilter import SOUGHT, may_hold

_SKIPPED = ("/test/", "/tests/", "/multimodal_gen/")  # no model that is served in stages


@dataclass(frozen=True)
class Sources:
    """The files that passed the prefilter, how many there were, and those that could not be read."""

    files: tuple[SourceFile, ...]
    looked: int
    unread: tuple[tuple[str, str], ...] = ()


def from_directory(root: Path, package: str) -> Sources:
    """Read a package below a directory."""
    files, unread, looked = [], [], 0
    for path in _python_files(root / package):
        looked += 1
        try:
            with open_plain(path) as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            unread.append((path, error.strerror or str(error)))
            continue
        if len(data) > MAX_BYTES:
            unread.append((path, f"larger than {MAX_BYTES >> 20} MiB"))
        elif may_hold(data):
            files.append(SourceFile(_module(path, str(root)), path, data))
    return Sources(tuple(files), looked, tuple(unread))


def from_host(tree: HostTree, package: str) -> Sources:
    """Read a package of a host; the host sends only what may hold something."""
    files, looked, unread = tree.search(package, [word.decode() for word in SOUGHT], _SKIPPED)
    return Sources(tuple(file for file in files if may_hold(file.data)), looked, unread)


def _python_files(directory: Path) -> Iterator[str]:
    for place, directories, names in os.walk(directory):
        directories.sort()
        here: Iterable[str] = (os.path.join(place, name) for name in sorted(names) if name.endswith(".py"))
        yield from (path for path in here if not any(part in path for part in _SKIPPED))


def _module(path: str, root: str) -> str:
    return os.path.relpath(path, root)[: -len(".py")].replace(os.sep, ".").removesuffix(".__init__")
