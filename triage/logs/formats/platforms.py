"""What cloud consoles, CI systems and launchers put in front of a line.

ERROR 2026-04-05T00:01:19.209237575Z text         Google Cloud, newest first, indentation stripped
May 16, 2026 @ 20:46:57.892    text               Kibana
[2026-05-20T05:24:25Z] text                       Buildkite
Thu Jan 23 11:55:50 2026[1,1]<stderr>:text        mpirun
[1,3]<stdout>: text                               mpirun
3: text                                           srun --label
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.logs.formats import times
from triage.logs.reading.line import Line

STARTS = "DEINWCAFJMOST["

_GCP = re.compile(
    r"(DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY) {1,4}"
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)(?: |$)"
)
_KIBANA = re.compile(r"([A-Z][a-z]{2}) {1,2}(\d{1,2}), (\d{4}) @ (\d\d:\d\d:\d\d)\.(\d{3}) {0,4}")
_BUILDKITE = re.compile(r"\[(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)\] ?")
_MPIRUN = re.compile(
    r"(?:[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4}))?"
    r"\[\d{1,6},(\d{1,6})\]<(?:stdout|stderr|stddiag)>: ?"
)
_SRUN = re.compile(r"(\d{1,5}): ")


def peel(line: Line) -> bool:
    text = line.text
    if text[0] == "[":
        match = _BUILDKITE.match(text)
        if match is not None:
            line.at(times.iso(match[1], match[2], match[3], match[4]))
            line.text = text[match.end() :]
            line.enveloped = True
            return True
    else:
        match = _GCP.match(text)
        if match is not None:
            # the console's severity only says which stream the line came from
            line.at(times.iso(match[2], match[3], match[4], match[5]))
            line.text = text[match.end() :]
            line.enveloped = True
            return True
        match = _KIBANA.match(text)
        if match is not None and match[1] in times.MONTHS:
            date = f"{match[3]}-{times.MONTHS[match[1]]:02}-{int(match[2]):02}"
            line.at(times.iso(date, match[4], match[5]))
            line.text = text[match.end() :]
            line.enveloped = True
            return True
    match = _MPIRUN.match(text)
    if match is None:
        return False
    if match[1] in times.MONTHS:
        line.at(times.seconds(f"{match[4]}-{times.MONTHS[match[1]]:02}-{int(match[2]):02}", match[3]))
    line.ranks = frozenset((f"rank{int(match[5])}",))
    line.repeating = True
    line.text = text[match.end() :]
    return True


class Srun:
    """`3: text`: believed only where nearly every line begins so."""

    STARTS = "0123456789"

    @staticmethod
    def applies(sample: Sequence[str]) -> bool:
        return sum(_SRUN.match(text) is not None for text in sample) > 0.9 * len(sample)

    @staticmethod
    def peel(line: Line) -> bool:
        match = _SRUN.match(line.text)
        if match is None or line.repeating:
            return False
        line.ranks = line.ranks or frozenset((f"rank{int(match[1])}",))
        line.repeating = True
        line.text = line.text[match.end() :]
        return True


class Quoted:
    """`> text`: a log that was pasted into a message."""

    STARTS = ">"

    @staticmethod
    def applies(sample: Sequence[str]) -> bool:
        return sum(text.startswith(">") for text in sample) > 0.9 * len(sample)

    @staticmethod
    def peel(line: Line) -> bool:
        line.text = line.text[2:] if line.text.startswith("> ") else line.text[1:]
        return True
