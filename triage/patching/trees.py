"""Trees of installed source on this machine's disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from triage.common.errors import UsageError
from triage.common.files import open_plain, read_plain
from triage.common.json import parse_json
from triage.engines import ENGINES
from triage.evidence.model import Unanswered
from triage.patching.model import SourceFile
from triage.patching.source import MAX_BYTES

PACKAGES = tuple(engine.package.name for engine in ENGINES.values() if engine.package.name)
_PLACES = ("", "python", "src", "Lib/site-packages")
_INSTALLED = ("lib/python3.*/site-packages", "lib/python3/dist-packages", "local/lib/python3.*/dist-packages")


def find_root(directory: Path) -> tuple[Path, str]:
    """The directory that an engine is imported from, and the engine's package. Raises UsageError.

    `directory` may be that of the package, of site-packages, of a virtual environment, of an unpacked
    wheel or of a checkout. An editable installation leads to its checkout.
    """
    if directory.name in PACKAGES and (directory / "__init__.py").is_file():
        return directory.parent, directory.name
    for place in _places(directory):
        for package in PACKAGES:
            if (place / package / "__init__.py").is_file():
                return place, package
    names = " or ".join(PACKAGES)
    happened = f"there is no package {names} in it"
    raise UsageError("looking for an engine in", str(directory), happened, f"ls {directory}")


def find_python(directory: Path) -> str:
    """The interpreter of a virtual environment; "" where there is none."""
    found = directory / "bin" / "python"
    return str(found) if os.access(found, os.X_OK) else ""


def _places(directory: Path) -> Iterator[Path]:
    installed = [place for pattern in _INSTALLED for place in sorted(directory.glob(pattern))]
    yield from (directory / name for name in _PLACES)
    yield from installed
    for place in (directory, *installed):
        for package in PACKAGES:
            for said in place.glob(f"{package}*.dist-info/direct_url.json"):
                if checkout := _checkout(said):
                    yield from (checkout / name for name in _PLACES)


def _checkout(said: Path) -> Path | None:
    """Return where an editable distribution comes from, as its installer wrote it down (PEP 610)."""
    try:
        document = parse_json(read_plain(said, 1 << 16))
        url = urlsplit(str(document["url"]))
        editable = document["dir_info"]["editable"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(unquote(url.path)) if editable and url.scheme == "file" else None


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
                with open_plain(path) as file:
                    data = file.read(MAX_BYTES + 1)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise Unanswered(f"{path}: {error.strerror or error}") from None
            if len(data) > MAX_BYTES:
                raise Unanswered(f"{path} is larger than {MAX_BYTES >> 20} MiB")
            return SourceFile(module, str(path.absolute()), data)
        return None
