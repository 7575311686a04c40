"""Finds where a deployment's log lines come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from triage.common.errors import UnreachableError
from triage.common.json import parse_json
from triage.evidence.catalogue import JournalAccess, KernelLog, TailFile, Unit
from triage.evidence.catalogue.containers import Tool
from triage.evidence.catalogue.journal import NEEDS
from triage.evidence.discovery.containers import (
    container_of,
    details_of,
    earlier_log_of,
    log_of,
    said_by_crictl,
)
from triage.evidence.discovery.managers import about_unit_of, about_units_of
from triage.evidence.discovery.output_files import (
    BEGINNING,
    file_of_process,
    journal_holds_its_words,
    output_of,
)
from triage.evidence.log_rotation import read_log_file
from triage.evidence.model import Answer, Deployment, Evidence, Query
from triage.logs.model import LogSource

KERNEL = "kernel log"
DISK = "journalctl --disk-usage; journalctl --list-boots"  # what journald keeps, and since when
GRANT = "on the host: sudo usermod -aG systemd-journal $USER, then log in again; or repeat with --become"
BY_SYSTEMD = b'"SYSLOG_IDENTIFIER": "systemd"'
NO_TIME = "when the run failed is not known by the host's clock; on the host: journalctl -k"
KERNEL_MARGIN = 30  # seconds around a run in which the kernel's lines may have to do with it


def log_sources(evidence: Evidence, deployment: Deployment) -> tuple[LogSource, ...]:
    """The log of the deployment's latest run and the kernel's lines of its time, in canonical form.

    A kernel log that cannot be read is a source without data that says why. Where systemd has started it
    anew after a failure, the run that failed comes first. What a unit sends to a file instead of the journal
    is read there. Raises UnreachableError when the log cannot be read, or is empty and the service manager
    does not say either how the run ended, or why it was none: silence is not health.
    """
    try:
        return _log_sources(evidence, deployment)
    except UnreachableError as error:
        if not deployment.skipped:
            raise
        return (LogSource(f"journal of {deployment.unit}", b"", missing=error.happened),)


def _log_sources(evidence: Evidence, deployment: Deployment) -> tuple[LogSource, ...]:
    container = container_of(deployment)
    if container:
        logs = tuple(_container_logs(evidence, deployment, *container))
        return (*logs, *_kernel(evidence, deployment, logs))
    if not deployment.unit:
        return (_process_log(evidence, deployment), LogSource(KERNEL, b"", missing=NO_TIME))
    runs = [deployment.invocation]
    failed = _failed_run(evidence, deployment)
    if failed and failed != deployment.invocation:
        runs.insert(0, failed)
    at_last = 2 if deployment.state == "activating" else 1  # the run that failed before this start, too
    sources = tuple(source for run in runs for source in _journal(evidence, deployment, run, at_last))
    if not _hold_its_words(sources) and deployment.manager == "systemd-user":
        # before systemd 246 journald knew no invocation of a user's unit
        sources = tuple(_journal(evidence, deployment, "", len(runs)))
    if not _hold_its_words(sources):
        output = output_of(evidence, deployment, len(runs))
        sources = (*sources, output) if output else sources
    if not any(source.data for source in sources):
        if refused := _refused(evidence, deployment):
            raise refused
        empty = _empty(evidence, deployment)
        if deployment.result in ("", "success"):
            raise empty
        missing = _with_command(empty.happened, DISK)
        unread = (source for source in sources if source.missing)
        sources = (LogSource(f"journal of {deployment.unit}", b"", missing=missing), *unread)
    return (*sources, *_kernel(evidence, deployment, sources))


def _hold_its_words(sources: Iterable[LogSource]) -> bool:
    return any(journal_holds_its_words(source.data[:]) for source in sources)


def _journal(
    evidence: Evidence, deployment: Deployment, invocation: str, last_runs: int
) -> Iterator[LogSource]:
    """Return the journal. Without invocations (systemd before 232), runs are told apart by their words.

    Of a namespace that cannot be read there is a source without data that says why.
    """
    unit, namespace = deployment.unit, deployment.log_namespace
    answer = _lines(evidence, deployment, invocation)
    if answer.value is None and namespace:
        yield LogSource(f"journal of {unit} in namespace {namespace}", b"", missing=answer.missing)
        answer = _lines(evidence, replace(deployment, log_namespace=""), invocation)
    if answer.value is None:
        raise _unreadable(evidence, unit, answer)
    data = answer.value.encode("utf-8", "replace")
    yield LogSource(f"journal of {unit}", data, answer.partial, last_runs=0 if invocation else last_runs)


def first_asked(unit: Unit) -> tuple[Query[Any], ...]:
    """What is asked first of the log of a unit whose latest run ended."""
    if not unit.invocation or unit.restarts or unit.main_pid:
        return ()
    questions = about_units_of(unit.manager)
    return () if unit.log_namespace else (questions.windows(unit.id, unit.invocation),)


def _lines(evidence: Evidence, deployment: Deployment, invocation: str) -> Answer[str]:
    """The journal of a run: in windows where the host can find them, otherwise whole."""
    questions = about_unit_of(deployment)
    answer = evidence.ask(questions.windows(deployment.unit, invocation)) if invocation else None
    if answer is None or not (answer.value or answer.partial):
        answer = evidence.ask(questions.journal(deployment.unit, invocation))
    return answer


def _failed_run(evidence: Evidence, deployment: Deployment) -> str:
    """The last run that failed, of a service that systemd keeps restarting."""
    if not deployment.restarts or deployment.state not in ("active", "activating"):
        return ""
    runs = evidence.ask(about_units_of(deployment.manager).runs(deployment.unit)).value or ()
    return next((run.invocation for run in reversed(runs) if run.result not in ("", "success")), "")


def _kernel(
    evidence: Evidence, deployment: Deployment, sources: tuple[LogSource, ...]
) -> Iterator[LogSource]:
    logged = [moment for source in sources for moment in _span(source.data[:])]
    moments = logged or _recorded(evidence, deployment)
    if not moments:
        yield LogSource(KERNEL, b"", missing=NO_TIME)
        return
    query = KernelLog(min(moments) - KERNEL_MARGIN, max(moments) + KERNEL_MARGIN)
    answer = evidence.ask(query)
    if answer.value:
        yield LogSource(KERNEL, answer.value.encode("utf-8", "replace"), answer.partial)
    elif answer.value is None:
        yield LogSource(KERNEL, b"", missing=_with_command(answer.missing, answer.command))
    elif refused := not _told_by_systemd(deployment, sources) and _refused(evidence, deployment):
        yield LogSource(KERNEL, b"", missing=_with_command(refused.happened, answer.command))
    elif not logged:
        why = "it holds nothing of the time of the run, as little as the service's own log"
        yield LogSource(KERNEL, b"", missing=_with_command(why, DISK))


def _recorded(evidence: Evidence, deployment: Deployment) -> list[int]:
    """When its manager says that the main process began and ended, in seconds since the epoch."""
    container = container_of(deployment)
    asked = about_units_of(deployment.manager).properties(deployment.unit) if deployment.unit else None
    told = details_of(evidence, *container) if container else evidence.ask(asked).value if asked else None
    times = (told.started, told.ended) if told else ()
    return [int(datetime.fromisoformat(time).timestamp()) for time in times if time]


def _with_command(why: str, command: str) -> str:
    return f"{why}; on the host: {command}" if command else why


def _span(data: bytes) -> Iterator[int]:
    """The moments of the first and the last entry, in seconds since the epoch."""
    for line in (data[: data.find(b"\n")], data[data.rstrip(b"\n").rfind(b"\n") + 1 :]):
        try:
            if line.startswith(b"{"):
                yield int(parse_json(line)["__REALTIME_TIMESTAMP"]) // 1_000_000
            else:  # a container's: docker's and podman's in UTC as we ask for it, the kubelet's as it has it
                zone = re.match(rb"[\dT:.-]{19,29}([+-]\d\d:\d\d) ", line)
                moment = f"{line[:19].decode()}{zone[1].decode() if zone else '+00:00'}"
                yield int(datetime.fromisoformat(moment).timestamp())
        except (ValueError, LookupError, TypeError):
            continue


def _container_logs(evidence: Evidence, deployment: Deployment, tool: Tool, id: str) -> Iterator[LogSource]:
    """Return a container's logs; of a pod that was started again, that of the failed start comes first."""
    name = f"{tool} logs {deployment.name}"
    earlier = earlier_log_of(evidence, deployment)
    answers = {f"{name}, the start before": evidence.ask(earlier)} if earlier else {}
    answers[name] = evidence.ask(log_of(tool, id))
    if not any(answer.value for answer in answers.values()) and deployment.result in ("", "success"):
        raise _without_log(evidence, deployment, tool, id, answers[name].missing)
    for called, answer in answers.items():
        data = (answer.value or "").encode("utf-8", "surrogateescape")
        missing = "" if data else answer.missing or "it is empty"
        yield LogSource(called, data, answer.partial, missing=missing)


