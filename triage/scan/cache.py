"""Findings of files that were looked at before, kept by their content in one JSON file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from triage.common.errors import TriageError
from triage.common.files import open_plain, write_atomically
from triage.patching.model import Site, SourceFile
from triage.scan import model, prefilter, shapes, staged
from triage.scan.model import ScanFinding

MANY = 2000  # files of which findings are kept: about twenty releases
_MAX_BYTES = 8 << 20
Answer = tuple[ScanFinding, ...] | str  # or why a file cannot be read as Python
_Row = tuple[str, str, int, int, str, str]  # kind, confidence, first and last line, code, where


class CachedFindings:
    """What is known of files. What cannot be read or written costs time, nothing else."""

    def __init__(self) -> None:
        self.path = _path()
        self.known = _read(self.path)

    def recall(self, file: SourceFile) -> Answer | None:
        """What was found in a file of this content; None where nobody looked."""
        found = self.known.get(_key(file))
        if found is None or isinstance(found, str):
            return found
        return tuple(
            ScanFinding(kind, sure, Site(file.path, first, end, code), where)  # type: ignore[arg-type]
            for kind, sure, first, end, code, where in found
        )

    def remember(self, answers: Iterable[tuple[SourceFile, Answer]]) -> None:
        """Keep answers beside those that others have kept meanwhile; the oldest go."""
        rows: dict[str, list[_Row] | str] = {}
        for file, answer in answers:
            rows[_key(file)] = answer if isinstance(answer, str) else [_row(item) for item in answer]
        if rows:
            kept = {**_read(self.path), **rows}
            kept = dict(list(kept.items())[-MANY:])
            with contextlib.suppress(TriageError, OSError):
                write_atomically(self.path, json.dumps(kept).encode())


def _row(item: ScanFinding) -> _Row:
    site = item.site
    return item.kind, item.confidence, site.line, site.end_line, site.before, item.where


def _key(file: SourceFile) -> str:
    return hashlib.sha256(file.data).hexdigest()


def _path() -> Path:
    """The name tells the code that finds, and the Python whose syntax it reads."""
    digest = hashlib.sha256(sys.version.encode())
    for module in (shapes, staged, prefilter, model):
        digest.update(Path(str(module.__file__)).read_bytes())
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return home / "triage" / f"scan-{digest.hexdigest()[:16]}.json"


def _read(path: Path) -> Mapping[str, list[_Row] | str]:
    """What is kept; nothing where it is not whole or not of this shape."""
    from pydantic import TypeAdapter, ValidationError

    try:
        with open_plain(path) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            return {}
        return TypeAdapter(dict[str, list[_Row] | str]).validate_json(data, strict=True)
    except (OSError, ValidationError):
        return {}
