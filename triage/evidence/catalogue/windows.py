"""What journald kept of a run, where it tells something: found on the host, and packed.

Of a run of at most `most` lines come its beginning and everything from the first place behind that which
could tell of a fault, as `grep` finds it; all of it, where little lies between. Along a longer one a shell
walks with `journalctl --cursor`, in long steps while there is no such place, in short ones where there is;
those are printed in export form, with the step after them, the beginning of the run and its end. Each part
begins with a line of ours:

    FROM=s=97f3d003b94441c0ab00e47d3acb58ba;i=df;b=...     (the cursor of the entry that must follow)

    __CURSOR=s=97f3d003b94441c0ab00e47d3acb58ba;i=df;b=...
    ...

Steps share an entry, so that the decoder sees whether something was left out between two of them; the end
of a short run begins with no cursor, and says which entry was the last one when it was searched: where more
than `LATE` follow that one, the first place may not be in it. What is left out is longer than any traceback
waits (`triage.logs.reading.windows.PATIENCE`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.catalogue.grep import extended
from triage.evidence.catalogue.journal import (
    FIELDS,
    JOURNAL_LIMIT,
    JOURNAL_TIMEOUT,
    NEEDS,
    check,
    json_lines,
    not_in_vain,
    of_the_run,
    read_export,
    run_matches,
)
from triage.evidence.model import Query, Unanswered, failure_of
from triage.evidence.unpacking import unpack
from triage.hosts.connection import Output
from triage.logs.formats.journal import GAP
from triage.logs.reading.places import patterns
from triage.logs.reading.windows import PATIENCE

OWN_WORDS = r"^(Starting|Started|Stopping|Stopped) "
"""What systemd says of a run without saying that it is systemd."""

LATE = 200
"""Lines of a run that is not over that may come while it is read."""

# `first` and `count` are grep's numbers of the line with the first place, and of the cursor at the end. A
# long step in which something is found is taken again, up to `near` lines before that, and short ones
# follow; `owed` of them are sent. `reach` is the length of the next long step, which grows with each.
_SCRIPT = r"""
LC_ALL=C; export LC_ALL; places=$(cat); short=2400; long=65536; near=64;
most=10000; head=400; late=@LATE@; patience=@PATIENCE@;
journal() { journalctl --no-pager --all "$@"; };
pack=cat;
if command -v zstd; then pack="zstd -1 -q -c"; elif command -v gzip; then pack="gzip -1 -c"; fi >/dev/null;
part() {
    printf "FROM=%s\nSEEN=%s\n\n" "$1" "$seen"; shift;
    journal --output=export $fields "$@" || printf "FAILED=1\n\n";
};
send() { sent=$1; shift; part "$sent" --cursor="$sent" --lines=$short "$@" | $pack; };
begin() { at=$(journal --output=export $fields "$@" 2>/dev/null | sed -n "s/^__CURSOR=//p;q"); };
found() {
    journal --output=cat --show-cursor --cursor="$at" "$@" | grep -naE -e "$places" -e "^-- cursor: ";
};
told() {
    case $# in
        2) first=$1; count=$1; next=$2 ;;
        3) first=$1; count=$2; next=$3 ;;
        *) next= ;;
    esac;
};
fields=--output-fields=@FIELDS@; begin "$@"; if [ -z "$at" ]; then fields=; begin "$@"; fi;
known=; seen=;
if [ "$at" ]; then
    known=$(found --lines=$most "$@" | awk -F: "
        \$1 > $head && first == 0 { first = \$1 }
        END { print first + 0, \$2 ~ /^-- cursor/ ? \$1 : $most + 1, \$3 }");
fi;
first=${known%% *}; known=${known#* }; count=${known%% *};
if [ "$known" ] && [ $count -le $most ]; then
    from=$((first - near - late));
    if [ $from -gt $((head + patience)) ]; then
        part "$at" --cursor="$at" --lines=$head "$@";
        seen=${known##* }; part "" --lines=$((count - from)) "$@";
    else
        part "$at" --cursor="$at" --lines=$((count + late)) "$@";
    fi | $pack;
    exit 0;
fi;
before=; sent=; lines=$short; span=0; reach=$long; owed=2; again=;
while [ "$at" ]; do
    told=$(found --lines=$lines "$@" |
        sed -n "\$s/^\([0-9]*\):-- cursor: \(s=[0-9A-Za-z;=]*\)\$/\1 \2/p;1s/:.*//p");
    told $told;
    if [ -z "$next" ]; then printf "FAILED=1\n\n" | $pack; exit 1; fi;
    hit=; if [ $first -lt $count ]; then hit=1; reach=$((2 * short)); fi;
    last=; if [ $count -le $lines ] || [ "$next" = "$at" ]; then last=1; fi;
    if [ $lines -le $short ]; then
        if [ $hit ]; then owed=2; elif [ $last ] && [ $owed = 0 ]; then owed=1; fi;
        if [ $owed -gt 0 ]; then send "$at" "$@"; owed=$((owed - 1)); fi;
        if [ $last ]; then break; fi;
        span=$lines; again=; if [ $owed = 0 ]; then lines=$reach; fi;
    elif [ $hit$last ]; then
        if [ $again ]; then
            lines=$short;
        elif [ $first -le $near ] && [ "$sent" != "$before" ]; then
            at=$before; lines=$((span - near)); if [ $lines -le $short ]; then lines=$short; owed=2; fi;
        else
            lines=$((first - near)); if [ $lines -le $short ]; then lines=$short; fi;
        fi;
        again=1; continue;
    else
        span=$lines;
        if [ $again ]; then
            again=; lines=$short;
        else
            reach=$((2 * reach)); if [ $reach -gt $long ]; then reach=$long; fi; lines=$reach;
        fi;
    fi;
    before=$at; at=$next;
done
"""

_TOO_MUCH = "the service wrote too much while its journal was searched"


@dataclass(frozen=True)
class JournalWindows(Query[str]):
    """The lines of one run of a unit that tell something, and those around them.

    The value is the canonical text of `Journal`; an entry before which others were left out says so
    with `GAP`. An empty one says that nothing was found this way: `Journal` asks for the whole run.
    """

    name: ClassVar[str] = "journal-windows"
    purpose: ClassVar[str] = "find the places in a long run that tell of a fault, and read those"
    absence: ClassVar[str] = "the whole run is read"
    privilege: ClassVar[str] = NEEDS
    timeout: ClassVar[float] = JOURNAL_TIMEOUT
    limit: ClassVar[int] = JOURNAL_LIMIT

    unit: str
    invocation: str

    def argv(self) -> tuple[str, ...]:
        fields = ",".join((*FIELDS[2:], "COREDUMP_UNIT"))
        script = _SCRIPT.replace("@FIELDS@", fields)
        script = script.replace("@PATIENCE@", str(PATIENCE)).replace("@LATE@", str(LATE))
        script = " ".join(script.split())  # a C shell takes a single line only
        return ("sh", "-c", script, "journal-windows", *self.matches())

    def matches(self) -> tuple[str, ...]:
        return run_matches(self.unit, self.invocation)

    def stdin(self) -> bytes:
        """The places, for grep."""
        return "\n".join((OWN_WORDS, *dict.fromkeys(map(extended, patterns())))).encode()

    def decode(self, output: Output) -> str:
        check(output)
        return not_in_vain(json_lines(self.told(_in_one(output)), (*FIELDS, GAP)), output)

    def told(self, found: Iterable[dict[str, bytes]]) -> Iterable[dict[str, bytes]]:
        """What of the entries counts."""
        return of_the_run(found)

    def parse(self, text: str) -> str:
        return text


def _in_one(output: Output) -> Iterator[dict[str, bytes]]:
    """The entries of all steps, each once. Raises Unanswered where a step is not what was asked for."""
    start = b""  # the cursor that must come next
    last: set[bytes] = set()  # the cursors of the step before, and of this one
    step: set[bytes] = set()
    seen, late = b"", 0  # the last entry when the run was searched, and how many came after it
    gap = False
    for entry in read_export(unpack(output.stdout, JOURNAL_LIMIT)):
        if "FAILED" in entry:
            raise Unanswered(failure_of(output))
        if "FROM" in entry:
            start, seen = entry["FROM"], entry.get("SEEN", b"")
            last, step = step, set()
            gap = bool(last)
            continue
        cursor = entry.get("__CURSOR", b"")
        if start and cursor != start:
            raise Unanswered("journalctl does not begin where it is told to")
        start = b""
        late += seen in step
        if late > LATE:
            raise Unanswered(_TOO_MUCH)
        step.add(cursor)
        if cursor not in last:
            if gap:
                entry[GAP] = b"1"
            yield entry
        gap = False
    if seen and seen not in step and not output.cut:
        raise Unanswered(_TOO_MUCH)
