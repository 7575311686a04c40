from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triage.evidence.model import Query
from triage.hosts import Output

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


@pytest.fixture
def ask() -> Callable[..., Any]:
    """The typed answer that a query makes of a recorded output, by way of its canonical text."""

    def ask(query: Query[Any], name: str = "", **output: Any) -> Any:
        made = Output(**{"code": 0, "stdout": recorded(name) if name else b"", **output})
        return query.parse(query.decode(made))

    return ask
