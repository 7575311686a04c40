"""The labelled logs of `tests/corpus`: a folder a case, with its log files and `expected.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from triage.logs import open_log
from triage.logs.model import LogSource

CORPUS = Path(__file__).parent.parent / "corpus"


class Expected(BaseModel):
    """What is to be found in a case.

    `category` is the root cause's (`none`: there is nothing to find), `also` other acceptable ones.
    `initiator_line` is 1-based, `initiator` is text that stands on that line, `ranks` are those of the
    initiator. What is left out is not checked.
    """

    model_config = ConfigDict(extra="forbid")

    category: str
    also: list[str] = Field(default_factory=list)
    initiator_line: int | None = None
    initiator: str | None = None
    ranks: list[str] | None = None
    note: str = ""
    composed: bool = False  # written by hand from facts, not printed by a server
    undecided: bool = False  # the log does not hold the cause: candidates only
    source: str = ""  # file of the initiator, where a case has several
    incidents: int = 1
    count: int | None = None  # identical runs that are folded into the (last) incident
    type: str | None = None  # of the initiator
    frame: str | None = None  # culprit as `file.py:function`
    silent_ranks: list[str] | None = None
    phase: str | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    roles: dict[int, Literal["initiator", "victim", "teardown", "benign"]] = Field(
        default_factory=dict
    )  # by line


def gaps() -> dict[str, str]:
    """Cases that are known to come out wrong, and why."""
    found: dict[str, str] = yaml.safe_load((CORPUS / "gaps.yaml").read_text("utf-8"))
    return found


def cases() -> list[Path]:
    return sorted(path.parent for path in CORPUS.glob("*/expected.yaml"))


def expected(case: Path) -> Expected:
    return Expected.model_validate(yaml.safe_load((case / "expected.yaml").read_text("utf-8")))


def sources(case: Path) -> list[LogSource]:
    return [open_log(str(path)) for path in sorted(case.iterdir()) if path.name != "expected.yaml"]
