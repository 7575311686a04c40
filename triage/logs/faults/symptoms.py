"""Errors that are one line: what to look for, and what it means.

A pattern is tried only on lines that contain its needle, once: where the needle stands, or where the
line begins. So a line costs no more than its length, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from triage.engines import ENGINES
from triage.logs.faults import xids
from triage.logs.faults.weight import Weighed, Weight
from triage.logs.model import Fault, FaultKind, Position
from triage.logs.reading.line import MATCH_LIMIT, NO_RANKS, Line
from triage.logs.requests import introduces

MAX_MESSAGE = 4000
_WORKERS = "|".join(name for engine in ENGINES.values() for name in engine.processes.numbered)
_NUMBERED = rf"(?:{_WORKERS})(\d{{1,6}})$"

UNSIGNED = "the log does not tell who wrote this line: text of a request can look the same"

SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 31: "SIGSYS",
}  # fmt: skip


@dataclass(frozen=True)
class Hit:
    """A fault that one line tells, before anything is known of its run.

    `key` is what makes two lines tell of the same event, () when only equality does. The line may name
    the process that it tells of: by the engine's name (`worker`) or its number over all processes.
    """

    fault: Fault
    weighed: Weighed
    key: tuple[object, ...] = ()
    worker: str = ""
    process: int | None = None


Witness = Literal["", "kernel", "manager", "unsigned"]
"""Who can say something: `unsigned` is a shell or `systemctl show`, which never has an engine's prefix."""

_WITNESSES: dict[str, Witness] = {"kernel": "kernel", "service": "manager"}

Make = Callable[["Symptom", Line, "re.Match[str]"], "Hit | None"]


@dataclass(frozen=True)
class Symptom:
    """What a line says that holds `needle`, if `pattern` matches there (or from the line's beginning).

    Without a pattern the needle is enough. `make` reads more off the match than the line's text. What only
    the kernel or the service manager can know is believed of no other program; of a line that nobody signed
    it is taken with doubt, where it is the whole line.
    """

    needle: str
    pattern: str
    kind: FaultKind
    type: str
    weight: Weight
    because: str
    make: Make | None = None
    inside: bool = False  # the pattern begins at the needle
    by: Witness = ""  # where its kind does not say so
    alone: str = ""  # how a line begins that has this inside and no prefix

    @property
    def witness(self) -> Witness:
        return self.by or _WITNESSES.get(self.kind, "")

    def hit(self, line: Line, type: str = "", message: str = "") -> Hit:
        own = self.kind not in ("kernel", "service")  # these speak of others
        fault = Fault(
            kind=self.kind,
            type=type or self.type,
            message=(message or line.text.strip())[:MAX_MESSAGE],
            position=Position("", line.number, line.cursor),
            time=line.time,
            pid=line.writer if own else None,
            ranks=line.ranks if own else NO_RANKS,
            count=line.repeat,
        )
        return Hit(fault, Weighed(self.weight, self.because))


_compiled = lru_cache(maxsize=None)(re.compile)


def hits(line: Line) -> Hit | None:
    """What a line tells, by the first symptom that fits."""
    text = line.text[:MATCH_LIMIT]
    for symptom in SYMPTOMS:
        place = text.find(symptom.needle)
        if place < 0 or not _may_say(symptom, line, text, place):
            continue
        match = _compiled(symptom.pattern).match(text, place if symptom.inside else 0)
        if match is not None:
            hit = symptom.make(symptom, line, match) if symptom.make else symptom.hit(line)
            told = symptom.witness in ("", "unsigned", line.author)
            return hit if told or hit is None else doubted(hit)
    return None


def _may_say(symptom: Symptom, line: Line, text: str, place: int) -> bool:
    """Whether the writer of a line can know what it says, and says it for itself."""
    witness, author = symptom.witness, line.author
    signed = author or line.head or line.repeating
    if witness == author:
        return bool(witness) or not introduces(text[:place])
    if not witness:
        return author != "program" or not introduces(text[:place])
    if witness == "unsigned":
        return not (line.head or author in ("kernel", "manager") or (signed and symptom.kind == "service"))
    if signed:
        return False
    if symptom.alone:
        return _compiled(symptom.alone).match(text) is not None
    return witness == "manager" and not symptom.inside


