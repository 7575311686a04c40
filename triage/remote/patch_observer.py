"""The part of patching that runs on the host and only looks: times, bytecode, RECORD, processes.

One file, standard library alone, Python 3.6 or newer; `observation` sends it as `remote` sends the agent.

    {"files": [{"path": .., "module": .., "distribution": ..}], "roots": [DIR], "pids": [N]}
        -> {"ok": true,
            "files": [{"path": .., "written": SECONDS, "placed": SECONDS, "recorded": SHA256,
                       "bytecode": [PATH]}],
            "roots": {DIR: where it really is}, "started": {PID: SECONDS}}

Seconds are those of the host's clock since 1970, null where there is none. `written` is when the
file's bytes were, `placed` when it was last linked or renamed to where it is; `recorded` is its hash
in the RECORD of its distribution, "" without one, and `bytecode` what this interpreter would run in
the file's place although it was made from another text.
"""

import base64
import importlib.util
import json
import os
import re
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

MAX_RECORD = 32 * 1024 * 1024  # bytes
MAX_FILE = 16 * 1024 * 1024


def observe(request: "Json") -> "Json":
    records = {}  # type: dict[tuple[str, str], dict[str, str]]
    return {
        "files": [file_facts(file, records) for file in request["files"]],
        "roots": {root: os.path.realpath(root) for root in request["roots"]},
        "started": {str(pid): started(pid) for pid in request["pids"]},
    }


def file_facts(file: "Json", records: "dict[tuple[str, str], dict[str, str]]") -> "Json":
    path, root = file["path"], root_of(file["path"], file["module"])
    key = (root, file["distribution"])
    if key not in records:
        records[key] = record_of(*key)
    recorded = records[key].get(os.path.relpath(path, root), "")
    facts = {"path": path, "written": None, "placed": None, "recorded": recorded, "bytecode": []}  # type: Json
    try:
        found = os.lstat(path)
        facts.update(written=found.st_mtime, placed=found.st_ctime, bytecode=stale_bytecode(path))
    except OSError:
        pass
    return facts


def root_of(path: "str", module: "str") -> "str":
    """The directory that the file's package is imported from."""
    depth = len(module.split(".")) + (1 if path.endswith("/__init__.py") else 0)
    for _ in range(depth):
        path = os.path.dirname(path)
    return path


def record_of(root: "str", distribution: "str") -> "dict[str, str]":
    """SHA-256 by path, as the distribution's installer wrote them down; none where there are several."""
    wanted = re.sub(r"[-_.]+", "_", distribution).lower()
    try:
        names = [name for name in os.listdir(root) if name.endswith(".dist-info")]
    except OSError:
        return {}
    own = [name for name in names if re.sub(r"[-_.]+", "_", name.split("-")[0]).lower() == wanted]
    if len(own) != 1:
        return {}
    text = read(os.path.join(root, own[0], "RECORD"), MAX_RECORD).decode("utf-8", "replace")
    rows = [line.rsplit(",", 2) for line in text.splitlines()]
    return {row[0]: from_base64(row[1][7:]) for row in rows if len(row) == 3 and row[1][:7] == "sha256="}


def from_base64(text: "str") -> "str":
    """`RECORD` has no padding."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
    except ValueError:
        return ""


def stale_bytecode(path: "str") -> "list[str]":
    """Bytecode that this interpreter takes for that of the file: it does not compare every text."""
    tag = sys.implementation.cache_tag
    directory, name = os.path.split(path)
    stem, cache = name[: -len(".py")], os.path.join(directory, "__pycache__")
    try:
        names = [
            each for each in os.listdir(cache) if each.startswith(f"{stem}.{tag}.") and each.endswith(".pyc")
        ]
    except OSError:
        return []
    source, text = os.stat(path), read(path, MAX_FILE)
    return [
        os.path.join(cache, each)
        for each in sorted(names)
        if is_stale(os.path.join(cache, each), source, text)
    ]


def is_stale(bytecode: "str", source: "os.stat_result", text: "bytes") -> "bool":
    head = read(bytecode, MAX_FILE)[:16]
    if len(head) < 16 or head[:4] != importlib.util.MAGIC_NUMBER:
        return False  # Python compiles anew
    flags = int.from_bytes(head[4:8], "little")
    if flags & 1:  # by hash: where it is not checked, it is run whatever the source says
        return not flags & 2 and head[8:] != importlib.util.source_hash(text)
    stamp = (int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    same = (int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:], "little")) == stamp
    return same and os.stat(bytecode).st_mtime < source.st_mtime


def started(pid: "int") -> "float | None":
    """When a process was started; None when there is none of that number."""
    try:
        fields = read(f"/proc/{pid}/stat", 1 << 16).rpartition(b")")[2].split()
        uptime = float(read("/proc/uptime", 1 << 10).split()[0])
        return time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def read(path: "str", limit: "int") -> "bytes":
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def main(request: "Json") -> "None":
    """Answer one request on standard output."""
    sys.stdout.write(json.dumps(dict(observe(request), ok=True)) + "\n")
