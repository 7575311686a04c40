"""The prefix of llama.cpp's programs: minutes.seconds.milliseconds.microseconds since the start, and a level.

    0.00.004.885 E srv  llama_server: exiting due to model loading error
    E gguf_init_from_file: failed to open GGUF file 'm.gguf'        with --no-log-timestamps

Only the first line of a record has it, and it tells no time of day. Releases before 2026 print no prefix
unless they are told to (--log-prefix, --log-timestamps). With --log-jsonl a record is a JSON object.
"""

from __future__ import annotations

import re

from triage.logs.reading.line import Line

STARTS = "0123456789IWED"
ERRORS = (
    r"\d\.\d\d\.\d{3}\.\d{3}{escape} {escape}E ",
    r"E (?:(?:srv|slot|cmn|que|spec) |[a-z]{1,20}_\w{1,60}: )",
)

LEVELS = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR"}

_SINCE_START = re.compile(r"\d{1,7}\.\d\d\.\d{3}\.\d{3} ([DIWE]) ")
_LEVEL = re.compile(r"([DIWE]) (?=(?:srv|slot|cmn|que|spec) |[a-z]{1,20}_\w{1,60}: )")


def peel(line: Line) -> bool:
    match = _SINCE_START.match(line.text) or _LEVEL.match(line.text)
    if match is None:
        return False
    line.level = LEVELS[match[1]]
    line.head = True
    line.text = line.text[match.end() :]
    return True
