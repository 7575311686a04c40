"""Models that were read from files and checked before, kept as one JSON file: YAML takes half a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter

from triage.common.cache import cache_path, keep
from triage.common.files import MAX_JSON, read_plain

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class KeptModels(Generic[M]):
    """Models of one kind. They are kept for their files, for `shapes` (the modules that check them) and
    for `parts`; `context` is what the validators are told of what was checked before."""

    kind: str
    adapter: TypeAdapter[tuple[M, ...]]
    shapes: tuple[ModuleType, ...]
    parts: Callable[[], Iterable[str]] = tuple
    context: Any = None

    def recall(self, files: Sequence[Path]) -> tuple[M, ...] | None:
        """The models of exactly these files in their present state; None where they are not kept."""
        try:
            data = read_plain(self._path(files), MAX_JSON)
            return self.adapter.validate_json(data, context=self.context)
        except (OSError, ValueError):
            return None

    def remember(self, files: Sequence[Path], models: tuple[M, ...]) -> None:
        """Keep models for the next time. What cannot be kept is read again then."""
        data = self.adapter.dump_json(models, by_alias=True, exclude_defaults=True)
        keep(self._path(files), self.kind, data)

    def _path(self, files: Sequence[Path]) -> Path:
        checkers = (Path(module.__file__) for module in self.shapes if module.__file__)
        return cache_path(self.kind, (*checkers, *files), self.parts())
