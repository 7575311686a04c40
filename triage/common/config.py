"""The operator's own settings: `$XDG_CONFIG_HOME/triage/config.yaml`, or `~/.config/triage/config.yaml`.

    rules: [~/triage/rules]        directories of further rules
    patches: [~/triage/patches]    directories of further patches
    lines: [~/triage/lines]        directories of further files of what programs say when they fail
    inventory: hosts.yaml          which hosts there are, where `--inventory` does not say

A relative path is one beside the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from triage.common.errors import UsageError


@dataclass(frozen=True)
class Config:
    """Directories that exist, absolute, in the order in which they stand; the inventory that is named."""

    rules: tuple[Path, ...] = ()
    patches: tuple[Path, ...] = ()
    inventory: Path | None = None
    lines: tuple[Path, ...] = ()


def config_path() -> Path:
    """Return where the file is, or would be."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".config"  # the XDG specification
    return base / "triage" / "config.yaml"


def load_config() -> Config:
    """The settings; without a file, none. Raises UsageError that names file and key."""
    path = config_path()
    if not path.exists():
        return Config()
    from pydantic import BaseModel, ConfigDict

    from triage.common.yaml_files import load_model

    class File(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)

        rules: tuple[str, ...] = ()
        patches: tuple[str, ...] = ()
        inventory: str = ""
        lines: tuple[str, ...] = ()

    file = load_model(path, File, "configuration")
    return Config(
        _directories(path, "rules", file.rules),
        _directories(path, "patches", file.patches),
        path.parent / Path(file.inventory).expanduser() if file.inventory else None,
        _directories(path, "lines", file.lines),
    )


def with_configured(configured: Iterable[Path], given: Iterable[Path] | None) -> tuple[Path, ...]:
    """Directories of the configuration and of the command line, each once."""
    found: dict[Path, Path] = {}
    for path in (*configured, *(given or ())):
        found.setdefault(path.resolve(), path)
    return tuple(found.values())


def _directories(path: Path, key: str, names: Iterable[str]) -> tuple[Path, ...]:
    found = []
    for number, name in enumerate(names):
        directory = path.parent / Path(name).expanduser()
        if not directory.is_dir():
            raise UsageError(
                "reading configuration",
                str(path),
                f"{key}.{number}: there is no directory {directory}",
                f"mkdir -p {directory}",
            )
        found.append(directory)
    return tuple(found)
