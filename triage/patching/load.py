"""Patch files -> patches, with errors that name file and key."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter

from triage.common.errors import UsageError
from triage.common.kept_models import KeptModels
from triage.common.shipped import shipped_directory
from triage.common.yaml_files import load_model
from triage.patching import schema, syntax
from triage.patching.schema import Patch

KEPT = KeptModels("patches", TypeAdapter(tuple[Patch, ...]), (schema, syntax))


def load_patches(directories: Iterable[Path] = ()) -> tuple[Patch, ...]:
    """The shipped patches and those of further directories, ordered by id.

    Raises UsageError for a broken file, an id that is not its file's name, and an id that stands twice.
    """
    files: list[Path] = []
    for directory in (shipped_directory("patches"), *directories):
        if not directory.is_dir():
            happened = "it is not a directory" if directory.exists() else "there is no such directory"
            next = shlex.join(("ls", str(directory.parent)))
            raise UsageError("reading patches", str(directory), happened, next)
        files += sorted(filter(Path.is_file, directory.rglob("*.yaml")))
    known = KEPT.recall(files)
    if known is None:
        known = _read(files)
        KEPT.remember(files, known)
    return known


def _read(files: Iterable[Path]) -> tuple[Patch, ...]:
    patches: dict[str, tuple[Patch, Path]] = {}
    for path in files:
        patch = load_patch(path)
        if patch.id in patches:
            raise UsageError(
                "reading patch",
                str(path),
                f"its id {patch.id!r} is already that of {patches[patch.id][1]}",
                "give one of them another id",
            )
        patches[patch.id] = (patch, path)
    return tuple(patches[name][0] for name in sorted(patches))


def load_patch(path: Path) -> Patch:
    """One patch file. Raises UsageError."""
    patch = load_model(path, Patch, "patch")
    if patch.id != path.stem:
        raise UsageError(
            "reading patch", str(path), f"id: it is {patch.id!r}", f"name the file {patch.id}.yaml"
        )
    return patch


def find_patch(id: str, patches: Iterable[Patch] | None = None) -> Patch:
    """The patch of that id, among the shipped ones by default. Raises UsageError when there is none."""
    known = {patch.id: patch for patch in (load_patches() if patches is None else patches)}
    if id not in known:
        raise UsageError(
            "looking for patch", id, "there is no such patch", f"one of: {', '.join(known) or 'none'}"
        )
    return known[id]
