"""What logrotate, supervisord and their like have put aside of a log file.

service.log.1  service.log.2.gz         logrotate, supervisord
service.log-20261130  service-20261130.log.zst      logrotate with `dateext`, `dateformat`, `extension`
service.log.2026-11-30                  Python's handlers
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import ClassVar

from triage.common.json import parse_json
from triage.evidence.catalogue.files import TAIL, TailFile
from triage.evidence.model import Query, Unanswered
from triage.hosts.connection import Output

MANY = 32
"""Files put aside that are told of, the newest ones."""

REGULAR = 0x8
PACKED = (".gz", ".bz2", ".xz", ".zst")

_DATE = r"[._-]20\d\d-?[01]\d-?[0-3]\d(?:[-_T.]?\d[\d:-]{0,15})?"
_MOMENT = r"[.-]\d{10}"
_NUMBER = r"\.\d{1,4}"
_PACKED = r"(?:\.(?:gz|bz2|xz|zst))?"
_OF_LOG = re.compile(rf"(?P<live>.+\.(?:log|out|err|txt))(?:{_DATE}|{_MOMENT}|{_NUMBER}){_PACKED}", re.DOTALL)
_STAT = re.compile(r"([0-9a-f]{1,8}) (-?\d{1,12}) (\d{1,19}) (.+)/")


@dataclass(frozen=True)
class Rotated:
    """A file that was put aside, and when it was last written to, in seconds since the epoch."""

    path: str
    size: int
    modified: int


def live_name(path: str) -> str:
    """What a log file was called before it was put aside: a process can hold it open under its new name."""
    match = _OF_LOG.fullmatch(path)
    return match["live"] if match else path


@dataclass(frozen=True)
class RotatedLogs(Query[tuple[Rotated, ...]]):
    """The files that were put aside of a log file, the newest first; none of them is a link.

    $ stat -c '%f %Y %s %n/' -- /var/log/service.log[._-][0-9]* /var/log/service[._-]20[0-9]*
    81a4 1795999200 52428800 /var/log/service.log.1/

    The slash, which no name has, tells where a name ends that has line breaks.
    """

    name: ClassVar[str] = "rotated-logs"
    purpose: ClassVar[str] = "find what was put aside of a log file that does not hold the start of a run"
    absence: ClassVar[str] = "the log file alone is read"
    privilege: ClassVar[str] = "read permission on the directory"
    limit: ClassVar[int] = 1 << 20

    path: str

    def argv(self) -> tuple[str, ...]:
        script = 'stat -c "%f %Y %s %n/" -- "$1"[._-][0-9]* "$2"[._-]20[0-9]*'
        return ("sh", "-c", script, "rotated-logs", self.path, self._stem)

    @property
    def _stem(self) -> str:
        return posixpath.splitext(self.path)[0]

    def decode(self, output: Output) -> str:
        if output.code not in (0, 1):  # 1: nothing is called like one of the patterns
            super().decode(output)
        known = {}
        for line in output.stdout.decode("utf-8", "surrogateescape").splitlines():
            match = _STAT.fullmatch(line)
            rest = match[4].removeprefix(self._stem) if match else ""
            if match and int(match[1], 16) >> 12 == REGULAR and self._read(rest):
                known[rest] = (int(match[2]), int(match[3]), rest)
        newest = sorted(known.values(), key=lambda each: (each[0], _order(each[2])), reverse=True)
        return "".join(f"{json.dumps(row)}\n" for row in newest[:MANY])

    def parse(self, text: str) -> tuple[Rotated, ...]:
        try:
            rows = [parse_json(line) for line in text.splitlines()]
            found = [(int(modified), int(size), str(rest)) for modified, size, rest in rows]
        except (ValueError, TypeError):
            raise Unanswered(f"the list of what was put aside of {self.path} is damaged") from None
        paths = {f"{self._stem}{rest}" for _, _, rest in found if self._read(rest)}
        files = [Rotated(f"{self._stem}{rest}", size, modified) for modified, size, rest in found]
        # while one is packed, both are there
        twice = {f"{path}{packed}" for path in paths for packed in PACKED}
        return tuple(file for file in files if file.path in paths - twice)

    def _read(self, rest: str) -> re.Match[str] | None:
        """Whether what follows on the name without its extension is that of a file that was put aside.

        `worker.1.log` is not: it is another worker's.
        """
        extension = re.escape(self.path[len(self._stem) :])
        behind = rf"{extension}(?:{_DATE}|{_MOMENT}|{_NUMBER})"
        return re.fullmatch(rf"(?:{behind}|{_DATE}{extension}){_PACKED}", rest)


def _order(rest: str) -> int:
    """Order files of the same second: the newest has the smallest number, or the latest date."""
    number = re.search(rf"{_NUMBER}(?={_PACKED}$)", rest)
    return -int(number[0][1:]) if number else int("".join(re.findall(r"\d", rest))[:24] or 0)


@dataclass(frozen=True)
class RotatedLog(TailFile):
    """The last 64 MiB of a file that was put aside, unpacked, and not through a link."""

    name: ClassVar[str] = "rotated-log"
    purpose: ClassVar[str] = "read what was put aside of a log file, unpacked by the host's gzip, xz, zstd"
    absence: ClassVar[str] = "the log file alone is read, and the report says so"

    def argv(self) -> tuple[str, ...]:
        return ("sh", "-c", " ".join(_READ.split()), "rotated-log", str(TAIL), self.path)

    def decode(self, output: Output) -> str:
        text = super().decode(output)
        if not text and output.stderr:  # tail ends well, whatever happened before it
            raise Unanswered(output.stderr.decode("utf-8", "replace").strip().splitlines()[-1][:300])
        return text


_READ = """
if [ -L "$2" ] || ! [ -f "$2" ]; then echo "it is a link, or no file" >&2; exit 1; fi;
case $2 in *.gz) with=gzip ;; *.bz2) with=bzip2 ;; *.xz) with=xz ;; *.zst) with=zstd ;;
*) exec tail -c "$1" -- "$2" ;; esac;
if ! command -v $with >/dev/null; then echo "$with is not on this host" >&2; exit 1; fi;
XZ_DEFAULTS=-M256MiB $with -dc <"$2" | tail -c "$1"
"""
