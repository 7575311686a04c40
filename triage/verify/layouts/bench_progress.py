"""The latest bench of a deployment, kept while it goes on: a kill between two layouts loses neither."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.common.errors import UnreachableError
from triage.common.files import MAX_JSON, name_for, read_plain, state_directory, write_atomically
from triage.common.json import parse_json

SCHEMA = "triage.bench/1"


class BenchProgress:
    """One file of `triage.bench/1`. As text: where it is, "" as long as this bench has written nothing."""

    def __init__(self, host: str, deployment: str, directory: Path | None = None) -> None:
        name = f"{name_for(deployment, host)}.json"
        self.path = (directory or state_directory("benches")) / name
        self._told = ""

    def __str__(self) -> str:
        return self._told

    def write(self, document: Mapping[str, Any]) -> None:
        """What cannot be kept is no reason to stop what is measured."""
        names = ", ".join(layout["name"] for layout in document["layouts"])
        try:
            write_atomically(self.path, json.dumps(document).encode())
            self._told = f"; what {names} did is in {self.path}"
        except UnreachableError as error:
            self._told = f"; what {names} did could not be kept: {error}"

    def rates(self) -> dict[str, float]:
        """The decode rates that were measured, by layout; empty where nothing was."""
        try:
            document = parse_json(read_plain(self.path, MAX_JSON))
            if document["schema"] != SCHEMA:
                return {}
            found = {str(each["name"]): each["decode_rate"] for each in document["layouts"]}
        except (OSError, ValueError, LookupError, TypeError):
            return {}
        return {name: float(rate) for name, rate in found.items() if isinstance(rate, (int, float))}