def doubted(hit: Hit) -> Hit:
    """The same, told by a line of which nobody knows who wrote it."""
    key = (*hit.key, UNSIGNED) if hit.key else ()
    return replace(hit, fault=replace(hit.fault, doubt=UNSIGNED), key=key)


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


def _said(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    return symptom.hit(line, message=match["said"])


def _oom(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    return replace(_of_process(symptom, line, match), key=("oom-kill", int(match["pid"])))


def _xid(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    number = int(match["xid"])
    switch = line.text.startswith("SXid", match.start() - 1)
    if switch and xids.is_more(line.text, match.end()):
        return None
    hit = symptom.hit(
        line, type=f"{'S' * switch}Xid {number}", message=line.text[match.start() - switch :].strip()
    )
    weighed = xids.weigh(number, switch, line.text, match.end())
    hit = replace(hit, weighed=weighed or hit.weighed)
    pid = _compiled(r".{0,80}\bpid='?(\d{1,10})").match(line.text, match.end())
    return replace(hit, fault=replace(hit.fault, pid=int(pid[1]) if pid else None, ranks=NO_RANKS))


def _of_process(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = symptom.hit(line)
    return replace(hit, fault=replace(hit.fault, pid=int(match["pid"]), ranks=NO_RANKS))


def _died(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    part = match.groupdict()
    type, words = death(part.get("code") or "")
    weight = symptom.weight if type != "SIGTERM" else Weight.CONSEQUENCE  # somebody ended it
    hit = symptom.hit(line, type=type)
    pid, index, worker = part.get("pid"), part.get("index"), part.get("worker") or ""
    number = _compiled(_NUMBERED).match(worker)
    return replace(
        hit,
        fault=replace(hit.fault, pid=int(pid) if pid else None, ranks=NO_RANKS),
        weighed=Weighed(weight, f"a child process died: {words}"),
        worker=worker,
        process=int(index) if index else int(number[1]) if number else None,
    )


def _main_exited(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    code, status, number = match["code"], match["status"], int(match["number"])
    if (code == "exited" and number == 0) or (code == "killed" and status in ("HUP", "INT", "PIPE", "TERM")):
        return None  # systemd counts these as a clean end
    if code == "exited" and 200 <= number <= 245:
        reason = f"systemd could not start the program: {number}/{status}"
        hit = symptom.hit(line, type=status.lower())
        return replace(hit, weighed=Weighed(Weight.ROOT, reason), key=("service", "exec"))
    type = {"exited": "exit-code", "killed": "signal", "dumped": "core-dump"}[code]
    hit = replace(symptom.hit(line, type=type), key=("service", type))
    if code == "dumped" or status in ("SEGV", "ABRT", "BUS", "ILL", "FPE", "TRAP", "SYS"):
        return replace(hit, weighed=Weighed(Weight.DEATH, f"the main process was killed by SIG{status}"))
    return hit


def _result(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    result = match["result"]
    hit = replace(symptom.hit(line, type=result), key=("service", result))
    if result == "oom-kill":
        return replace(hit, weighed=Weighed(Weight.ROOT, "systemd says that the OOM killer ended it"))
    if result in ("timeout", "watchdog"):
        return replace(hit, weighed=Weighed(Weight.TIMEOUT, f"systemd gave up waiting: {result}"))
    if result == "start-limit-hit":
        return replace(hit, weighed=Weighed(Weight.CONSEQUENCE, "it had failed several times before"))
    return hit


def _exited(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    # 0 and the signals with which a container is stopped are no failure
    return None if match["code"] in ("0", "130", "143") else _died(symptom, line, match)


def _of_service(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    return replace(symptom.hit(line), key=("service", symptom.type))


def _exec(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    return replace(symptom.hit(line, type=match["step"].lower()), key=("service", "exec"))


def _watchdog(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    return None if "self.soft=True" in line.text[:2000] else symptom.hit(line)


def _thread_end(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = _said(symptom, line, match)
    return replace(hit, weighed=Weighed(Weight.ROOT)) if "CUDA error" in match["said"] else hit


def _nccl_warning(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    said = match["said"]
    if "libnccl-net" in said or "NET/Plugin" in said or "NET/OFI" in said:
        return None
    if "Call to ibv_" in said and "Cannot allocate memory" not in said:
        return None
    return _said(symptom, line, match)


def _not_imported(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit:
    hit = symptom.hit(line, type=match["type"], message=match["said"].strip("'\""))
    return replace(hit, key=("import", match["module"]))


def _check(symptom: Symptom, line: Line, match: re.Match[str]) -> Hit | None:
    return _said(symptom, line, match) if line.level == "CRITICAL" else None


_UNIT = r"(?P<unit>[\w@.\\:-]{1,255}\.(?:service|scope|socket|mount)): "
_STATUS = r"code=(?P<code>exited|killed|dumped), status=(?P<number>\d{1,3})/(?P<status>[\w-]{1,40})"
_RESULTS = "exit-code|signal|core-dump|oom-kill|timeout|watchdog|start-limit-hit|resources|protocol"
_SHELL = r"(?:\S{1,200}: line \d{1,7}: +\d{1,10} )?"  # bash names the script and the pid
# and sets the command apart by a column of spaces: "Aborted request" is no death
_DUMPED = r"(?: {0,20}\(core dumped\)(?: {1,20}\S.{0,400})?| {2,20}\S.{0,400})?\s*$"
_ROOT, _DEATH, _TIMEOUT = Weight.ROOT, Weight.DEATH, Weight.TIMEOUT
_CONSEQUENCE, _SERVICE, _ERROR = Weight.CONSEQUENCE, Weight.SERVICE, Weight.ERROR

_KERNEL: tuple[Symptom, ...] = (
    Symptom("Killed process ", r"Killed process (?P<pid>\d{1,10}) \(", "kernel", "oom-kill", _ROOT,
        "the kernel's OOM killer ended a process", _oom, inside=True,
        alone="(?:Memory cgroup o|O)ut of memory: Killed process "),
    Symptom("oom-kill:constraint=", r"oom-kill:constraint=.{0,4000}?,task=[^,]{1,64},pid=(?P<pid>\d{1,10})",
        "kernel", "oom-kill", _ROOT, "the kernel's OOM killer ended a process", _oom, inside=True,
        alone="oom-kill:constraint="),
    Symptom("Xid (", r"Xid \([^)]{1,80}\): (?P<xid>\d{1,6})", "kernel", "Xid", _ROOT,
        "the driver reported an error of the GPU", _xid, inside=True,
        alone=r"(?:NVRM: |nvidia-nvswitch\d{1,3}: S)Xid \("),
    Symptom("fallen off the bus", r"", "kernel", "gpu-lost", _ROOT, "a GPU is gone from the bus"),
    Symptom("RmInitAdapter failed", "", "kernel", "gpu-init", _ROOT, "the driver could not start a GPU"),
    Symptom("fork rejected by pids controller in ", "", "kernel", "pids-limit", _ROOT,
        "a limit on the number of processes was reached"),
    Symptom("]: segfault at ", r"[^\[\]]{1,64}\[(?P<pid>\d{1,10})\]: segfault at ", "kernel", "segfault",
        _DEATH, "the kernel saw a process die of a bad address", _of_process),
    Symptom("traps: ", r"traps: [^\[\]]{1,64}\[(?P<pid>\d{1,10})\] (?:general protection|trap )", "kernel",
        "trap", _DEATH, "the kernel saw a process die of a bad instruction", _of_process,
        inside=True),
    Symptom("PCIe Bus Error", r"PCIe Bus Error: severity=Uncorrect", "kernel", "pcie-error", _ROOT,
        "the PCIe bus reported an error", inside=True),
    Symptom("blocked for more than ", r"INFO: task [^:]{1,64}:(?P<pid>\d{1,10}) blocked for more than",
        "kernel", "hung-task", _ERROR, "a process hung in the kernel", _of_process),
    Symptom("I/O error, dev ", "", "kernel", "io-error", _ERROR, "a disk failed to read or write"),
    Symptom("EXT4-fs error", "", "kernel", "io-error", _ERROR, "a file system is damaged"),
    Symptom("nfs: server ", r"nfs: server \S{1,255} not responding", "kernel", "io-error", _ERROR,
        "a file server did not answer", inside=True),
    Symptom("[Hardware Error]", "", "kernel", "hardware-error", _ERROR,
        "the machine reported a hardware error"),
    Symptom("AER: ", r"AER: .{0,200}?(?:[Ff]atal|[Uu]ncorrect)", "kernel", "pcie-error", _ROOT,
        "the PCIe bus reported an error", inside=True),
)  # fmt: skip

_SERVICE_MANAGER: tuple[Symptom, ...] = (
    Symptom("Main process exited", _UNIT + "Main process exited, " + _STATUS, "service", "signal", _SERVICE,
        "how the service manager saw the end", _main_exited),
    Symptom("Failed with result", _UNIT + r"Failed with result '(?P<result>[\w-]{1,40})'", "service", "",
        _SERVICE, "how the service manager saw the end", _result),
    Symptom("Result=", rf"Result=(?P<result>{_RESULTS})$", "service", "", _SERVICE,
        "how the service manager saw the end", _result, by="unsigned"),
    Symptom("Active: failed (Result: ", rf"\s*Active: failed \(Result: (?P<result>{_RESULTS})\)", "service",
        "", _SERVICE, "how the service manager saw the end", _result, by="unsigned"),
    Symptom("was not met", r"\W{0,60}(?P<said>(?:Condition|Assert)[A-Z]\w{1,40}=.{1,1000} was not met)$",
        "service", "condition", _ROOT, "systemd did not start it", _said, by="unsigned"),
    Symptom("killed by the OOM killer", _UNIT + "A process of this unit has been killed by the OOM killer",
        "service", "oom-kill", _ROOT, "systemd says that the OOM killer ended a process", _of_service),
    Symptom(" due to memory ", r"Killed /\S{1,300} due to memory (?:pressure|used)", "service", "oom-kill",
        _ROOT, "systemd-oomd ended the service", _of_service),
    Symptom("Failed to load environment files: ", _UNIT + "Failed to load environment files: ", "service",
        "resources", _ROOT, "systemd could not start the program", _of_service),
    Symptom("Failed at step ", r"Failed at step (?P<step>[A-Z_]{2,30}) spawning ", "service", "exec", _ROOT,
        "systemd could not start the program", _exec, inside=True, alone=_UNIT),
    Symptom("operation timed out", _UNIT + r"(?:[Ss]tart|[Rr]eload)(?:-pre|-post)? operation timed out",
        "service", "timeout", _TIMEOUT, "systemd gave up waiting for the start", _of_service),
    Symptom("Watchdog timeout (limit", _UNIT + r"Watchdog timeout \(limit", "service", "watchdog", _TIMEOUT,
        "systemd heard nothing from the service", _of_service),
    Symptom("failed with result 'dependency'", _UNIT + r"Job \S{1,255}/start failed with result 'dependency'",
        "service", "dependency", _ROOT, "systemd did not start it, for something that it needs failed",
        _of_service),
    Symptom("repeated too quickly", _UNIT + "Start request repeated too quickly", "service",
        "start-limit-hit", _CONSEQUENCE, "it had failed several times before", _of_service),
    Symptom("Control process exited", _UNIT + "Control process exited, " + _STATUS, "service", "exit-code",
        _SERVICE, "a command before or after the service failed"),
)  # fmt: skip

_CHILDREN: tuple[Symptom, ...] = (
    Symptom("died unexpectedly",
        r"(?:Worker|[Ee]ngine [Cc]ore) proc(?:ess)? (?P<worker>[\w.-]{1,80}) died unexpectedly"
        r"(?: \(exit code: (?P<code>-?\d{1,6}|None)\))?", "signal", "died", _DEATH, "", _died),
    Symptom("scheduler died during",
        r"Rank (?P<index>\d{1,6}) scheduler died during initialization"
        r" \(exit code: (?P<code>-?\d{1,6}|None)\)",
        "signal", "died", _DEATH, "", _died),
    Symptom("scheduler is dead", r"Rank (?P<index>\d{1,6}) scheduler is dead", "signal", "died", _DEATH, "",
        _died),
    Symptom("crashed with exit code",
        r"Subprocess (?P<worker>\S{1,80}) \(pid=(?P<pid>\d{1,10})\) crashed"
        r" with exit code (?P<code>-?\d{1,6})",
        "signal", "died", _DEATH, "", _died),
    Symptom(" died, exit code: ",
        r"Worker [\w.-]{1,80} pid (?P<pid>\d{1,10}) died, exit code: (?P<code>-?\d{1,6}|None)",
        "signal", "died", _DEATH, "", _died),
    Symptom("failed (exitcode:",
        r"failed \(exitcode: (?P<code>-?\d{1,6})\) local_rank: (?P<index>\d{1,6}) \(pid: (?P<pid>\d{1,10})\)",
        "signal", "died", _DEATH, "", _died, inside=True),
    Symptom(" exited with code ", r"[\w.-]{1,200} exited with code (?P<code>\d{1,3})$", "signal", "died",
        _DEATH, "", _exited, by="unsigned"),
    Symptom("Exit Code:", r"\s{1,40}Exit Code:\s{1,20}(?P<code>13[24-79])$", "signal", "died", _SERVICE, "",
        _died, by="unsigned"),
    Symptom(" probe, will be restarted",
        r".{0,60}?\bNormal {1,20}Killing .{0,200}?Container \S{1,253} failed (?:liveness|startup) probe",
        "error", "probe-failed", _ROOT, "the kubelet ended a container that did not answer its probe",
        by="unsigned"),
    Symptom("The node was low on resource: ", r"(?:Message: |.{0,200}? Evicted ).{0,200}?The node was low on",
        "error", "pod-evicted", _ROOT, "the kubelet ended the pod to save its node", by="unsigned"),
    Symptom("A worker died or was killed while executing a task", r".{0,4000}?Worker PID: (?P<pid>\d{1,10})",
        "signal", "died", _DEATH, "", _died),
    Symptom(" dumped core", r"Process (?P<pid>\d{1,10}) \(.{1,64}\) of user \d{1,10} dumped core", "signal",
        "core-dump", _DEATH, "a process was killed by a signal that makes it dump core", _of_process,
        by="manager"),
    Symptom("has been marked dead because ", r"The node with node id: .{1,600}?has been marked dead because ",
        "error", "ray-node-died", _CONSEQUENCE, "Ray gave up one of its hosts"),
    Symptom("killed due to memory pressure", "", "signal", "ray-memory-monitor", _ROOT,
        "Ray's memory monitor ended a worker"),
    Symptom("killed due to the node running low on memory", "", "signal", "ray-memory-monitor", _ROOT,
        "Ray's memory monitor ended a worker"),
    Symptom("Segmentation fault", _SHELL + "Segmentation fault" + _DUMPED, "signal", "SIGSEGV", _DEATH,
        "a process was killed by SIGSEGV", by="unsigned"),
    Symptom("Bus error", _SHELL + "Bus error" + _DUMPED, "signal", "SIGBUS", _DEATH,
        "a process was killed by SIGBUS", by="unsigned"),
    Symptom("Illegal instruction", _SHELL + "Illegal instruction" + _DUMPED, "signal", "SIGILL", _DEATH,
        "a process was killed by SIGILL", by="unsigned"),
    Symptom("Aborted", _SHELL + "Aborted" + _DUMPED, "signal", "SIGABRT", _DEATH,
        "a process was killed by SIGABRT", by="unsigned"),
    Symptom("Killed", _SHELL + "Killed" + _DUMPED, "signal", "SIGKILL", _DEATH,
        "a process was killed by SIGKILL; by whom is not said", by="unsigned"),
    Symptom("*** SIG", r"\*\*\* (?P<name>SIG(?:SEGV|ABRT|BUS|ILL|FPE)) (?:received at time=|\(@0x)", "native",
        "signal", _ROOT, "a process caught a fatal signal",
        lambda symptom, line, match: symptom.hit(line, type=match["name"]), inside=True),
)  # fmt: skip

_WAITING: tuple[Symptom, ...] = (
    Symptom("Received sigquit from a child", "", "error", "child-failed", _CONSEQUENCE,
        "the parent was told that a child failed"),
    Symptom("SIGQUIT received. signum=", "", "error", "child-failed", _CONSEQUENCE,
        "the parent was told that a child failed"),
    Symptom("Initialization failed. Please see the error messages above", "", "error", "child-failed",
        _CONSEQUENCE, "it refers to a cause that was reported elsewhere"),
    Symptom("couldn't get a response from detokenizer", "", "error", "no-answer", _CONSEQUENCE,
        "it waited for the scheduler"),
    Symptom("atchdog timeout (self.watchdog_timeout=", "", "error", "watchdog-timeout", _TIMEOUT,
        "a watchdog ended a process that made no progress", _watchdog),
    Symptom("watchdog thread terminated with exception: ",
        r"watchdog thread terminated with exception: (?P<said>.{1,2000})", "error", "nccl-watchdog",
        _CONSEQUENCE, "the NCCL watchdog reports an earlier failure", _thread_end, inside=True),
    Symptom("Watchdog caught collective operation timeout",
        r"(?P<said>Watchdog caught collective operation timeout.{0,600})", "error", "collective-timeout",
        _TIMEOUT, "a collective waited for a rank that did not come", _said, inside=True),
    Symptom("Engine iteration timed out. This should never happen", "", "error", "engine-timeout", _TIMEOUT,
        "the engine waited in vain for its workers"),
    Symptom("watchdog got stuck for ", r"(?P<said>watchdog got stuck for .{1,1000})", "error",
        "nccl-watchdog-stuck", _TIMEOUT, "a call of NCCL or CUDA did not come back", _said, inside=True),
    Symptom("Some NCCL operations have failed or timed out", "", "error", "nccl-watchdog", _CONSEQUENCE,
        "the NCCL watchdog reports an earlier failure"),
    Symptom("The client socket has timed out after",
        r"(?P<said>The client socket has timed out after.{0,400})", "error", "store-timeout", _TIMEOUT,
        "it waited for another process", _said, inside=True),
    Symptom("recvValue failed", "", "error", "store-closed", _CONSEQUENCE,
        "the process that held the store is gone"),
    Symptom("NCCL WARN ", r"NCCL WARN (?P<said>.{1,1000})", "error", "nccl-warning", _ERROR,
        "NCCL's own words for what went wrong", _nccl_warning, inside=True),
)  # fmt: skip

_NATIVE: tuple[Symptom, ...] = (
    Symptom("Assertion `", r"(?P<said>Assertion `.{1,1500}[`'] failed)", "native", "assertion", _ROOT,
        "native code found its state or its input impossible", _said, inside=True),
    Symptom("Assertion failed: ", r"(?P<said>Assertion failed: .{1,1000})", "native", "assertion", _ROOT,
        "native code found its state impossible", _said),
    Symptom("Check failed: ", r"(?P<said>Check failed: .{1,1000})", "native", "check-failed", _ROOT,
        "native code found its state impossible", _check, inside=True),
    Symptom("LLVM ERROR: ", r"(?P<said>LLVM ERROR: .{1,1000})", "native", "llvm-error", _ROOT,
        "the compiler gave up", _said),
    Symptom("Failed: Cuda error ", r"(?P<said>Failed: Cuda error \S{1,400}:\d{1,7} '.{1,300})", "error",
        "cuda-error", _ROOT, "native code ended the process: a call of CUDA failed", _said),
    Symptom("Memory access fault by GPU node-", r"Memory access fault by GPU node-\d{1,3} ", "native",
        "gpu-memory-fault", _ROOT, "a kernel touched memory of the GPU that is not its own"),
    Symptom(" nvshmem initialization failed",
        r"\S{1,400}:\d{1,7}: (?:non-zero status: -?\d{1,10}:? )?nvshmem init", "error",
        "nvshmem", _ROOT, "NVSHMEM did not start, and ended the process"),
    Symptom("Failed to register memory 0x", r"(?P<said>Failed to register memory 0x.{1,200})", "error",
        "rdma-registration", _ROOT, "memory could not be given to the network card", _said, inside=True),
    Symptom(" fatal ", r"(?P<said>(?:ptxas|nvcc|cicc|nvlink) fatal {1,6}: .{1,1000})", "error",
        "compiler-error", _ROOT, "the compiler gave up", _said),
)  # fmt: skip

_START: tuple[Symptom, ...] = (
    Symptom(": error: ",
        r"(?:[\w./-]{1,120}|[\w./-]{1,120} [\w-]{1,40}): error: (?P<said>(?:unrecognized arguments|"
        r"ambiguous option|argument |the following arguments are required|one of the arguments|"
        r"invalid choice|expected ).{0,1500})",
        "error", "argument-error", _ROOT, "the command line was refused", _said),
    Symptom("[Errno 98]", r"(?:ERROR: {1,6})?(?P<said>\[Errno 98\] .{1,300})", "error", "port-in-use", _ROOT,
        "the address was taken", _said),
    Symptom(": No module named ", r"(?P<said>\S{0,300}python[\d.]{0,6}: No module named \S{1,300})$", "error",
        "no-module", _ROOT, "the interpreter does not have the module", _said),
    Symptom(": Error while finding module specification for ",
        r"(?P<said>\S{0,300}python[\d.]{0,6}: Error while finding module specification for .{1,400})",
        "error", "no-module", _ROOT, "the interpreter does not have the module", _said),
    Symptom(": command not found", r"(?P<said>\S{1,200}: (?:line \d{1,7}: )?\S{1,200}: command not found)",
        "error", "no-program", _ROOT, "the shell does not find the program", _said),
    Symptom(": not found", r"(?P<said>\S{1,200}: \d{1,7}: (?:exec: )?\S{1,200}: not found)$", "error",
        "no-program", _ROOT, "the shell does not find the program", _said),
    Symptom("Unable to open /dev/kfd", "", "error", "device-refused", _ROOT,
        "the user may not open AMD's devices"),
    Symptom("nvidia-container-cli: ", r"(?P<said>nvidia-container-cli: .{1,600})", "error",
        "container-runtime", _ROOT, "the container runtime could not start the program", _said, inside=True),
    Symptom("OCI runtime create failed: ", r"(?P<said>OCI runtime create failed: .{1,600})", "error",
        "container-runtime", _ROOT, "the container runtime could not start the program", _said, inside=True),
    Symptom("Error: ", r"Error: (?P<said>(?:No such option|Invalid value|Missing (?:option|argument)|"
        r"Got unexpected extra argument).{0,600})", "error", "argument-error", _ROOT,
        "the command line was refused", _said),
    Symptom(": can't open file ", r"(?P<said>\S{0,300}python[\d.]{0,6}: can't open file .{1,400})", "error",
        "no-file", _ROOT, "the interpreter does not find the script", _said),
    Symptom(": error while loading shared libraries: ",
        r"(?P<said>\S{1,300}: error while loading shared libraries: .{1,400})", "error", "shared-library",
        _ROOT, "the loader could not start the program", _said),
    Symptom("Failed to import from ",
        r"Failed to import from (?P<module>[\w.]{1,100}) with (?P<type>\w{1,60}Error)\((?P<said>.{1,2000})\)",
        "exception", "", Weight.BENIGN, "the program itself logged it and went on", _not_imported),
    Symptom("' not found (required by ",
        r"(?P<said>\S{1,300}: .{0,300}version `[\w.]{1,60}' not found \(required by .{1,400})", "error",
        "symbol-version", _ROOT, "a shared library is older than the program", _said),
)  # fmt: skip

_LLAMA_CPP: tuple[Symptom, ...] = (
    Symptom("gguf_init_from_",
        r"gguf_init_from_\w{1,20}: (?P<said>(?:failed to |invalid ).{1,1000})", "error", "gguf-file", _ROOT, "the model file could not be read", _said),
    Symptom("error loading model: llama_model_loader: failed to load model from ",
        r".{0,100}?error loading model: (?P<said>llama_model_loader: failed to load model from .{1,1000})",
        "error", "model-load", _CONSEQUENCE, "it says that a file could not be read, and not why", _said),
    Symptom("error loading model: ", r".{0,100}?error loading model: (?P<said>.{1,1000})", "error",
        "model-load", _ROOT, "the model could not be loaded", _said),
    Symptom("error loading model ",
        r".{0,100}?(?P<said>error loading model (?:architecture|hyperparameters|vocabulary): .{1,1000})",
        "error", "model-load", _ROOT, "the model could not be loaded", _said),
    Symptom("cudaMalloc failed: ", r"\S{1,100}: (?P<said>allocating .{1,100}: cudaMalloc failed: .{1,200})",
        "error", "gpu-allocation", _ERROR, "the driver gave no memory", _said),
    Symptom("ggml_vulkan: Device memory allocation of size ",
        r"ggml_vulkan: (?P<said>Device memory allocation of size .{1,100})", "error", "gpu-allocation",
        _ERROR, "the driver gave no memory", _said),
    Symptom("ggml_aligned_malloc: ", r"ggml_aligned_malloc: (?P<said>insufficient memory .{1,200})", "error",
        "host-allocation", _ERROR, "the host gave no memory", _said),
    Symptom("llama_init_from_model: ",
        r"llama_init_from_model: (?P<said>failed to initialize the context: .{1,600}|"
        r"quantized V cache .{1,200}|[KV] cache type .{1,200}|SPLIT_MODE_TENSOR requires .{1,200}|model does not support .{1,200})",
        "error", "context", _ROOT, "the context could not be made", _said),
    Symptom("couldn't bind HTTP server socket", r".{0,60}?(?P<said>couldn't bind HTTP server socket.{0,400})",
        "error", "socket-not-bound", _ROOT, "the server could not listen", _said),
    Symptom("error: invalid argument: ", r"error: (?P<said>invalid argument: .{1,600})", "error",
        "argument-error", _ROOT, "the command line was refused", _said),
    Symptom("error while handling ",
        r"(?P<said>error while handling (?:argument|environment variable) \".{1,1000})", "error",
        "argument-error", _ROOT, "the command line was refused", _said),
    Symptom(": GGML_ASSERT(", r"\S{1,300}:\d{1,7}: (?P<said>GGML_ASSERT\(.{1,1000}\) failed)", "native",
        "assertion", _ROOT, "native code found its state or its input impossible", _said),
    Symptom("exiting due to ",
        r".{0,60}?(?P<said>exiting due to (?:model loading|HTTP server) error)", "error", "start-failed", _CONSEQUENCE, "it says that the start failed, and not why", _said),
    Symptom("llama runner ", r".{0,100}?(?P<said>llama runner (?:process has )?terminated.{0,400})", "error",
        "runner-died", _CONSEQUENCE, "the parent says that its runner ended", _said),
)  # fmt: skip

SYMPTOMS: tuple[Symptom, ...] = (
    *(*_KERNEL, *_SERVICE_MANAGER, *_CHILDREN, *_WAITING, *_NATIVE, *_START, *_LLAMA_CPP),
)
NEEDLES: tuple[str, ...] = tuple(dict.fromkeys(symptom.needle for symptom in SYMPTOMS))
