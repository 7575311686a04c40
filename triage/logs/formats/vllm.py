"""The prefixes of vLLM's processes and of Ray's workers, and vLLM's record prefix.

    (Worker_PP1 pid=30956) ERROR 11-29 14:34:04 [multiproc_executor.py:1063] text      V1
    (VllmWorkerProcess pid=139) ERROR 08-13 15:22:52 multiproc_worker_utils.py:226] text   V0
    (EngineCore_DP0 pid=4) (RayWorkerWrapper pid=5, ip=10.1.1.7) text [repeated 7x across cluster]
    (pid=2433683, ip=10.1.1.7) text       (raylet) text

The prefix stands on every line of a record, and the lines are joined with CR LF. The time has no year.
"""

from __future__ import annotations

import re
from functools import lru_cache

from triage.logs.formats import times
from triage.logs.reading.line import NO_RANKS, Line

STARTS = "(DIWECT"
ERRORS = (r"(?:ERROR|CRITICAL)\b{escape} \d\d-\d\d \d\d:",)

_PROCESS = re.compile(
    r"\((?!\))([A-Za-z_][\w.:-]{0,80}(?=[ ,)]))?(?:,? ?(?:(rank)=(\d{1,6})|(?:node_)?rank=\d{1,6}))?"
    r"(?:,? ?pid=(\d{1,10}))?(?:, ip=([\w.:]{2,64}))?\) ?"
)
_KNOWN = re.compile(
    r"(?:EngineCore|Worker|VllmWorker|APIServer|ApiServer|RayWorkerWrapper|MainProcess|raylet)(?:_|-|$)"
)
_RECORD = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))? "
    r"\[?([\w./ <>-]{1,200}:\d{1,6})\] ?"
)
_LABELS = re.compile(r"_((?:DP|PP|PCP|TP|DCP|EP|ETP)\d{1,6})(?=_|$)")
_NUMBERED = re.compile(r"VllmWorker-(\d{1,6})$")
_REPEATED = re.compile(r" ?\[repeated (\d{1,6})x across cluster\][^\n]{0,200}$")


def peel(line: Line) -> bool:
    text = line.text
    if text[0] == "(":
        match = _PROCESS.match(text)
        if match is None or not (match[4] or _KNOWN.match(match[1] or "")):
            return False
        name, rank, pid = match[1] or "", match[3], match[4]
        line.process = name
        if pid:
            line.tag_pid = int(pid)
        ranks = labels(name) or (frozenset((f"rank{int(rank)}",)) if rank else NO_RANKS)
        if ranks:
            line.ranks = ranks
        if match[5]:
            line.host = match[5]
        line.repeating = True
        line.text = text[match.end() :]
        if line.text.endswith("]") and "across cluster]" in line.text[-240:]:
            _count(line)
        return True
    match = _RECORD.match(text)
    if match is None:
        return False
    line.level, line.site = match[1], match[6]
    line.at(times.yearless(int(match[2]), int(match[3]), match[4], match[5]), dated=False)
    line.head = line.repeating = True
    line.text = text[match.end() :]
    return True


@lru_cache(maxsize=4096)
def labels(name: str) -> frozenset[str]:
    """`Worker_DP2_TP3_EP11` -> DP2, TP3, EP11. `VllmWorker-1` -> rank1: a number over all processes."""
    if not name.startswith(("Worker", "VllmWorker")):
        return NO_RANKS
    numbered = _NUMBERED.match(name)
    if numbered:
        return frozenset((f"rank{int(numbered[1])}",))
    return frozenset(_LABELS.findall(name))


def _count(line: Line) -> None:
    tail = line.text[-240:]
    match = _REPEATED.search(tail)
    if match:
        line.repeat = int(match[1]) + 1
        line.text = line.text[: len(line.text) - len(tail) + match.start()]
