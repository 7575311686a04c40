"""YAML files that people write: read safely, checked against a model, errors that name file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from triage.common.errors import UsageError
from triage.common.files import open_plain
from triage.common.problems import problems_of
from triage.common.yaml import SafeLoader, parse_yaml

M = TypeVar("M", bound=BaseModel)
MAX_BYTES = 4 * 1024 * 1024


class InvalidFile(UsageError):
    """A file whose keys are not what the model asks for: (key, reason) of every problem."""

    def __init__(self, doing: str, path: Path, problems: tuple[tuple[str, str], ...]) -> None:
        told = "; ".join(f"{key}: {reason}" for key, reason in problems[:3])
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        super().__init__(doing, str(path), told + more, "fix these keys and run the command again")
        self.problems = problems


def load_model(path: Path, model: type[M], what: str) -> M:
    """The file as a `model`. `what` names its kind in errors: `rule`, `patch`, `playbook`.

    Raises InvalidFile for wrong keys, UsageError for what is no mapping at all.
    """
    data = load_mapping(path, what)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = tuple((key or "top level", reason) for key, reason in problems_of(error))
        raise InvalidFile(f"reading {what}", path, problems) from None


def load_mapping(path: Path, what: str, loader: Any = SafeLoader) -> dict[str, Any]:
    """The file's top-level mapping."""
    doing, fix = f"reading {what}", "fix the file and run the command again"
    try:
        with open_plain(path) as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise UsageError(doing, str(path), f"it is larger than {MAX_BYTES} bytes", fix)
        data = parse_yaml(text.decode("utf-8-sig"), loader)
    except OSError as error:
        raise UsageError(doing, str(path), error.strerror or str(error), f"ls -l {path}") from None
    except UnicodeDecodeError as error:
        raise UsageError(doing, str(path), f"it is not UTF-8 text: {error.reason}", fix) from None
    except ValueError as error:
        raise UsageError(doing, str(path), f"it is not YAML: {_one_line(error)}", fix) from None
    if not isinstance(data, dict):
        raise UsageError(doing, str(path), "its top level is not a mapping", fix)
    return data


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
