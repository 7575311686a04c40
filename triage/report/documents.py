"""Documents that `--format json` printed, read back: a report is made of them, today or a year later."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from triage.errors import UnreachableError, UsageError
from triage.report.safe import safe

MAX_SIZE = 256 << 20  # bytes of one document; a verification keeps every request
KINDS: Mapping[str, Kind] = {
    "triage.diagnosis/1": "diagnosis",
    "triage.patch/1": "patch",
    "triage.verification/1": "verification",
}
RUN = "triage.run/1"

Kind = Literal["diagnosis", "patch", "verification", "step"]


@dataclass(frozen=True)
class Section:
    """One part of a report: a document, or what became of a step that gave none (`kind` "step")."""

    kind: Kind
    document: Mapping[str, Any]
    title: str = ""
    status: str = ""
    summary: str = ""


def read_document(path: Path) -> dict[str, Any]:
    """The document in a file, `-` for standard input. Raises UsageError for anything else in it."""
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_SIZE + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise UnreachableError(
            "reading", str(path), error.strerror or str(error), f"ls -l {path.parent}"
        ) from None
    if len(data) > MAX_SIZE:
        raise _unfit(path, f"it is larger than {MAX_SIZE >> 20} MiB")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _unfit(path, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("schema") not in (*KINDS, RUN):
        raise _unfit(path, f"its schema is none of {', '.join((*KINDS, RUN))}")
    found: dict[str, Any] = cleaned(document)
    return found


def sections(document: Mapping[str, Any]) -> Iterator[Section]:
    """The parts of a document: of a run, each step that was done; of a failed start, its diagnosis too."""
    if document["schema"] == RUN:
        for step in document["steps"]:
            data = step["data"]
            kind = KINDS.get(data.get("schema", ""), "step")
            yield Section(kind, data, step["name"], step["status"], step["summary"])
            if kind == "verification" and data["diagnosis"]:
                yield Section("diagnosis", data["diagnosis"], f"{step['name']}: why it died")
        return
    yield Section(KINDS[document["schema"]], document)
    if document.get("diagnosis"):
        yield Section("diagnosis", document["diagnosis"], "why it died")


def cleaned(value: Any) -> Any:
    """The same data, without anything in its texts that could steer a terminal or turn text around."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {safe(name): cleaned(item) for name, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


def _unfit(path: Path, happened: str) -> UsageError:
    return UsageError(
        "making a report of", str(path), happened, "triage diagnose HOST --format json > document.json"
    )
