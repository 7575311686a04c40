"""What shows that a run did not fail: it became ready, answered requests, or was asked to stop."""

from __future__ import annotations

from triage.logs.run import LogRun


def health_of(run: LogRun) -> tuple[str, ...]:
    """Return in words what the log says for the health of a run, () where it says nothing for it."""
    said = []
    if run.ready:
        said.append("it became ready")
    if run.served is not None:
        said.append(f"it answered a request at {run.served:%H:%M:%S}")
    if run.stopped is not None:
        said.append("it was asked to stop")
    return tuple(said)
