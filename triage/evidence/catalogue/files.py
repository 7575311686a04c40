"""Files and directories."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from triage.common.json import parse_json
from triage.evidence.model import MEBI, Query, Unanswered
from triage.hosts.connection import Output

MAX_FILE = 8 * MEBI  # the largest index of a model's weights has four
TAIL = 64 * MEBI


@dataclass(frozen=True)
class ReadFile(Query[str]):
    """A text file. Bytes that are not UTF-8 come as lone surrogates (`surrogateescape`), so that
    encoding it the same way gives the file's own bytes.

    Whoever may write into a tree can make a link in it to a file that only we may read. Program text and
    settings (`ALIKE`) are read through links to files of the same kind, as uv and conda make them, and JSON
    only where it is JSON: the caches of models link to files that are named by their hashes.

    `reader` is the account of the service whose script, setting or model names the file: root reads it as
    that account, which may name a file that it may not read.
    """

    name: ClassVar[str] = "read-file"
    purpose: ClassVar[str] = "read installed source, a model's config.json, a start script"
    absence: ClassVar[str] = "a probe that needs it is missing; a patch cannot be planned from it"
    privilege: ClassVar[str] = "read permission on the file"
    limit: ClassVar[int] = MAX_FILE

    path: str
    reader: str = field(default="", compare=False)

    def account(self) -> str:
        return self.reader

    def argv(self) -> tuple[str, ...]:
        return read_command(self.path)

    def places(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def is_source(self) -> bool:
        return self.path.endswith(".py")

    def decode(self, output: Output) -> str:
        super().decode(output)
        text = output.stdout.decode("utf-8", "surrogateescape")
        require_json(self.path, text)
        return text

    def parse(self, text: str) -> str:
        return text


def require_json(path: str, text: str) -> None:
    """Raises Unanswered for a file that is called JSON and does not begin like it."""
    if path.endswith(".json") and not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        raise Unanswered("it is not JSON")


ALIKE = (".py", ".sh", ".env", ".inc", ".yaml", ".yml")
_ALIKE = (
    'real=$(readlink -f -- "$2"); case ${real:-$2} in *"$1") exec cat -- "${real:-$2}" ;; esac; '
    'echo "it is a link to $real, which is no *$1" >&2; exit 1'
)


def read_command(path: str) -> tuple[str, ...]:
    """What prints a file, and refuses to do so through a link to one of another kind."""
    kind = next((kind for kind in ALIKE if path.endswith(kind)), "")
    return ("sh", "-c", _ALIKE, "read-source", kind, path) if kind else ("cat", "--", path)


@dataclass(frozen=True)
class TailFile(Query[str]):
    """The last 64 MiB of a log file. Bytes that are not UTF-8 come as in ReadFile."""

    name: ClassVar[str] = "tail-file"
    purpose: ClassVar[str] = "read the log file of a service that does not log to the journal"
    absence: ClassVar[str] = "the log is not read, and the command says so: give it with --log FILE"
    privilege: ClassVar[str] = "read permission on the file"
    limit: ClassVar[int] = TAIL + 1

    path: str

    def argv(self) -> tuple[str, ...]:
        return ("tail", "-c", str(TAIL), "--", self.path)

    def places(self) -> tuple[str, ...]:
        return (self.path,)

    def decode(self, output: Output) -> str:
        super().decode(output)
        return output.stdout.decode("utf-8", "surrogateescape")

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class TailLog(TailFile):
    """Asks for the end of a file that a script names as its log, not through a link to what is none."""

    name: ClassVar[str] = "tail-log"
    purpose: ClassVar[str] = "read the log file to which a start script sends what its service says"

    reader: str = field(default="", compare=False)

    def account(self) -> str:
        return self.reader

    def argv(self) -> tuple[str, ...]:
        return ("sh", "-c", _LOG, "tail-log", str(TAIL), self.path)


LOGS = (".log", ".out", ".err")
_LOG = (
    'real=$(readlink -f -- "$2"); '
    'case ${real:-$2} in *.log|*.out|*.err) exec tail -c "$1" -- "${real:-$2}" ;; esac; '
    'echo "$real is called neither .log, .out nor .err" >&2; exit 1'
)

_LISTING = r"""
cd -- "$1" || exit;
for name in * .[!.]* ..?*; do
    if [ -L "$name" ]; then kind=l; elif [ -d "$name" ]; then kind=d; elif [ -f "$name" ]; then kind=f;
    elif [ -e "$name" ]; then kind=o; else continue; fi;
    printf "%s %s %s\000" $kind "$(stat -c %s -- "$name")" "$name";
