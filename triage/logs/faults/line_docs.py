"""docs/faults.md: every kind and type of fault that a rule may name, made of the files of lines.

Run as `python -m triage.logs.faults.line_docs > docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.logs.faults.line_files import KNOWLEDGE, line_files
from triage.logs.faults.line_schema import Entry, LinesFile, read_files
from triage.logs.faults.readers import TYPES

_HEAD = """# Faults

<!-- made by `make docs` -->

What a log can be found to tell: the `kind` of a fault and its `type`. A rule's signature names them, the
type as `exception` (`docs/rules.md`). `docs/lines.md` says how words of further programs are added.

| Kind | What it is | Type |
|---|---|---|
| `exception` | a traceback of Python, or its last line | the class, such as `IndexError` |
| `native` | native code that ended its process | the signal, what was thrown, `fatal-error`, and below |
| `signal` | a process died, and by what | below |
| `error` | a line that says what failed | below; without one of its own `error` |
| `kernel` | the kernel or a driver | below |
| `service` | the service manager, also where only its record tells of the end | below |
"""


def document() -> str:
    """Return the whole page."""
    files = read_files(line_files(KNOWLEDGE))
    return "\n".join((_HEAD, *(row for file in files for row in _section(file)))).rstrip() + "\n"


def _section(file: LinesFile) -> Iterator[str]:
    yield f"## {file.family}\n"
    yield "| Kind | Type | A line | What it can explain |"
    yield "|---|---|---|---|"
    for entry in file.lines:
        why = f"{entry.weight}: {entry.because}" if entry.because else entry.weight
        yield f"| `{entry.kind}` | {_types(entry)} | {_code(entry.samples[0].line)} | {why} |"
    yield ""


def _types(entry: Entry) -> str:
    return TYPES.get(entry.read) or f"`{entry.type}`"


def _code(line: str) -> str:
    text = " ".join(line.split()).replace("`", "'").replace("|", "\\|")
    return f"`{text[:118] + '...' if len(text) > 120 else text}`"


if __name__ == "__main__":
    print(document(), end="")
