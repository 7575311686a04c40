"""Trees of installed source on this machine's disk."""

from __future__ import annotations

from pathlib import Path

from triage.evidence.model import Unanswered
from triage.patching.model import SourceFile
from triage.patching.source import MAX_BYTES


class DirectoryTree:
    """A site-packages directory, or any directory that packages are imported from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, SourceFile | None] = {}

    def read(self, module: str) -> SourceFile | None:
        """The module's file, read once. Raises Unanswered when it is there and cannot be read."""
        if module not in self._files:
            self._files[module] = self._read(module)
        return self._files[module]

    def _read(self, module: str) -> SourceFile | None:
        stem = self.root.joinpath(*module.split("."))
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            try:
                with path.open("rb") as file:
                    data = file.read(MAX_BYTES + 1)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise Unanswered(f"{path}: {error.strerror or error}") from None
            if len(data) > MAX_BYTES:
                raise Unanswered(f"{path} is larger than {MAX_BYTES >> 20} MiB")
            return SourceFile(module, str(path.absolute()), data)
        return None
