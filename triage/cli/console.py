"""Prints results on stdout, progress and errors on stderr, with colour only on a terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, TextIO

from triage.common.errors import TriageError, UnreachableError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from typing_extensions import Buffer


def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def show(result: object, format: Enum) -> None:
    """Print a result on standard output: as lines for people, or as a document in the format."""
    from triage.report import json, renderers

    if format.value == renderers.LINES:
        print_lines(result)
    else:
        print(json.dumps(renderers.document(result, format.value)))


def print_lines(result: object) -> None:
    from triage.report import renderers

    print_texts(renderers.lines(result))


def print_texts(lines: Iterable[Text]) -> None:
    """Print lines, all at once: one by one a thousand of them take half a second."""
    from rich.text import Text

    texts = list(lines)
    if texts:
        stdout().print(Text("\n").join(texts), soft_wrap=True)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """A spinner while something takes long; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from triage.report.safe import safe_line

    with stderr().status(safe_line(doing)):
        yield


def ask_secret(prompt: str) -> str | None:
    """What a person types without it being shown; None where there is no person."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    from triage.report.safe import safe_line

    try:
        return getpass.getpass(safe_line(prompt))
    except EOFError:
        return None


def agreed(question: str, yes: bool) -> bool:
    """Ask a person, unless `yes` was said beforehand. Without a person or an answer, it is no."""
    if yes or not sys.stdin.isatty():
        return yes
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_error(error: TriageError) -> None:
    """One paragraph: what was being done, to what, what happened, the next command."""
    from triage.report.safe import safe

    text = f"triage: {error.doing} {error.to}: {error.happened}"
    text += "" if text.endswith((".", "?", "!")) else "."
    if error.next:
        text += f" Next: {error.next}"
    print(safe(text).replace("\n", " "), file=sys.stderr)


def print_defect() -> None:
    """The exception that is being handled, which no command expects: it is worth a report."""
    import traceback

    from triage.report.safe import safe

    print(safe(traceback.format_exc()), file=sys.stderr)
    print("triage: this is a defect of triage itself; please report it with the lines above", file=sys.stderr)


def guard_streams() -> None:
    """Standard streams for every command: one may be closed, lose its reader or lack a character."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = _guarded(sys.stdout, "standard output")
    sys.stderr = _guarded(sys.stderr, "standard error")


def _guarded(stream: TextIO | None, name: str) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream or open(os.devnull, "w")
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), name)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Output(io.FileIO):
    """An open descriptor. Where its reader has gone (`| head`) the command goes on unheard.

    So the exit code says what was found, whoever listened. Raises UnreachableError when nothing more
    can be written, once.
    """

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number, "wb", closefd=False)
        self._to = name
        self._lost = False

    def write(self, data: Buffer) -> int:
        if not self._lost:
            try:
                return super().write(data)
            except BrokenPipeError:
                self._lost = True
            except OSError as error:
                self._lost = True
                raise UnreachableError("writing to", self._to, str(error.strerror), "df -h") from None
        return memoryview(data).nbytes
