"""What reads more off a line of failure than its text: the few that need code, by name.

Each takes the entry, the line and the match of the entry's pattern, whose named groups it uses, and returns
what the line tells, or None where it is no failure after all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from triage.engines import ENGINES
from triage.logs.faults import xids
from triage.logs.faults.fault_lines import FaultLine, Hit, Reader, compiled
from triage.logs.faults.weight import Weighed, Weight
from triage.logs.reading.line import NO_RANKS, Line

_WORKERS = "|".join(name for engine in ENGINES.values() for name in engine.processes.numbered)
_NUMBERED = rf"(?:{_WORKERS})(\d{{1,6}})$"
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 31: "SIGSYS",
}  # fmt: skip


def death(code: str) -> tuple[str, str]:
    """The type of an exit code as Python reports it (negative: a signal), and what it says in words."""
    if not code or code == "None":
        return "died", "no exit code is known"
    number = int(code)
    signal = -number if number < 0 else number - 128
    if number < 0 or signal in SIGNALS:
        name = SIGNALS.get(signal, f"signal {signal}")
        return name, f"killed by {name}"
    return "exit-code", f"ended with exit status {number}"


def _said(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    return entry.hit(line, message=match["said"])


def _oom(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    return replace(_of_process(entry, line, match), key=("oom-kill", int(match["pid"])))


def _xid(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit | None:
    number = int(match["xid"])
    switch = line.text.startswith("SXid", match.start() - 1)
    if switch and xids.is_more(line.text, match.end()):
        return None
    hit = entry.hit(
        line, type=f"{'S' * switch}Xid {number}", message=line.text[match.start() - switch :].strip()
    )
    weighed = xids.weigh(number, switch, line.text, match.end())
    hit = replace(hit, weighed=weighed or hit.weighed)
    pid = compiled(r".{0,80}\bpid='?(\d{1,10})").match(line.text, match.end())
    return replace(hit, fault=replace(hit.fault, pid=int(pid[1]) if pid else None, ranks=NO_RANKS))


def _of_process(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    hit = entry.hit(line)
    return replace(hit, fault=replace(hit.fault, pid=int(match["pid"]), ranks=NO_RANKS))


def _died(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    part = match.groupdict()
    type, words = death(part.get("code") or "")
    weight = entry.weight if type != "SIGTERM" else Weight.CONSEQUENCE  # somebody ended it
    hit = entry.hit(line, type=type)
    pid, index, worker = part.get("pid"), part.get("index"), part.get("worker") or ""
    number = compiled(_NUMBERED).match(worker)
    return replace(
        hit,
        fault=replace(hit.fault, pid=int(pid) if pid else None, ranks=NO_RANKS),
        weighed=Weighed(weight, f"a child process died: {words}"),
        worker=worker,
        process=int(index) if index else int(number[1]) if number else None,
    )


def _main_exited(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit | None:
    code, status, number = match["code"], match["status"], int(match["number"])
    if (code == "exited" and number == 0) or (code == "killed" and status in ("HUP", "INT", "PIPE", "TERM")):
        return None  # systemd counts these as a clean end
    if code == "exited" and 200 <= number <= 245:
        reason = f"systemd could not start the program: {number}/{status}"
        hit = entry.hit(line, type=status.lower())
        return replace(hit, weighed=Weighed(Weight.ROOT, reason), key=("service", "exec"))
    type = {"exited": "exit-code", "killed": "signal", "dumped": "core-dump"}[code]
    hit = replace(entry.hit(line, type=type), key=("service", type))
    if code == "dumped" or status in ("SEGV", "ABRT", "BUS", "ILL", "FPE", "TRAP", "SYS"):
        return replace(hit, weighed=Weighed(Weight.DEATH, f"the main process was killed by SIG{status}"))
    return hit


def _result(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    result = match["result"]
    hit = replace(entry.hit(line, type=result), key=("service", result))
    if result == "oom-kill":
        return replace(hit, weighed=Weighed(Weight.ROOT, "systemd says that the OOM killer ended it"))
    if result in ("timeout", "watchdog"):
        return replace(hit, weighed=Weighed(Weight.TIMEOUT, f"systemd gave up waiting: {result}"))
    if result == "start-limit-hit":
        return replace(hit, weighed=Weighed(Weight.CONSEQUENCE, "it had failed several times before"))
    return hit


def _exited(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit | None:
    # 0 and the signals with which a container is stopped are no failure
    return None if match["code"] in ("0", "130", "143") else _died(entry, line, match)


def _of_service(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    return replace(entry.hit(line), key=("service", entry.type))


def _exec(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    return replace(entry.hit(line, type=match["step"].lower()), key=("service", "exec"))


def _watchdog(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit | None:
    return None if "self.soft=True" in line.text[:2000] else entry.hit(line)


def _thread_end(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    hit = _said(entry, line, match)
    return replace(hit, weighed=Weighed(Weight.ROOT)) if "CUDA error" in match["said"] else hit


def _nccl_warning(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit | None:
    said = match["said"]
    if "libnccl-net" in said or "NET/Plugin" in said or "NET/OFI" in said:
        return None
    if "Call to ibv_" in said and "Cannot allocate memory" not in said:
        return None
    return _said(entry, line, match)


def _not_imported(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    hit = entry.hit(line, type=match["type"], message=match["said"].strip("'\""))
    return replace(hit, key=("import", match["module"]))


def _check(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit | None:
    return _said(entry, line, match) if line.level == "CRITICAL" else None


def _signal(entry: FaultLine, line: Line, match: re.Match[str]) -> Hit:
    return entry.hit(line, type=match["name"])


READERS: Mapping[str, Reader] = {
    "said": _said,
    "oom-kill": _oom,
    "xid": _xid,
    "of-process": _of_process,
    "died": _died,
    "exited": _exited,
    "signal": _signal,
    "main-exited": _main_exited,
    "result": _result,
    "of-service": _of_service,
    "exec-step": _exec,
    "watchdog": _watchdog,
    "thread-end": _thread_end,
    "nccl-warning": _nccl_warning,
    "critical": _check,
    "not-imported": _not_imported,
}
"""What an entry can name in `read`."""

TYPES: Mapping[str, str] = {
    "xid": "`Xid N`, of a switch `SXid N`",
    "died": "the signal (`SIGKILL`, `SIGSEGV`, ...), `exit-code`, or `died` where nothing is known",
    "exited": "the signal (`SIGKILL`, ...) or `exit-code`",
    "signal": "the signal (`SIGSEGV`, ...)",
    "main-exited": "`exit-code`, `signal`, `core-dump`, or systemd's word for the step (`exec`, ...)",
    "result": "systemd's result (`exit-code`, `signal`, `core-dump`, `oom-kill`, `timeout`, `watchdog`, ...)",
    "exec-step": "systemd's word for the step (`exec`, `chdir`, `user`, ...)",
    "not-imported": "the exception's class",
}
"""The types that a reader finds out, in words; of the others the entry has the type."""
