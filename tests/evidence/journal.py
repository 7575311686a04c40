"""A journalctl for tests: it walks along entries as the real one does, wherever there is a Python."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path

Entry = dict[str, bytes]

_PROGRAM = """\
#!{python} -ISs
import sys
here = {here!r}
options = dict(word.partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
if {old!r} and "--output-fields" in options:
    sys.exit("journalctl: unrecognized option '--output-fields'")
form = options["--output"] if "--output" in options else "cat"
index = open(here + "/" + form + ".index", "rb").read()
size = len(index) // 8 - 1
if {grows!r}:
    with open(here + "/calls", "a+b") as calls:
        size = min(size, {begins!r} + {grows!r} * calls.tell())
        calls.write(b".")
start = max(0, size - int(options.get("--lines", size)))
if "--cursor" in options:
    start = 0 if {lost!r} else int(options["--cursor"].rpartition("i=")[2], 16)
stop = min(size, start + int(options.get("--lines", size)))
where = [int.from_bytes(index[8 * at : 8 * at + 8], "big") for at in (start, stop)]
try:
    with open(here + "/" + form, "rb") as file:
        file.seek(where[0])
        sys.stdout.buffer.write(file.read(where[1] - where[0]))
    if "--show-cursor" in options and stop > start:
        print(f"-- cursor: s=5;i={{stop - 1:x}}", file=sys.stdout)
    sys.stdout.flush()
except BrokenPipeError:
    sys.stdout = None
"""


def export(*entries: Entry) -> bytes:
    """Entries in export form; a value that is not plain text is written with its length."""
    out = []
    for entry in entries:
        for name, value in entry.items():
            if value.isascii() and b"\n" not in value:
                out.append(name.encode() + b"=" + value + b"\n")
            else:
                out.append(name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n")
        out.append(b"\n")
    return b"".join(out)


def cursor(number: int) -> bytes:
    return b"s=5;i=%x" % number


def put_journalctl(
    directory: Path,
    entries: Sequence[Entry],
    *,
    old: bool = False,
    lost: bool = False,
    begins: int = 0,
    grows: int = 0,
) -> None:
    """A `journalctl` in `directory` that knows these entries, and gives each a cursor.

    `old`: it has no --output-fields, as up to systemd 235. `lost`: it does not go where --cursor says.
    `grows`: at first it knows as many as `begins`, and with each call so many more.
    """
    directory.mkdir(exist_ok=True)
    forms = {
        "export": [export({"__CURSOR": cursor(at), **entry}) for at, entry in enumerate(entries)],
        "cat": [entry["MESSAGE"] + b"\n" for entry in entries],
    }
    for form, pieces in forms.items():
        (directory / form).write_bytes(b"".join(pieces))
        offsets = [0]
        for piece in pieces:
            offsets.append(offsets[-1] + len(piece))
        (directory / f"{form}.index").write_bytes(b"".join(at.to_bytes(8, "big") for at in offsets))
    program = directory / "journalctl"
    words = {"python": sys.executable, "here": str(directory), "old": old, "lost": lost}
    program.write_text(_PROGRAM.format(**words, begins=begins, grows=grows))
    program.chmod(0o755)
