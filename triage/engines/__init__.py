"""The inference engines that triage knows, one file each. Nothing outside this package names one in code.

docs/engines.md says how to add an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from triage.engines.engine import Engine as Engine
from triage.engines.llama_cpp import LLAMA_CPP
from triage.engines.sglang import SGLANG
from triage.engines.vllm import VLLM

_ALL = (SGLANG, VLLM, LLAMA_CPP)
ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in _ALL})
"""By name. Where a log line could be of several, the first is asked first."""

UNKNOWN = Engine("")
"""An engine of which nothing is known; its name is "", which is false."""


def engine_named(name: str) -> Engine:
    """The engine of that name, UNKNOWN for any other."""
    return ENGINES.get(name, UNKNOWN)


def titles(joined_by: str, engines: Iterable[Engine] | None = None) -> str:
    """What people call these engines, or else all: `SGLang or vLLM`, `SGLang, vLLM and Other`."""
    *others, last = [engine.title for engine in engines or ENGINES.values()]
    return f"{', '.join(others)} {joined_by} {last}" if others else last


def require_engine(name: str) -> str:
    """The name. Raises ValueError for one that is no engine's; "" stands for every engine."""
    if name and name not in ENGINES:
        raise ValueError(f"there is no engine {name!r}; there are {', '.join(ENGINES)}")
    return name
