"""What the service manager recorded of a unit: restarts in a loop, and an end that no log tells of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from triage.evidence.catalogue import JournalRun
from triage.evidence.discovery.managers import about_units_of
from triage.evidence.model import Deployment, EndedRun, Evidence
from triage.logs.faults.fingerprint import fingerprint
from triage.logs.model import Fault, Incident, Position

OFTEN = timedelta(hours=1)
"""Restarts that are closer together than this, on average, are a loop."""

_CODES = {"signal": "killed", "core-dump": "dumped"}


@dataclass(frozen=True)
class Restarts:
    """How often its manager started a service anew by itself. Times are ISO 8601, "" where not kept."""

    count: int
    since: str  # end of the first run that is counted and still known
    last: str  # end of the last one
    result: str  # of the last one
    loop: bool  # it does not stay up


def restarts_of(evidence: Evidence, deployment: Deployment) -> Restarts | None:
    """The restarts since the unit was last started by hand; None where there were none."""
    if deployment.container and deployment.restarts:
        run = deployment.last_run or EndedRun("", None, deployment.result)
        return Restarts(deployment.restarts, "", run.ended, run.result, _falls(deployment, run))
    if not deployment.restarts or deployment.state not in ("active", "activating"):
        return None
    runs = evidence.ask(about_units_of(deployment.manager).runs(deployment.unit)).value or ()
    ended = [run for run in runs if run.ended]
    ended = ended[-deployment.restarts :]
    since, last = (ended[0].ended, ended[-1].ended) if ended else ("", "")
    return Restarts(
        count=deployment.restarts,
        since=since,
        last=last,
        result=ended[-1].result if ended else "",
        loop=deployment.state == "activating" or _often(ended),
    )


def _falls(deployment: Deployment, run: EndedRun) -> bool:
    """Is it a container in a loop? One that ended well may have been stopped, or be done."""
    if deployment.state in ("restarting", "CrashLoopBackOff"):
        return True
    again = deployment.restarts > 1 if deployment.state == "running" else run.result not in ("", "success")
    return again and run.seconds is not None and timedelta(seconds=run.seconds) < OFTEN


def _often(ended: Sequence[JournalRun]) -> bool:
    if len(ended) < 2:
        return False
    took = datetime.fromisoformat(ended[-1].ended) - datetime.fromisoformat(ended[0].ended)
    return took / (len(ended) - 1) < OFTEN


def failed(deployment: Deployment, restarts: Restarts | None = None) -> str:
    """The result of the last run that ended, in systemd's words; "" for a good one."""
    result = deployment.result if _has_ended(deployment) else restarts.result if restarts else ""
    return "" if result == "success" else result


def incident_of(deployment: Deployment, restarts: Restarts | None) -> Incident | None:
    """What its manager says of a run whose log explains nothing; None where it says that all was well."""
    result = failed(deployment, restarts)
    if not result:
        return None
    status = deployment.exit_status if _has_ended(deployment) else ""
    recorder = deployment.manager if deployment.container else "systemd"
    message = f"{_exited(result, status)}Failed with result '{result}'"
    fault = _fault(recorder, deployment, result, message, "the log of the run does not tell why")
    mark = fingerprint(deployment.engine, fault)
    started = _time(deployment.started)
    return Incident(
        id=f"{mark[:8]}-{started:%m%d%H%M%S}" if started else mark[:8],
        fingerprint=mark,
        started=started,
        ended=_time(restarts.last if restarts else ""),
        initiator=fault,
        faults=(fault,),
        count=restarts.count if restarts else 1,
    )


def skip_of(deployment: Deployment) -> Incident | None:
    """That systemd did not start it when it was to; None where it did, or tried."""
    if not deployment.skipped:
        return None
    fault = _fault("systemd", deployment, "condition", deployment.skipped, "the service was not started")
    mark = fingerprint(deployment.engine, fault)
    return Incident(mark[:8], mark, None, None, fault, (fault,))


def _fault(recorder: str, deployment: Deployment, type: str, message: str, because: str) -> Fault:
    return Fault(
        kind="service",
        type=type,
        message=message,
        position=Position(f"{recorder}'s record of {deployment.unit or deployment.name}", 0),
        role="initiator",
        because=(f"{recorder} recorded it", because),
    )


def _has_ended(deployment: Deployment) -> bool:
    """A container's result is known of one that does not run."""
    return deployment.state == "failed" or bool(deployment.container and deployment.result)


def _exited(result: str, status: str) -> str:
    """Return the exit as systemd words it in the journal, so that the same rules apply."""
    if not status or status == "0":
        return ""
    if result in ("signal", "oom-kill") and status.isdecimal() and int(status) > 128:
        status = f"{int(status) - 128}/KILL" if status == "137" else f"{int(status) - 128}/n/a"
    named = status if "/" in status else f"{status}/{'FAILURE' if status == '1' else 'n/a'}"
    code = _CODES.get(result, "killed" if "/" in status else "exited")
    return f"Main process exited, code={code}, status={named}; "


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
