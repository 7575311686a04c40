"""Which scripts start an engine, told by what stands in them; their text stays where it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from triage.engines import ENGINES
from triage.evidence.model import MEBI, Query

Kind = Literal["python", "shell"]
KINDS: Mapping[str, Kind] = MappingProxyType({"python": "python", "shell": "shell"})

_PACKAGES = "|".join(engine.package.name for engine in ENGINES.values() if engine.package.name)
_PROGRAMS = "|".join(program for engine in ENGINES.values() for program in engine.command.programs)
_SCRIPT = r"""
for file; do
    first=$(head -n 1 -- "$file" 2>/dev/null | head -c 200 | tr -d "\000");
    case $first,$file in "#!"*python*|*.py) kind=python ;; "#!"*) kind=shell ;; *) continue ;; esac;
    case $kind in python) word="^[[:space:]]*(from|import) +(PACKAGES)" ;; *) word="PROGRAMS" ;; esac;
    if head -c 262144 -- "$file" | grep -qaE -e "$word"; then printf "%s %s\n" $kind "$file"; fi;
done 2>/dev/null; :
""".replace("PACKAGES", _PACKAGES).replace("PROGRAMS", _PROGRAMS)


@dataclass(frozen=True)
class EngineScripts(Query[Mapping[str, Kind]]):
    """Those of some files that are scripts and name an engine, with what they are written in.

    python /srv/app/server.py
    shell /opt/bin/start-kimi
    """

    name: ClassVar[str] = "engine-scripts"
    purpose: ClassVar[str] = "tell which failed services start an engine in a script of their own"
    absence: ClassVar[str] = "a failed service that starts an engine in a script is only found by its name"
    limit: ClassVar[int] = MEBI

    paths: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        return ("sh", "-c", " ".join(_SCRIPT.split()), "engine-scripts", *self.paths)

    def parse(self, text: str) -> Mapping[str, Kind]:
        lines = (line.partition(" ") for line in text.splitlines())
        return {path: KINDS[kind] for kind, _, path in lines if kind in KINDS and path in self.paths}
