"""Which frame of a traceback is to blame."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.engines import ENGINES
from triage.logs.model import Frame

ENGINE_PACKAGES = (
    *(package for engine in ENGINES.values() for package in engine.package.code),
    *("lmdeploy", "text_generation_server", "tensorrt_llm"),
)

_PACKAGES = re.compile(r"(?:site|dist)-packages[/\\]")
_STANDARD = re.compile(r"[/\\]lib(?:64)?[/\\]python\d(?:\.\d{1,2})?[/\\]")
_CHECKOUT = re.compile(r"(?:^|[/\\])((?:" + "|".join(ENGINE_PACKAGES) + r")[/\\])")
_ACCESSOR = re.compile(
    r"_{0,2}get(?:_\w{1,100}|item__|attr__|attribute__)?$|__call__$|_wrapped_call_impl$|_call_impl$"
)
_MAKES = re.compile(r"[\w., ]{1,200} = [^=].{0,400}\(")
_REFUSES = re.compile(r"raise (?!(?:Index|Key|Attribute)Error\b)")
_WRAPPERS = frozenset(
    ("wrapper", "inner", "_inner_fn", "decorate_context", "sync_wrapper", "old_init", "_fn")
)


def module_tail(file: str) -> str:
    """A file's path from its package on: `sglang/srt/mem_cache/memory_pool.py`."""
    for pattern in (_PACKAGES, _STANDARD):
        tail = pattern.split(file)[-1]
        if len(tail) < len(file):
            return tail.replace("\\", "/")
    places = list(_CHECKOUT.finditer(file))
    if places:
        return file[places[-1].start(1) :].replace("\\", "/")
    return file.replace("\\", "/").rpartition("/")[2]


def engine_package(frame: Frame) -> str:
    """The package of an engine that a frame's file is in, "" for other code."""
    package, slash, _ = module_tail(frame.file).partition("/")
    return package if slash and package in ENGINE_PACKAGES else ""


def _is_library(frame: Frame) -> bool:
    file = frame.file
    return file.startswith("<") or bool(_PACKAGES.search(file) or _STANDARD.search(file)) or "/bin/" in file


def _does_work(getter: Frame, inmost: Frame | None) -> bool:
    """Whether a function that is called like an accessor makes something, has others make it, or refuses."""
    if getter is inmost and _REFUSES.match(getter.code.strip()):
        return True
    if inmost is None or getter is inmost or _ACCESSOR.match(inmost.function):
        return bool(_MAKES.match(getter.code.strip()))
    return not engine_package(inmost)


def culprit(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame in the engine's own code that does more than hand something out.

    An accessor that is asked for something absurd is not to blame, its caller is. Without engine code:
    the innermost frame outside libraries, else the innermost one.
    """
    own = [frame for frame in frames if engine_package(frame)]
    inmost = frames[-1] if frames else None
    for frame in reversed(own):
        if frame.function in _WRAPPERS:
            continue
        if not _ACCESSOR.match(frame.function) or _does_work(frame, inmost):
            return frame
    if own:
        return own[-1]
    for frame in reversed(frames):
        if not _is_library(frame):
            return frame
    return frames[-1] if frames else None
