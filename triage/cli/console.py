"""Where output goes: results on stdout, progress and errors on stderr, colour on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from triage.errors import TriageError

if TYPE_CHECKING:
    from rich.console import Console


def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """A spinner while something takes long; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from triage.report.safe import safe_line

    with stderr().status(safe_line(doing)):
        yield


def print_error(error: TriageError) -> None:
    """One paragraph: what was being done, to what, what happened, the next command."""
    from triage.report.safe import safe

    text = f"triage: {error.doing} {error.to}: {error.happened.rstrip('.')}."
    if error.next:
        text += f" Next: {error.next}"
    print(safe(text).replace("\n", " "), file=sys.stderr)