done
"""


@dataclass(frozen=True)
class DirectoryEntry:
    kind: Literal["file", "directory", "link", "other"]
    size: int  # bytes
    name: str


@dataclass(frozen=True)
class ListDirectory(Query[tuple[DirectoryEntry, ...]]):
    """What a directory holds, by name.

    $ find PATH -mindepth 1 -maxdepth 1 -printf '%y %s %f\\0'        (GNU; elsewhere a shell says it)
    f 1532 config.json\\0d 4096 .cache\\0
    """

    name: ClassVar[str] = "list-directory"
    purpose: ClassVar[str] = "see which files a model or a package has"
    absence: ClassVar[str] = "probes on the files of a checkpoint are missing"
    privilege: ClassVar[str] = "read permission on the directory"
    limit: ClassVar[int] = 2 * MEBI

    path: str
    reader: str = field(default="", compare=False)

    def account(self) -> str:
        return self.reader

    def argv(self) -> tuple[str, ...]:
        # a path that begins with - would be an option of find
        path = self.path if self.path.startswith("/") else f"./{self.path}"
        return ("find", path, "-mindepth", "1", "-maxdepth", "1", "-printf", "%y %s %f\\0")

    def lesser(self) -> tuple[str, ...]:
        return ("sh", "-c", " ".join(_LISTING.split()), "list", self.path)

    def places(self) -> tuple[str, ...]:
        return (self.path,)

    def falls_short(self, output: Output) -> bool:
        return output.code == 127 or b"-printf" in output.stderr

    def decode(self, output: Output) -> str:
        rows = []
        for item in super().decode(output).split("\0")[:-1]:
            kind, _, rest = item.partition(" ")
            size, _, name = rest.partition(" ")
            rows.append([kind, int(size) if size.isdecimal() else 0, name])
        return "".join(f"{json.dumps(row)}\n" for row in sorted(rows, key=lambda row: str(row[2])))

    def parse(self, text: str) -> tuple[DirectoryEntry, ...]:
        kinds: dict[str, Literal["file", "directory", "link"]] = {"f": "file", "d": "directory", "l": "link"}
        try:
            rows = [parse_json(line) for line in text.splitlines()]
            return tuple(
                DirectoryEntry(kinds.get(kind, "other"), int(size), str(name)) for kind, size, name in rows
            )
        except (ValueError, TypeError):
            raise Unanswered(f"the listing of {self.path} is damaged") from None


@dataclass(frozen=True)
class Place:
    """A path that is there. `mode` is octal, as chmod takes it."""

    path: str
    kind: str  # `directory`, `regular file`, ...
    owner: str
    mode: str


@dataclass(frozen=True)
class Places(Query[tuple[Place, ...]]):
    """Which of some paths are there, and whose they are.

    $ stat -L -c '%F|%U|%a|%n' -- /home/svc/.triton/cache ...
    directory|root|755|/home/svc/.triton/cache
    """

    name: ClassVar[str] = "places"
    purpose: ClassVar[str] = "see where compiled kernels are kept, and whether the service may write there"
    absence: ClassVar[str] = "a case says nothing of the places where compiled kernels are kept"

    paths: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        return ("stat", "-L", "-c", "%F|%U|%a|%n", "--", *self.paths)

    def decode(self, output: Output) -> str:
        if output.code not in (0, 1):  # 1: some are not there
            super().decode(output)
        return output.stdout.decode("utf-8", "backslashreplace")

    def parse(self, text: str) -> tuple[Place, ...]:
        rows = (line.split("|", 3) for line in text.splitlines())
        found = (Place(row[3], *row[:3]) for row in rows if len(row) == 4)
        return tuple(place for place in found if place.path in self.paths)