def _without_log(
    evidence: Evidence, deployment: Deployment, tool: Tool, id: str, missing: str
) -> UnreachableError:
    found = details_of(evidence, tool, id)
    why = [missing or "it is empty", deployment.state, found.error if found else ""]
    next = "give its log file with --log FILE"
    if tool == "crictl":
        why[0] = said_by_crictl(why[0])
    if tool == "kubectl":
        namespace, pod, _ = id.split("/")
        next = f"kubectl describe pod --namespace {namespace} {pod}"
    return UnreachableError(
        "reading the log of",
        f"container {deployment.name} on {evidence.origin.name}",
        "; ".join(filter(None, why)),
        next,
    )


def _process_log(evidence: Evidence, deployment: Deployment) -> LogSource:
    path = file_of_process(evidence, deployment.main_pid or 0)
    source = read_log_file(evidence, TailFile(path.value)) if path.value else None
    if source is None or source.missing:
        raise UnreachableError(
            "reading the log of",
            f"{deployment.name} on {evidence.origin.name}",
            source.missing if source else path.missing,
            "repeat with --become where it is another user's, or give its log file with --log FILE",
        )
    return replace(source, last_runs=0)


def _unreadable(evidence: Evidence, unit: str, answer: Answer[str]) -> UnreachableError:
    return UnreachableError(
        "reading the journal of",
        f"{unit} on {evidence.origin.name}",
        answer.missing,
        GRANT if NEEDS in answer.missing else answer.command,
    )


def _refused(evidence: Evidence, deployment: Deployment) -> UnreachableError | None:
    """What is wrong with an empty answer of the system's journal, which is one of the account's own alone."""
    if evidence.ask(JournalAccess()).value is not False:
        return None
    whose = f"{deployment.unit or deployment.name} on {evidence.origin.name}"
    why = f"the user may not read the system's journal; it takes {NEEDS}"
    return UnreachableError("reading the journal of", whose, why, GRANT)


def _told_by_systemd(deployment: Deployment, sources: Iterable[LogSource]) -> bool:
    """Whether the system's journal was read: what a service says may stand in its user's own."""
    if deployment.manager != "systemd":
        return False
    return any(BY_SYSTEMD in source.data[:BEGINNING] for source in sources)


def _empty(evidence: Evidence, deployment: Deployment) -> UnreachableError:
    run = f"no line of its run {deployment.invocation}" if deployment.invocation else "no line of it"
    return UnreachableError(
        "reading the journal of",
        f"{deployment.unit} on {evidence.origin.name}",
        f"it holds {run}: it never ran, logs elsewhere, or the journal was rotated since",
        "give its log file with --log FILE",
    )
