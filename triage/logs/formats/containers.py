"""What container runtimes put around a line.

{"log":"text\\n","stream":"stderr","time":"2026-06-24T12:05:21.085308861Z"}     docker's json-file
2026-06-24T12:05:21.085308861+02:00 stderr F text                              CRI; P marks a cut line
2026-06-24T12:05:21.085308861Z text                                            kubectl/docker --timestamps
[pod/x/y] text                                                                 kubectl --prefix
vllm-service  | text                                                           compose
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from triage.logs.formats import times
from triage.logs.reading.line import Line

STARTS = "0123456789["
PARTS = (r"std(?:out|err) P ", r'[^n\\]\\*",\s?\\*"stream\\*":')

_CRI = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) (?:(stdout|stderr) ([FP])(?: |$))?"
)
_POD = re.compile(r"\[(?:pod|container)/([^\]\s]{1,300})\] ")
_COMPOSE = re.compile(r"([a-zA-Z0-9][\w.-]{0,100}) +\| ?")


def peel(line: Line) -> bool:
    text = line.text
    if text[0] == "[":
        match = _POD.match(text)
        if match is None:
            return False
        line.identifier = line.identifier or match[1]
    else:
        match = _CRI.match(text)
        if match is None:
            return False
        line.at(times.iso(match[1], match[2], match[3], match[4]))
        line.part = match[6] == "P"
    line.text = text[match.end() :]
    line.enveloped = True
    line.author = line.author or "program"
    return True


def from_json(line: Line, fields: Mapping[str, Any]) -> bool:
    """Read one line of docker's json-file; a `log` without newline is the beginning of a longer one."""
    text = fields.get("log")
    if not isinstance(text, str) or not ("stream" in fields or "time" in fields):
        return False
    line.part = not text.endswith("\n")
    line.text = text[:-1] if not line.part else text
    line.at(times.stamp(str(fields.get("time", ""))[:64]))
    line.enveloped = True
    line.author = line.author or "program"
    return True


class Compose:
    """`name  | text`: told from other text with a bar only because most lines of the log have it."""

    STARTS = ""

    @staticmethod
    def applies(sample: Sequence[str]) -> bool:
        return sum(_COMPOSE.match(text) is not None for text in sample) > 0.8 * len(sample)

    @staticmethod
    def peel(line: Line) -> bool:
        match = _COMPOSE.match(line.text)
        if match is None:
            return False
        line.identifier = line.identifier or match[1]
        line.text = line.text[match.end() :]
        line.enveloped = True
        line.author = line.author or "program"
        return True
