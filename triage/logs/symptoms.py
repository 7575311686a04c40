"""Errors that are one line: what to look for, and what it means.

A pattern is tried only on lines that contain its needle; the needles of all patterns are one regular
expression, so that a line without any of them costs one search.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from triage.logs.line import MATCH_LIMIT, NO_RANKS, Line
from triage.logs.model import Fault, FaultKind, Position
from triage.logs.weight import Weighed, Weight

MAX_MESSAGE = 4000

SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 31: "SIGSYS",
}  # fmt: skip


@dataclass(frozen=True)
class Hit:
    """A fault that one line tells, before anything is known of its run."""

    fault: Fault
    weighed: Weighed
    key: tuple[object, ...] = ()  # what makes two lines tell of the same event; () when only equality does
    worker: str = ""  # the engine's name of the process that it tells of
    process: int | None = None  # ... or its number over all processes


Make = Callable[["Symptom", Line, "re.Match[str]"], "Hit | None"]


@dataclass(frozen=True)
class Symptom:
    needle: str
    pattern: re.Pattern[str]
    kind: FaultKind
    type: str
    weight: Weight
    because: str = ""
    make: Make | None = None
    kernel: bool = False  # only the kernel says so

    def hit(self, line: Line, match: re.Match[str], type: str = "", message: str = "") -> Hit:
        fault = Fault(
            kind=self.kind,
            type=type or self.type,
            message=(message or line.text.strip())[:MAX_MESSAGE],
            position=Position("", line.number, line.cursor),
            time=line.time,
            pid=line.pid if line.pid is not None else line.tag_pid,
            ranks=line.ranks,
            header="",
            count=line.repeat,
        )
        return Hit(fault, Weighed(self.weight, self.because))


def _oom(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = symptom.hit(line, match)
    pid = int(match["pid"])
    return replace(hit, fault=replace(hit.fault, pid=pid, ranks=NO_RANKS), key=("oom-kill", pid))


def _xid(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    number = int(match["xid"])
    hit = symptom.hit(
        line, match, type=f"{match['kind']} {number}", message=line.text[match.start() :].strip()
    )
    if number == 45:
        hit = replace(hit, weighed=Weighed(Weight.CONSEQUENCE, "Xid 45 follows of another GPU error"))
    pid = re.search(r"\bpid='?(\d{1,10})", line.text[:2000])
    return replace(hit, fault=replace(hit.fault, pid=int(pid[1]) if pid else None, ranks=NO_RANKS))


def _of_process(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = symptom.hit(line, match)
    return replace(hit, fault=replace(hit.fault, pid=int(match["pid"]), ranks=NO_RANKS))


def death(code: str) -> tuple[str, str]:
    """The type of an exit code as Python reports it (negative: a signal), and what it says in words."""
    if not code or code == "None":
        return "died", "no exit code is known"
    number = int(code)
    if number < 0:
        name = SIGNALS.get(-number, f"signal {-number}")
        return name, f"killed by {name}"
    if number > 128 and number - 128 in SIGNALS:
        return SIGNALS[number - 128], f"killed by {SIGNALS[number - 128]}"
    return "exit-code", f"ended with exit status {number}"


def _died(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    part = match.groupdict()
    type, words = death(part.get("code") or "")
    hit = symptom.hit(line, match, type=type)
    pid = part.get("pid")
    fault = replace(hit.fault, pid=int(pid) if pid else None, ranks=NO_RANKS)
    index = part.get("index")
    return replace(
        hit,
        fault=fault,
        weighed=Weighed(symptom.weight, f"a child process died: {words}"),
        worker=part.get("worker") or "",
        process=int(index) if index else None,
    )


def _main_exited(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    code, status = match["code"], match["status"]
    number = int(match["number"])
    if code == "exited" and number == 0:
        return None
    if code == "exited" and 200 <= number <= 245:
        hit = symptom.hit(line, match, type=status.lower())
        reason = f"systemd could not start the program: {number}/{status}"
        return replace(hit, weighed=Weighed(Weight.ROOT, reason), key=("service", "exec"))
    type = {"exited": "exit-code", "killed": "signal", "dumped": "core-dump"}[code]
    hit = symptom.hit(line, match, type=type)
    fatal = code == "dumped" or status in ("SEGV", "ABRT", "BUS", "ILL", "FPE", "TRAP", "SYS")
    if fatal:
        hit = replace(hit, weighed=Weighed(Weight.DEATH, f"the main process was killed by SIG{status}"))
    return replace(hit, key=("service", type))


def _result(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    result = match["result"]
    hit = replace(symptom.hit(line, match, type=result), key=("service", result))
    if result == "oom-kill":
        return replace(hit, weighed=Weighed(Weight.ROOT, "systemd says that the OOM killer ended it"))
    if result in ("timeout", "watchdog"):
        return replace(hit, weighed=Weighed(Weight.TIMEOUT, f"systemd gave up waiting: {result}"))
    if result == "start-limit-hit":
        return replace(hit, weighed=Weighed(Weight.CONSEQUENCE, "it had failed several times before"))
    return hit


def _exec(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = symptom.hit(line, match, type=match["step"].lower())
    return replace(hit, key=("service", "exec"))


def _watchdog(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    return None if "self.soft=True" in line.text[:2000] else symptom.hit(line, match)


def _thread_end(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = symptom.hit(line, match, message=match["said"][:MAX_MESSAGE])
    if "CUDA error" in match["said"]:
        return replace(hit, weighed=Weighed(Weight.ROOT))
    return hit


def _said(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    return symptom.hit(line, match, message=match["said"])


_UNIT = r"^(?P<unit>[\w@.\\:-]{1,255}\.(?:service|scope|socket|mount)): "

SYMPTOMS: tuple[Symptom, ...] = (
    # the kernel
    Symptom(
        "Killed process ",
        re.compile(r"(?:Out of memory|Memory cgroup out of memory|Tasks in \S{1,300} are going to be killed.{0,80}): "
                   r"Killed process (?P<pid>\d{1,10}) \((?P<name>[^)]{1,64})\)"),
        "kernel", "oom-kill", Weight.ROOT, "the kernel's OOM killer ended a process", _oom,
    ),
    Symptom(
        "oom-kill:constraint=",
        re.compile(r"oom-kill:constraint=.{0,2000}?\btask=(?P<name>[^,]{1,64}),pid=(?P<pid>\d{1,10})"),
        "kernel", "oom-kill", Weight.ROOT, "the kernel's OOM killer ended a process", _oom,
    ),
    Symptom(
        "Xid (", re.compile(r"(?P<kind>S?Xid) \([^)]{1,80}\): (?P<xid>\d{1,4})"),
        "kernel", "Xid", Weight.ROOT, "the driver reported an error of the GPU", _xid,
    ),
    Symptom(
        "fallen off the bus", re.compile(r"GPU .{0,80}has fallen off the bus"),
        "kernel", "gpu-lost", Weight.ROOT, "a GPU is gone from the bus", kernel=True,
    ),
    Symptom(
        "segfault at", re.compile(r"(?P<name>[^\[\]]{1,64})\[(?P<pid>\d{1,10})\]: segfault at "),
        "kernel", "segfault", Weight.ROOT, "the kernel saw a process fault", _of_process, kernel=True,
    ),
    Symptom(
        "traps: ", re.compile(r"traps: (?P<name>[^\[\]]{1,64})\[(?P<pid>\d{1,10})\] (?:general protection|trap )"),
        "kernel", "trap", Weight.ROOT, "the kernel saw a process fault", _of_process, kernel=True,
    ),
    Symptom(
        "PCIe Bus Error", re.compile(r"PCIe Bus Error: severity=Uncorrect(?:ed|able) \((?:Fatal|Non-Fatal)\)"),
        "kernel", "pcie-error", Weight.ROOT, "the PCIe bus reported an error", kernel=True,
    ),
    Symptom(
        "AER: ", re.compile(r"AER: .{0,200}(?:[Ff]atal|[Uu]ncorrect)"),
        "kernel", "pcie-error", Weight.ROOT, "the PCIe bus reported an error", kernel=True,
    ),
    # the service manager
    Symptom(
        "Main process exited", re.compile(
            _UNIT + r"Main process exited, code=(?P<code>exited|killed|dumped), status=(?P<number>\d{1,3})/(?P<status>[\w-]{1,40})"
        ),
        "service", "signal", Weight.SERVICE, "how the service manager saw the end", _main_exited,
    ),
    Symptom(
        "Failed with result", re.compile(_UNIT + r"Failed with result '(?P<result>[\w-]{1,40})'"),
        "service", "", Weight.SERVICE, "how the service manager saw the end", _result,
    ),
    Symptom(
        "killed by the OOM killer", re.compile(_UNIT + r"A process of this unit has been killed by the OOM killer"),
        "service", "oom-kill", Weight.ROOT, "systemd says that the OOM killer ended a process",
        lambda symptom, line, match: replace(symptom.hit(line, match), key=("service", "oom-kill")),
    ),
    Symptom(
        "due to memory", re.compile(r"Killed /\S{1,300} due to memory (?:pressure|used)"),
        "service", "oom-kill", Weight.ROOT, "systemd-oomd ended the service",
        lambda symptom, line, match: replace(symptom.hit(line, match), key=("service", "oom-kill")),
    ),
    Symptom(
        "Failed at step ", re.compile(r"Failed at step (?P<step>[A-Z_]{2,30}) spawning (?P<said>.{1,400})"),
        "service", "exec", Weight.ROOT, "systemd could not start the program", _exec,
    ),
    Symptom(
        "operation timed out", re.compile(_UNIT + r"(?:[Ss]tart|[Rr]eload|start-pre|start-post) operation timed out"),
        "service", "timeout", Weight.TIMEOUT, "systemd gave up waiting for the start",
        lambda symptom, line, match: replace(symptom.hit(line, match), key=("service", "timeout")),
    ),
    Symptom(
        "Watchdog timeout (limit", re.compile(_UNIT + r"Watchdog timeout \(limit"),
        "service", "watchdog", Weight.TIMEOUT, "systemd heard nothing from the service",
        lambda symptom, line, match: replace(symptom.hit(line, match), key=("service", "watchdog")),
    ),
    Symptom(
        "repeated too quickly", re.compile(_UNIT + r"Start request repeated too quickly"),
        "service", "start-limit-hit", Weight.CONSEQUENCE, "it had failed several times before",
        lambda symptom, line, match: replace(symptom.hit(line, match), key=("service", "start-limit-hit")),
    ),
    Symptom(
        "Control process exited", re.compile(
            _UNIT + r"Control process exited, code=(?P<code>exited|killed|dumped), status=(?P<number>\d{1,3})/(?P<status>[\w-]{1,40})"
        ),
        "service", "exit-code", Weight.SERVICE, "a command before or after the service failed",
    ),
    # children
    Symptom(
        "died unexpectedly", re.compile(
            r"(?:Worker|[Ee]ngine core) proc(?:ess)? (?P<worker>[\w.-]{1,80}) died unexpectedly"
            r"(?: \(exit code: (?P<code>-?\d{1,6}|None)\))?"
        ),
        "signal", "died", Weight.DEATH, "", _died,
    ),
    Symptom(
        "scheduler died during", re.compile(
            r"Rank (?P<index>\d{1,6}) scheduler died during initialization \(exit code: (?P<code>-?\d{1,6}|None)\)"
        ),
        "signal", "died", Weight.DEATH, "", _died,
    ),
    Symptom(
        "scheduler is dead", re.compile(r"Rank (?P<index>\d{1,6}) scheduler is dead"),
        "signal", "died", Weight.DEATH, "", _died,
    ),
    Symptom(
        "crashed with exit code", re.compile(
            r"Subprocess (?P<worker>\S{1,80}) \(pid=(?P<pid>\d{1,10})\) crashed with exit code (?P<code>-?\d{1,6})"
        ),
        "signal", "died", Weight.DEATH, "", _died,
    ),
    Symptom(
        "failed (exitcode:", re.compile(
            r"failed \(exitcode: (?P<code>-?\d{1,6})\) local_rank: (?P<index>\d{1,6}) \(pid: (?P<pid>\d{1,10})\)"
        ),
        "signal", "died", Weight.DEATH, "", _died,
    ),
    Symptom(
        "memory monitor", re.compile(r"(?i)killed .{0,200}memory monitor|memory monitor .{0,120}kill"),
        "signal", "ray-memory-monitor", Weight.ROOT, "Ray's memory monitor ended a worker",
    ),
    Symptom(
        "Segmentation fault", re.compile(r"^(?:\S{1,200}: line \d{1,7}: +\d{1,10} )?Segmentation fault(?: {0,20}\(core dumped\))?"),
        "signal", "SIGSEGV", Weight.DEATH, "a process was killed by SIGSEGV",
    ),
    Symptom(
        "Bus error", re.compile(r"^(?:\S{1,200}: line \d{1,7}: +\d{1,10} )?Bus error(?: {0,20}\(core dumped\))?"),
        "signal", "SIGBUS", Weight.DEATH, "a process was killed by SIGBUS",
    ),
    Symptom(
        "Illegal instruction", re.compile(r"^(?:\S{1,200}: line \d{1,7}: +\d{1,10} )?Illegal instruction(?: {0,20}\(core dumped\))?"),
        "signal", "SIGILL", Weight.DEATH, "a process was killed by SIGILL",
    ),
    Symptom(
        "Aborted", re.compile(r"^(?:\S{1,200}: line \d{1,7}: +\d{1,10} )?Aborted(?: {0,20}\(core dumped\))?\s*(?:\S{1,200}.{0,400})?$"),
        "signal", "SIGABRT", Weight.DEATH, "a process was killed by SIGABRT",
    ),
    Symptom(
        "Killed", re.compile(r"^(?:\S{1,200}: line \d{1,7}: +\d{1,10} )?Killed(?: +\S{1,200}.{0,400})?\s*$"),
        "signal", "SIGKILL", Weight.DEATH, "a process was killed by SIGKILL; by whom is not said",
    ),
    Symptom(
        " received at time=", re.compile(r"\*\*\* (?P<name>SIG(?:SEGV|ABRT|BUS|ILL|FPE)) received at time="),
        "native", "signal", Weight.ROOT, "a process caught a fatal signal",
        lambda symptom, line, match: symptom.hit(line, match, type=match["name"]),
    ),
    # what the engine says when a child has failed
    Symptom(
        "igquit from a child", re.compile(r"Received sigquit from a child process"),
        "error", "child-failed", Weight.CONSEQUENCE, "the parent was told that a child failed",
    ),
    Symptom(
        "SIGQUIT received", re.compile(r"SIGQUIT received\. signum="),
        "error", "child-failed", Weight.CONSEQUENCE, "the parent was told that a child failed",
    ),
    Symptom(
        "Initialization failed. Please see", re.compile(r"Initialization failed\. Please see the error messages above"),
        "error", "child-failed", Weight.CONSEQUENCE, "it refers to a cause that was reported elsewhere",
    ),
    Symptom(
        "get a response from detokenizer", re.compile(r"couldn't get a response from detokenizer"),
        "error", "no-answer", Weight.CONSEQUENCE, "it waited for the scheduler",
    ),
    # waiting
    Symptom(
        "watchdog timeout", re.compile(r"(?i)(?:\w{1,60} )?watchdog timeout \(self\.watchdog_timeout="),
        "error", "watchdog-timeout", Weight.TIMEOUT, "a watchdog ended a process that made no progress", _watchdog,
    ),
    Symptom(
        "Watchdog timeout", re.compile(r"Watchdog timeout \(self\.watchdog_timeout="),
        "error", "watchdog-timeout", Weight.TIMEOUT, "a watchdog ended a process that made no progress", _watchdog,
    ),
    Symptom(
        "collective operation timeout", re.compile(r"(?P<said>Watchdog caught collective operation timeout: .{1,600})"),
        "error", "collective-timeout", Weight.TIMEOUT, "a collective waited for a rank that did not come", _said,
    ),
    Symptom(
        "watchdog thread terminated", re.compile(r"[Pp]rocess group watchdog thread terminated with exception: (?P<said>.{1,2000})"),
        "error", "nccl-watchdog", Weight.CONSEQUENCE, "the NCCL watchdog reports an earlier failure", _thread_end,
    ),
    Symptom(
        "NCCL operations have failed", re.compile(r"Some NCCL operations have failed or timed out"),
        "error", "nccl-watchdog", Weight.CONSEQUENCE, "the NCCL watchdog reports an earlier failure",
    ),
    Symptom(
        "client socket has timed out", re.compile(r"(?P<said>The client socket has timed out after .{1,400})"),
        "error", "store-timeout", Weight.TIMEOUT, "it waited for another process", _said,
    ),
    Symptom(
        "recvValue failed", re.compile(r"recvValue failed"),
        "error", "store-closed", Weight.CONSEQUENCE, "the process that held the store is gone",
    ),
    # native code
    Symptom(
        "' failed.", re.compile(r"(?P<said>[^\s:]{1,300}:\d{1,7}: .{0,2000}Assertion [`'].{1,1000}' failed\.)"),
        "native", "assertion", Weight.ROOT, "native code found its state impossible", _said,
    ),
    Symptom(
        "` failed.", re.compile(r"(?P<said>[^\s:]{1,300}:\d{1,7}: .{0,2000}Assertion `.{1,1000}` failed\.)"),
        "native", "assertion", Weight.ROOT, "device code found its input impossible", _said,
    ),
    Symptom(
        "Assertion failed: ", re.compile(r"^(?P<said>Assertion failed: .{1,1000})"),
        "native", "assertion", Weight.ROOT, "native code found its state impossible", _said,
    ),
    Symptom(
        "Check failed: ", re.compile(r"(?P<said>Check failed: .{1,1000})"),
        "native", "check-failed", Weight.ROOT, "native code found its state impossible",
        lambda symptom, line, match: _said(symptom, line, match) if line.level == "CRITICAL" else None,
    ),
    Symptom(
        "LLVM ERROR", re.compile(r"^(?P<said>LLVM ERROR: .{1,1000})"),
        "native", "llvm-error", Weight.ROOT, "the compiler gave up", _said,
    ),
    Symptom(
        " fatal ", re.compile(r"^(?P<said>(?:ptxas|nvcc|cicc|nvlink) fatal {1,6}: .{1,1000})"),
        "error", "compiler-error", Weight.ROOT, "the compiler gave up", _said,
    ),
    # the start itself
    Symptom(
        ": error: ", re.compile(
            r"^(?:[\w./-]{1,120}|[\w./-]{1,120} [\w-]{1,40}): error: (?P<said>(?:unrecognized arguments|ambiguous option|argument |"
            r"the following arguments are required|one of the arguments|invalid choice|expected ).{0,1500})"
        ),
        "error", "argument-error", Weight.ROOT, "the command line was refused", _said,
    ),
    Symptom(
        "[Errno 98]", re.compile(r"^(?P<said>\[Errno 98\] error while attempting to bind on address.{0,300})"),
        "error", "port-in-use", Weight.ROOT, "the address was taken", _said,
    ),
    Symptom(
        "[Errno 98]", re.compile(r"^ERROR: {1,6}(?P<said>\[Errno 98\] .{0,300})"),
        "error", "port-in-use", Weight.ROOT, "the address was taken", _said,
    ),
    Symptom(
        ": No module named ", re.compile(r"^(?P<said>\S{0,300}python[\d.]{0,6}: No module named \S{1,300})$"),
        "error", "no-module", Weight.ROOT, "the interpreter does not have the module", _said,
    ),
    Symptom(
        "can't open file", re.compile(r"^(?P<said>\S{0,300}python[\d.]{0,6}: can't open file .{1,400})"),
        "error", "no-file", Weight.ROOT, "the interpreter does not find the script", _said,
    ),
    Symptom(
        "error while loading shared libraries", re.compile(r"(?P<said>\S{1,300}: error while loading shared libraries: .{1,400})"),
        "error", "shared-library", Weight.ROOT, "the loader could not start the program", _said,
    ),
    Symptom(
        "' not found (required by", re.compile(r"(?P<said>\S{1,300}: version `[\w.]{1,60}' not found \(required by .{1,400})"),
        "error", "symbol-version", Weight.ROOT, "a shared library is older than the program", _said,
    ),
)  # fmt: skip

NEEDLES: tuple[str, ...] = tuple(dict.fromkeys(symptom.needle for symptom in SYMPTOMS))
_BY_NEEDLE = {needle: tuple(each for each in SYMPTOMS if each.needle == needle) for needle in NEEDLES}


def hits(line: Line) -> Hit | None:
    """What a line that holds a needle tells, by the first pattern that fits."""
    text = line.text[:MATCH_LIMIT]
    for needle, symptoms in _BY_NEEDLE.items():
        if needle not in text:
            continue
        for symptom in symptoms:
            if symptom.kernel and not line.kernel:
                continue
            match = symptom.pattern.search(text)
            if match is not None:
                return symptom.make(symptom, line, match) if symptom.make else symptom.hit(line, match)
    return None
