"""Text of others as Markdown code: without controls, and never closed from within."""

from __future__ import annotations

import re

from triage.report.safe import safe, safe_line


def code(text: str) -> str:
    """A code span on one line."""
    line = safe_line(text).strip() or "-"
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def word(text: str) -> str:
    """One of our own words as it is; anything else as code."""
    return text if re.fullmatch("[a-z]{1,40}", text) else code(text)


def block(text: str, language: str = "text") -> str:
    """A fenced block."""
    lines = safe(text)
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}{language}\n{lines}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
