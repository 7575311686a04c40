"""An installed engine, on a host or in a directory here, read for known defects and others of their class."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from triage.patching.trees import DirectoryTree, find_root

if TYPE_CHECKING:
    from triage.hosts.connection import Connection
    from triage.patching.schema import Patch
    from triage.scan.model import ScanResult


def scan_directory(directory: Path, known: Sequence[Patch]) -> ScanResult:
    """The engine in a virtual environment, site-packages or checkout. Raises UsageError without one."""
    from triage.scan.read import from_directory
    from triage.scan.run import scan

    with _without_collecting():
        root, package = find_root(directory.absolute())
        return scan(str(root), package, from_directory(root, package), DirectoryTree(root), tuple(known), {})


def scan_host(
    connection: Connection,
    known: Sequence[Patch],
    unit: str = "",
    package_root: str = "",
    python: str = "",
    rules: Sequence[Path] = (),
) -> ScanResult:
    """The engine that serves on a host, or the one at `package_root`. Raises TriageError."""
    from triage.scan.read import from_host
    from triage.scan.run import scan
    from triage.workflows.patch_target import find_target

    with _without_collecting():
        place = find_target(
            connection,
            known,
            unit=unit,
            package_root=package_root,
            python=python,
            rules=rules,
            log_needed=False,
        )
        root, _, package = place.package_root.rstrip("/").rpartition("/")
        place.tree.prefetch(m for p in known if p.package == package for m in (package, *p.modules))
        return scan(root, package, from_host(place.tree, package), place.tree, tuple(known), place.context)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Syntax trees are most of what is made here; looking for cycles in them takes half of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
