"""Prefixes of native loggers: torch, glog (Ray, gloo), NCCL, TensorRT-LLM.

[rank6]:[E207 01:29:36.730311765 ProcessGroupNCCL.cpp:616] text
[rank0]: Traceback (most recent call last):
[2026-03-27 22:19:39,802 E 336 336] (raylet) logging.cc:484: text
E20260329 10:00:00.123456 12345 file.cc:12] text
host:4711:4802 [0] NCCL WARN text
[TensorRT-LLM][ERROR] text
"""

from __future__ import annotations

import re

from triage.logs.formats import times
from triage.logs.reading.line import Line

STARTS = "[IWEFabcdefghijklmnopqrstuvwxyz0123456789"
ERRORS = (
    r"\[[EFC](?:\d{3,4} \d\d:\d\d:\d\d\.| [\w./+-]{1,120}:\d)",
    r",\d{3} [EFC] \d{1,10} \d{1,10}\] ",
    r"[EF]\d{4,8} \d\d:\d\d:\d\d\.\d",
    r"NCCL ERROR ",
    r"\[(?:TensorRT-LLM|TRT-LLM|TensorRT)\]\s?\[(?i:error|critical)\]",
)

LEVELS = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "C": "CRITICAL"}

_RANK = re.compile(r"\[rank(\d{1,6})\]:? ?")
_TORCH = re.compile(
    r"\[([DIWEFC])(?:(\d\d?)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9}) (?:\d{1,10} )?| )([\w./+-]{1,120}:\d{1,6})\] ?"
)
_NUMBERED = re.compile(r"(?:\[PG [^\]\n]{0,80}?)?\[?Rank (\d{1,6})\]")
_RAYLET = re.compile(
    r"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3}) ([DIWEFC]) (\d{1,10}) \d{1,10}\] (?:\(\w{1,40}\) )?"
    r"([\w./-]{1,120}\.(?:cc|h|cpp):\d{1,6}): ?"
)
_GLOG = re.compile(
    r"([IWEF])(\d{4})?(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{6}) {1,9}(\d{1,10}) ([\w./-]{1,120}:\d{1,6})\] ?"
)
_NCCL = re.compile(
    r"([\w.-]{1,120}):(\d{1,10}):(\d{1,10}) \[\d{1,4}\] (?:[\w./-]{1,80}:\d{1,6} )?"
    r"(?=NCCL (INFO|WARN|ERROR|TRACE) )"
)
_TRT = re.compile(r"\[(?:TensorRT-LLM|TRT-LLM|TensorRT)\]\s?\[(\w{1,12})\] ?")


def peel(line: Line) -> bool:
    text = line.text
    if text[0] == "[":
        return _rank(line) or _torch(line) or _raylet(line) or _trt(line)
    return _nccl(line) if text[0].islower() or text[0].isdigit() else _glog(line)


def _rank(line: Line) -> bool:
    match = _RANK.match(line.text)
    if match is None:
        return False
    # the rank's own labels say more than its number
    line.ranks = line.ranks or frozenset((f"rank{int(match[1])}",))
    line.repeating = True
    # `[rank0]: ` with the space that belongs to it; `[rank0]:   File` keeps two
    line.text = line.text[match.end() :]
    return True


def _torch(line: Line) -> bool:
    match = _TORCH.match(line.text)
    if match is None:
        return False
    line.level, line.site = LEVELS[match[1]], match[6]
    if match[2]:
        line.at(times.yearless(int(match[2]), int(match[3]), match[4], match[5]), dated=False)
    line.head = True
    line.text = line.text[match.end() :]
    if not line.ranks:
        numbered = _NUMBERED.match(line.text)
        if numbered is not None:
            line.ranks = frozenset((f"rank{int(numbered[1])}",))
    return True


def _raylet(line: Line) -> bool:
    match = _RAYLET.match(line.text)
    if match is None:
        return False
    line.level, line.site = LEVELS[match[4]], match[6]
    line.tag_pid = line.tag_pid or int(match[5])
    line.at(times.iso(match[1], match[2], match[3]))
    line.head = True
    line.text = line.text[match.end() :]
    return True


def _glog(line: Line) -> bool:
    match = _GLOG.match(line.text)
    if match is None:
        return False
    line.level, line.site = LEVELS[match[1]], match[8]
    if match[2]:
        line.at(times.iso(f"{match[2]}-{match[3]}-{match[4]}", match[5], match[6]))
    else:
        line.at(times.yearless(int(match[3]), int(match[4]), match[5], match[6]), dated=False)
    line.tag_pid = line.tag_pid or int(match[7])
    line.head = True
    line.text = line.text[match.end() :]
    return True


def _nccl(line: Line) -> bool:
    match = _NCCL.match(line.text)
    if match is None:
        return False
    line.tag_pid = line.tag_pid or int(match[2])
    line.level = "WARNING" if match[4] == "WARN" else match[4]
    line.head = line.repeating = True
    line.text = line.text[match.end() :]
    return True


def _trt(line: Line) -> bool:
    match = _TRT.match(line.text)
    if match is None:
        return False
    line.level = match[1].upper()
    line.head = True
    line.text = line.text[match.end() :]
    return True
