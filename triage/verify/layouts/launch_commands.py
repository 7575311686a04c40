"""Parallel layouts by name, and the launch commands that ask for them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from triage.common.commands import command
from triage.common.errors import RefusedError, UsageError
from triage.engines import ENGINES, engine_named
from triage.evidence.discovery.command_line import layout_of, parse_arguments, recognise
from triage.evidence.model import Layout
from triage.evidence.redaction.redactor import Redactor

MAX_SIZE = 4096

_NAME = re.compile(r"(?:(?:tp|pp|dp|ep)[0-9]{1,4})+")
_PART = re.compile(r"(tp|pp|dp|ep)([0-9]{1,4})")
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"';|&]+)"""


def _starts() -> list[str]:
    """Patterns of what stands before an engine's arguments."""
    found: list[str] = []
    for start in (engine.command for engine in ENGINES.values()):
        found += map(re.escape, start.modules)
        subcommand = rf"\s+{re.escape(start.subcommand)}" if start.subcommand else ""
        found += (re.escape(each) + subcommand for each in (*start.programs, *start.serve_modules))
    return found


_START = re.compile(rf"\b(?:{'|'.join(_starts())})(?=\s|$)")


def parse_layout(text: str) -> Layout:
    """`tp2pp4`. `ep8` alone is tensor parallelism over the same 8 as well.

    Raises UsageError.
    """
    name = text.strip().lower()
    sizes = {kind: int(size) for kind, size in _PART.findall(name)}
    if (
        not _NAME.fullmatch(name)
        or len(sizes) != len(_PART.findall(name))
        or not all(1 <= size <= MAX_SIZE for size in sizes.values())
    ):
        raise UsageError(
            "reading the layout",
            repr(text),
            "it is not like tp8, pp8, ep8 or tp2pp4",
            command("bench --help"),
        )
    if "ep" in sizes:
        sizes.setdefault("tp", sizes["ep"])
    return Layout(**sizes)


def name_of(layout: Layout) -> str:
    return "".join(f"{kind}{size}" for kind, size in asdict(layout).items() if size > 1) or "tp1"


def with_layout(argv: Sequence[str], engine: str, layout: Layout) -> tuple[str, ...]:
    """The launch command for another layout: every size is set, nothing else is touched.

    A script behind a shell's -c is changed in its text. Raises RefusedError where the command does not
    show where its arguments are, UsageError for a layout that the engine has no arguments for.
    """
    words = list(argv)
    launch = recognise(words)
    if launch is None:
        raise _unclear(words)
    script = _script_at(words)
    if script is not None:
        if not _START.search(words[script]):
            raise _unclear(words)
        words[script] = _in_text(words[script], engine, layout)
    else:
        start = len(words) - len(launch.arguments)
        words[start:] = _sized(launch.arguments, engine, layout)
    _require(words, engine, layout)
    return tuple(words)


def _require(words: Sequence[str], engine: str, layout: Layout) -> None:
    """Read back, the command asks for this layout."""
    launch = recognise(words)
    if launch is None:
        raise _unclear(words)
    found = layout_of(engine, parse_arguments(engine, launch.arguments)[0])
    if found != layout:
        raise UsageError(
            "trying",
            name_of(layout),
            f"{engine}'s arguments for it mean {name_of(found)}",
            f"name {name_of(found)}, or leave it out",
        )


def _script_at(words: Sequence[str]) -> int | None:
    """Return where the script of a shell's -c is."""
    for index, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word) and re.fullmatch(
            r"(?:ba|da|z|k|a)?sh", posixpath.basename(words[0])
        ):
            return index + 1
    return None


def _sized(words: Sequence[str], engine: str, layout: Layout) -> Iterator[str]:
    """The arguments, without those of the layout, and these."""
    flags = {
        spelling: flag
        for flag in _flags(engine, layout)
        for spelling in (flag, *_other_spellings(engine, flag))
    }
    skip = False
    for word in words:
        name, equals, _ = word.lstrip("-").partition("=")
        flag = flags.get(name.replace("_", "-")) if word.startswith("-") else None
        if skip:
            skip = False
        elif flag:
            skip = not equals and flag != engine_named(engine).command.expert_switch
        else:
            yield word
    for flag, value in _flags(engine, layout).items():
        if value is not None:
            yield from (f"--{flag}", value) if value else (f"--{flag}",)


def _in_text(script: str, engine: str, layout: Layout) -> str:
    for flag in _flags(engine, layout):
        names = "|".join(
            re.escape(name).replace(r"\-", "[-_]") for name in (flag, *_other_spellings(engine, flag))
        )
        value = "" if flag == engine_named(engine).command.expert_switch else rf"(?:=|\s+){_VALUE}"
        script = re.sub(rf"(?<!\S)--?(?:{names}){value}(?=\s|$|[;|&'\"])\s?", "", script)
    given = "".join(
        f" --{flag} {value}".rstrip() for flag, value in _flags(engine, layout).items() if value is not None
    )
    return _START.sub(lambda found: found[0] + given, script, count=1)


def _flags(engine: str, layout: Layout) -> Mapping[str, str | None]:
    """Every flag of the layout with its value; "" for a switch that is on, None for what is not given."""
    sizes, command = asdict(layout), engine_named(engine).command
    found: dict[str, str | None] = {
        flag: str(sizes[kind]) if sizes[kind] > 1 else None for kind, flag in command.sizes.items()
    }
    if command.expert_switch:
        found[command.expert_switch] = "" if layout.ep > 1 else None
    return found


def _other_spellings(engine: str, flag: str) -> list[str]:
    return [spelling for spelling, name in engine_named(engine).command.aliases.items() if name == flag]


def _unclear(words: Sequence[str]) -> RefusedError:
    return RefusedError(
        "change the layout of",
        Redactor().redact(" ".join(words))[:200],
        "the command does not show the engine's arguments: a script or a variable holds them",
        "put them into ExecStart, or change the layout there and run triage verify for each",
    )
