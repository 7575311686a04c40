"""What an engine logs while it starts: phases, and the line that says it is ready.

Lines as SGLang 0.4 to 0.5 and vLLM 0.8 to 0.32 print them, behind whatever prefix.
"""

from __future__ import annotations

import re
from dataclasses import replace

from triage.verify.model import StartPhase

READY = "ready"
SERVING = "Starting vLLM server"

_BEGINS = (
    "Init torch distributed begin",
    "Load weight begin",
    "Capture cuda graph begin",
    "Initializing a V1 LLM engine",
    "Starting to load model",
    "Capturing CUDA graph",
)
_ENDS = (
    "Init torch distributed ends",
    "Load weight end",
    "KV Cache is allocated",
    "Memory pool end",
    "Capture cuda graph end",
    "Loading weights took",
    "KV cache size",
    "Graph capturing finished",
    "init engine",
)
_SGLANG_READY = "The server is fired up and ready to roll!"
_UVICORN_UP = "Application startup complete."
_SPELLINGS = {
    r"Capture (?:[a-z]+ ){0,3}(?:cuda|CUDA) graph begin": "Capture cuda graph begin",
    r"Capture (?:[a-z]+ ){0,3}(?:cuda|CUDA) graph end": "Capture cuda graph end",
    r"SWAKVPool mem usage:": "KV Cache is allocated",
    r"Loading model weights took|Model loading took": "Loading weights took",
    r"(?:GPU |CPU )?KV cache size:|# GPU blocks:": "KV cache size",
    r"Capturing (?:the model for )?(?:CUDA|cuda) graphs?": "Capturing CUDA graph",
    r"init engine \(": "init engine",
    r"Starting vLLM (?:API )?server": SERVING,
}
_PLAIN = (*_BEGINS, *_ENDS, _SGLANG_READY, _UVICORN_UP)
_MARK = re.compile(r"(?:^|[\]:] +|\) )(" + "|".join([*map(re.escape, _PLAIN), *_SPELLINGS]) + ")")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class StartLog:
    """Reads the log of one start.

    `ready`: the engine's own ready line was there. "Application startup complete" alone is none: SGLang
    prints it before it has warmed up; of vLLM it is one once the server was said to start.
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
        name = self._name(found.group(1))
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
        return not self._phases or SERVING in self._phases

    @property
    def phases(self) -> tuple[StartPhase, ...]:
        return tuple(sorted(self._phases.values(), key=lambda phase: phase.at))

    def _name(self, text: str) -> str:
        if text == _SGLANG_READY:
            return READY
        if text == _UVICORN_UP:
            return READY if SERVING in self._phases else ""
        if text in _PLAIN:
            return text
        return next(name for spelling, name in _SPELLINGS.items() if re.match(spelling, text))
