"""What an engine logs while it starts: phases, and the line that says it is ready, behind whatever prefix."""

from __future__ import annotations

import re
from dataclasses import replace

from triage.engines import ENGINES
from triage.verify.model import StartPhase

READY = "ready"

_LOGS = [engine.log for engine in ENGINES.values()]
_PHASES = [phase for log in _LOGS for phase in log.phases]
_READY = [ready for log in _LOGS for ready in log.ready]
_ENDS = frozenset(phase.name for phase in _PHASES if phase.ends)
_BEFORE_READY = frozenset(ready.after for ready in _READY if ready.after)
_SPELLINGS = [phase.pattern or "|".join(map(re.escape, phase.lines)) for phase in _PHASES]
_ANY = "|".join(f"({spelling})" for spelling in (*_SPELLINGS, *(re.escape(each.text) for each in _READY)))
_MARK = re.compile(rf"(?:^|[\]:] +|\) )(?:{_ANY})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class StartLog:
    """Reads the log of one start.

    `ready`: the engine's own ready line was there. "Application startup complete" alone is none: it is
    uvicorn's, and may come before the engine has warmed up.
    """

    def __init__(self) -> None:
        self._phases: dict[str, StartPhase] = {}

    def feed(self, line: str, at: float) -> StartPhase | None:
        """Take a line that was read `at` seconds after the restart; returns a phase seen for the first time.

        Of many ranks, the first to begin and the last to end set the time of a phase.
        """
        found = _MARK.search(_COLOUR.sub("", line).rstrip())
        if not found:
            return None
        name = self._name(found.lastindex or 0)
        if not name:
            return None
        known = self._phases.get(name)
        if known is None:
            self._phases[name] = StartPhase(name, at)
            return self._phases[name]
        if name in _ENDS:
            self._phases[name] = replace(known, at=at)
        return None

    @property
    def ready(self) -> bool:
        return READY in self._phases

    @property
    def health_counts(self) -> bool:
        """Whether a health state may stand in for the ready line: the log, or uvicorn's part, is silent."""
        return not self._phases or not _BEFORE_READY.isdisjoint(self._phases)

    @property
    def phases(self) -> tuple[StartPhase, ...]:
        return tuple(sorted(self._phases.values(), key=lambda phase: phase.at))

    def _name(self, group: int) -> str:
        """Return the phase that a group of the pattern found, "" for a ready line that comes too early."""
        if group <= len(_PHASES):
            return _PHASES[group - 1].name
        ready = _READY[group - len(_PHASES) - 1]
        return READY if not ready.after or ready.after in self._phases else ""
