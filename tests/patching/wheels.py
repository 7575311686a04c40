"""Released wheels from PyPI, fetched once by pip, as trees of source."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from triage.patching.model import SourceFile

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TRIAGE_CACHE") or ROOT / ".cache") / "wheels"


def wheel(distribution: str, version: str) -> Path:
    """The wheel's file, whatever this machine's Python is. Raises AssertionError when pip cannot get it."""
    pattern = f"{distribution.replace('-', '_')}-{version}-*.whl"
    found = sorted(CACHE.glob(pattern))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "--platform=any",
            "--abi=cp311", "--abi=abi3", "--abi=none", "--platform=manylinux_2_17_x86_64",
            "--platform=manylinux_2_28_x86_64",
            "--platform=manylinux_2_34_x86_64", "--dest", str(CACHE), f"{distribution}=={version}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        found = sorted(CACHE.glob(pattern))
        assert found, f"pip could not fetch {distribution} {version}: {done.stderr[-500:]}"
    return found[0]


class WheelTree:
    """The modules in a wheel."""

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        self.names = set(self.archive.namelist())

    def read(self, module: str) -> SourceFile | None:
        stem = module.replace(".", "/")
        for name in (f"{stem}/__init__.py", f"{stem}.py"):
            if name in self.names:
                return SourceFile(module, f"/site-packages/{name}", self.archive.read(name))
        return None

    def unpack(self, directory: Path, *prefixes: str) -> Path:
        """Write the files under some paths, and what `pip` writes about the distribution, to a directory."""
        for name in self.names:
            if name.startswith(prefixes) or name.partition("/")[0].endswith(".dist-info"):
                self.archive.extract(name, directory)
        return directory
