"""The part of patching that runs on the host: reads modules, changes files, keeps the ledger.

One file, standard library alone, Python 3.6 or newer. `remote` sends it on standard input after `owner`,
together with a request, to the interpreter of the tree that is patched, or for root to one that only root can
change; it answers with one JSON object,
`{"ok": true, ...}` or `{"ok": false, "kind": KIND, "message": WHY}`.

    {"op": "read", "roots": [DIR], "modules": [NAME]}     -> {"files": [...]}
    {"op": "search", "roots": [DIR], "package": NAME, "needles": [TEXT], "skipped": [TEXT],
     "seconds": N}
                                                          -> {"files": [...], "looked": N, "unread": [...]}
    {"op": "status", "roots": [DIR]}                      -> {"changes": [...]}
    {"op": "apply", "patch": ID, "distribution": NAME, "by": WHO, "context": {NAME: VALUE},
     "files": [{"module": .., "path": .., "before": SHA256, "after": SHA256, "data": BASE64}]}
                                                          -> {"change": {...}, "new": true}
    {"op": "rollback", "change": ID, "by": WHO}           -> {"change": {...}, "new": true}
    {"op": "retire", "changes": [ID], "note": WHY, "by": WHO}    -> {"changes": [those]}
    {"op": "recover", "by": WHO}                          -> {"changes": [those that it settled]}
    {"op": "show", "change": ID}                          -> {"change": {...}, "before": [BASE64],
                                                             "now": [BASE64]}

The ledger is a directory a change, `changes/ID`, with `change.json` and the old bytes of every file
as `0.before`, `1.before`, ... The directory comes into being, whole and synced, by one rename before
the first file is touched, and `change.json` is only ever replaced, so a cut at any point leaves the
old file or the new one and a record that names both. Files are written beside and renamed. A record
that cannot be read is shown as `unreadable` and blocks nothing else: what may be changed is decided
on the digests of the files.
"""

import base64
import contextlib
import errno
import fcntl
import glob
import hashlib
import importlib.machinery
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Json = dict[str, Any]

if __name__ != "triage_agent":  # as which it is sent, after `owner`
    from triage.remote.owner import Refused, account_of, become, compiles_elsewhere, owned

SYSTEM_LEDGER = "/var/lib/triage"
FORMAT = 1  # of change.json
NAME = re.compile(r"([0-9]{8})T([0-9]{12})Z-[A-Za-z0-9-]+\Z")  # of a change: when, and its patch
RIGHTS = ("owner", "shared")  # why something was refused that another account, or another day, may do
INTERRUPTED = ("applying", "reverting")
STATES = (*INTERRUPTED, "applied", "undone", "reverted", "abandoned")
MAX_FILE = 8 * 1024 * 1024  # bytes
GONE = (FileNotFoundError, NotADirectoryError)
KINDS = {
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "read-only",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
}
ACCESS_LIST = "system.posix_acl_access"
SIGNATURES = ("security.ima", "security.evm")  # of the bytes that a file holds
# In the order in which Python looks for a module.
SUFFIXES = (*importlib.machinery.EXTENSION_SUFFIXES, ".py", ".pyc")


class Target:
    """A file to be replaced. Its directory is held open, so that all steps happen in the same one, each with
    the rights of whoever owns that."""

    def __init__(self, path: "str", changing: "bool" = False) -> "None":
        self.path = path
        self.directory, self.name = os.path.split(path)
        self.changing = changing
        if not os.path.isabs(path):
            raise Refused("changed", f"{path} is no whole path")
        with self.rights():
            if os.path.realpath(self.directory) != self.directory:
                raise Refused("changed", f"{path} does not lead where it did when the change was planned")
            self.fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def rights(self) -> "contextlib.AbstractContextManager[None]":
        return owned(self.directory, self.changing, self.path)

    def close(self) -> "None":
        os.close(self.fd)

    def stat(self) -> "os.stat_result":
        with self.rights():
            return os.stat(self.name, dir_fd=self.fd)

    def link(self) -> "str":
        """What it points to where it is a symbolic link, else ""."""
        try:
            with self.rights():
                return os.readlink(self.name, dir_fd=self.fd)
        except OSError:
            return ""

    def read(self) -> "bytes":
        with self.rights():
            return read_file(self.path, self.name, self.fd)

    def digest(self) -> "str":
        """SHA-256 of its bytes; "" when it is gone."""
        try:
            return sha256(self.read())
        except GONE:
            return ""

    def stage(self, temporary: "str", data: "bytes") -> "None":
        """Write the new file beside the old one: same mode, owner and extended attributes, synced."""
        like = self.stat()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.rights():
            fd = os.open(temporary, flags, 0o600, dir_fd=self.fd)
            try:
                write_all(fd, data)
                new = os.fstat(fd)
                if (new.st_uid, new.st_gid) != (like.st_uid, like.st_gid):
                    os.fchown(fd, like.st_uid, like.st_gid)
                os.fchmod(fd, stat.S_IMODE(like.st_mode))
                keep_attributes(self.path, fd)
                os.fsync(fd)
            finally:
                os.close(fd)

    def stage_old(self, temporary: "str", data: "bytes", link: "str") -> "None":
        """As `stage`; of what was a symbolic link that link, where it still leads to the same bytes."""
        if link:
            with self.rights():
                os.symlink(link, temporary, dir_fd=self.fd)
                with contextlib.suppress(OSError, Refused):
                    if read_file(self.path, temporary, self.fd) == data:
                        return
            self.discard(temporary)
        self.stage(temporary, data)

    def replace(self, temporary: "str") -> "None":
        with self.rights():
            os.rename(temporary, self.name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            os.fsync(self.fd)

    def discard(self, temporary: "str") -> "None":
        with contextlib.suppress(FileNotFoundError), self.rights():
            # A read-only file system refuses to remove even what is not there.
            os.stat(temporary, dir_fd=self.fd, follow_symlinks=False)
            os.unlink(temporary, dir_fd=self.fd)

    def forget_bytecode(self) -> "list[str]":
        """Remove what was compiled from earlier source; give what stays and would be run all the same."""
        stem, left = self.name[: -len(".py")], []
        cache = os.path.join(self.directory, "__pycache__")
        with self.rights():
            try:
                names = os.listdir(cache)
            except OSError:
                return []
            for name in names:
                if name.startswith(stem + ".") and name.endswith(".pyc"):
                    path = os.path.join(cache, name)
                    try:
                        os.unlink(path)
                    except OSError:
                        if is_run(path, self.stat()):
                            left.append(path)
        return left


class Ledger:
    """The changes on record in one directory."""

    def __init__(self, directory: "str") -> "None":
        self.directory = directory
        self.changes = os.path.join(directory, "changes")

    @contextlib.contextmanager
    def locked(self, by: "str") -> "Iterator[None]":
        """Hold the ledger alone. Raises Refused when another run does."""
        make_directory(self.changes)
        path = os.path.join(self.directory, "lock")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)  # whoever can open it can hold it
            try:
                with naming(path):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, f"{by}, pid {os.getpid()}, since {now()}".encode(), 0)
            except BlockingIOError:
                holder = os.read(fd, 500).decode("utf-8", "replace").strip()
                raise Refused("locked", holder or "another run") from None
            yield
        finally:
            os.close(fd)

    def names(self) -> "list[str]":
        try:
            return sorted(name for name in os.listdir(self.changes) if NAME.match(name))
        except GONE:
            return []

    def load(self) -> "list[Json]":
        """Every change, oldest first; one that cannot be read is `unreadable`, its note says why."""
        changes = []
        for name in self.names():
            try:
                changes.append(self.get(name))
            except (OSError, Refused) as error:
                texts = dict.fromkeys(("patch", "at", "by", "distribution", "version"), "")
                why = {"id": name, "state": "unreadable", "files": [], "notes": [str(error)]}
                changes.append(dict(texts, ledger=self.directory, **why))
        return changes

    def get(self, name: "str") -> "Json":
        """One change. Raises Refused for a name that is not there and a record that cannot be read."""
        if name not in self.names():
            raise Refused("unknown", f"there is no change {name} in {self.directory}")
        path = os.path.join(self.changes, name, "change.json")
        try:
            change = json.loads(read_file(path).decode("utf-8"))  # type: Json
            newer = change.get("format", FORMAT) > FORMAT
            if not newer:
                check_record(change, name)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, *GONE):
            happened = f"{path} is not a record of a change; its files' old bytes are beside it, as N.before"
            raise Refused("ledger", happened) from None
        if newer:
            raise Refused("ledger", f"{path} was written by a newer version of triage")
        change["ledger"] = self.directory
        return change

    def next_name(self, patch: "str") -> "str":
        """A name that sorts after all others, wherever the clock went meanwhile."""
        seconds = time.time()
        digits = time.strftime("%Y%m%d%H%M%S", time.gmtime(seconds)) + f"{int(seconds % 1 * 1e6):06d}"
        last = NAME.match(max(self.names(), default=""))
        if last and "".join(last.groups()) >= digits:
            digits = str(int("".join(last.groups())) + 1)
        return f"{digits[:8]}T{digits[8:]}Z-{patch}"

    def begin(self, change: "Json", backups: "list[bytes]") -> "None":
        """Record what is about to happen, with the old bytes."""
        new = os.path.join(self.changes, ".new-" + change["id"])
        os.mkdir(new, 0o755)
        for index, data in enumerate(backups):
            write_file(os.path.join(new, f"{index}.before"), data, 0o600)
        write_file(os.path.join(new, "change.json"), encoded(change))
        sync(new)
        os.rename(new, os.path.join(self.changes, change["id"]))
        sync(self.changes)

    def settle(self, change: "Json", state: "str", note: "str" = "") -> "None":
        """Record what has come of a change."""
        change["state"] = state
        if note and note not in change["notes"]:
            change["notes"].append(note)
        directory = os.path.join(self.changes, change["id"])
        temporary = os.path.join(directory, ".change.json")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        write_file(temporary, encoded(change))
        os.rename(temporary, os.path.join(directory, "change.json"))
        sync(directory)

    def backup(self, change: "Json", index: "int") -> "bytes":
        """The old bytes of a file. Raises Refused when they are not what was put away."""
        path = os.path.join(self.changes, change["id"], f"{index}.before")
        data = read_file(path)
        if sha256(data) != change["files"][index]["before"]:
            raise Refused("backup", f"{path} is not what was put away")
        return data

    def recover(self, paths: "set[str] | None" = None) -> "list[Json]":
        """Finish or take back what an earlier run left in the middle; give the changes it settled.

        With `paths`, a change of other files that cannot be settled now is left for later.
        """
        for name in os.listdir(self.changes):
            if name.startswith(".new-"):  # cut before it was on record: no file was touched
                discard_directory(os.path.join(self.changes, name))
        settled = []
        for change in self.load():
            if change["state"] not in INTERRUPTED:
                continue
            try:
                if change["state"] == "applying":
                    self.finish_or_undo(change)
                else:
                    self.restore(change)
            except (Refused, *GONE) as error:
                if isinstance(error, Refused) and error.kind in RIGHTS:
                    if paths is None or paths & paths_of(change):
                        raise
                    continue
                self.settle(change, "abandoned", str(error))
            except OSError:
                if paths is None or paths & paths_of(change):
                    raise
                continue
            settled.append(change)
        return settled

    def finish_or_undo(self, change: "Json") -> "None":
        """An apply that did not come to its end: done where all files are new, taken back otherwise."""
        with targets(change, True) as places:
            if all(place.digest() == file["after"] for place, file in zip(places, change["files"])):
                for index, place in enumerate(places):
                    place.discard(temporary(change, index))
                self.settle(change, "applied", bytecode_note(places))
                return
        self.restore(change, "undone")

    def restore(self, change: "Json", state: "str" = "reverted", note: "str" = "") -> "None":
        """Put the old bytes back where the new ones are, and record it."""
        foreign = []
        with targets(change, True) as places:
            for index, place in enumerate(places):
                file, beside = change["files"][index], temporary(change, index)
                place.discard(beside)
                found = place.digest()
                if found == file["after"]:
                    old = self.backup(change, index)
                    with naming(place.path):
                        place.stage_old(beside, old, file["symlink"])
                        place.replace(beside)
                elif found != file["before"]:
                    foreign.append(file["path"])
            note = bytecode_note(places) or note
        if foreign:
            note = f"{', '.join(foreign)} was changed by another hand and is left as it is"
            state = "abandoned"
        self.settle(change, state, note)


def read(request: "Json") -> "Json":
    """The bytes of modules, from the first root that has them."""
    foreign = bool(is_other(request.get("python", "")))
    return {"files": [read_module(request["roots"], module, foreign) for module in request["modules"]]}


def of_another_python(base: "str") -> "str":
    """The extension module of that name that another Python than this one would import, if any."""
    return next(iter(glob.glob(glob.escape(base) + ".cpython-*.so")), "")


def read_module(roots: "list[str]", module: "str", foreign: "bool" = False) -> "Json":
    found = {"module": module}  # type: Json
    if not all(part.isidentifier() for part in module.split(".")):
        return dict(found, missing=True)
    for root in roots:
        archive = file_in(root)
        if archive:
            return dict(found, error=f"{archive} is an archive; only an unpacked package can be changed")
        stem = os.path.join(root, *module.split("."))
        for base in (os.path.join(stem, "__init__"), stem):
            compiled = of_another_python(base) if foreign else ""
            if compiled:
                return dict(found, error=f"{compiled} is what is imported, and it is not source")
        for path in (base + suffix for base in (os.path.join(stem, "__init__"), stem) for suffix in SUFFIXES):
            try:
                os.stat(path)
                if not path.endswith(".py"):
                    return dict(found, error=f"{path} is what is imported, and it is not source")
                text = base64.b64encode(read_source(path)).decode("ascii")
            except GONE:
                continue
            except (OSError, Refused) as error:
                return dict(found, error=said(error))
            directory, name = os.path.split(path)
            return dict(found, path=os.path.join(os.path.realpath(directory), name), data=text)
    return dict(found, missing=True)


def search(request: "Json") -> "Json":
    """The files of a package that hold one of some texts; what was not looked at, and why, as `unread`."""
    needles = [needle.encode() for needle in request["needles"]]
    files, unread, looked = [], [], 0
    end = time.monotonic() + request["seconds"]

    def unlisted(error: "OSError") -> "None":
        if not isinstance(error, GONE):
            unread.append([error.filename, said(error)])

    for root in request["roots"]:
        archive = file_in(root)
        if archive:
            unread.append([archive, "only an unpacked package can be read"])
        top = os.path.join(root, request["package"])
        for place, directories, names in os.walk(top, onerror=unlisted):
            directories.sort()
            if time.monotonic() > end:
                unread.append([place, "neither it nor what comes after it was looked at: the time was up"])
                break
            for name in sorted(names):
                path = os.path.join(place, name)
                if not name.endswith(".py") or any(part in path for part in request["skipped"]):
                    continue
                looked += 1
                try:
                    data = read_source(path)
                except (OSError, Refused) as error:
                    unread.append([path, said(error)])
                    continue
                if any(needle in data for needle in needles):
                    stem = os.path.relpath(path, root)[: -len(".py")].replace(os.sep, ".")
                    module = stem[: -len(".__init__")] if stem.endswith(".__init__") else stem
                    text = base64.b64encode(data).decode("ascii")
                    files.append({"module": module, "path": path, "data": text})
        if looked:
            break
    return {"files": files, "looked": looked, "unread": unread}


def status(request: "Json") -> "Json":
    """Every change on record for this user, for root, and for the owners of the roots."""
    changes = [described(change) for change in own_ledger(request).load()]
    for directory in other_ledgers(request):
        with contextlib.suppress(OSError), owned(directory):
            changes.extend(described(change) for change in Ledger(directory).load())
    return {"changes": sorted(changes, key=lambda change: change["id"])}


@contextlib.contextmanager
def alone(paths: "set[str]") -> "Iterator[None]":
    """Hold the directories of files alone, also against those whose ledger, and so its lock, is another."""
    with contextlib.ExitStack() as held:
        for directory in sorted({os.path.realpath(os.path.dirname(path)) for path in paths}):
            try:
                with owned(directory):
                    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                continue  # whoever wants to change a file there says so
            held.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_held_by_one_of_us(fd, directory):
                    raise Refused("locked", "it changes files in " + directory) from None
            except OSError:
                continue  # a file system on which a directory cannot be locked
        yield


def is_held_by_one_of_us(fd: "int", directory: "str") -> "bool":
    """Whether root, this account or the one that owns the directory locks it; everybody who sees it can."""
    ours = {0, os.geteuid(), account_of(directory)[0]}
    inode = os.fstat(fd).st_ino
    with open("/proc/locks", encoding="ascii", errors="replace") as table:
        locks = [line.split() for line in table]
    for fields in locks:
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{fields[4]}").st_uid in ours and has_open(fields[4], fd):
                    return True
    return False


def has_open(pid: "str", fd: "int") -> "bool":
    """Whether a process has the same file open, as far as may be seen: its number may be that of another."""
    place = f"/proc/{pid}/fd"
    try:
        names = os.listdir(place)
    except PermissionError:
        return True
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(os.path.join(place, name)), os.fstat(fd)):
                return True
    return False


def apply(request: "Json") -> "Json":
    ledger = own_ledger(request)
    with ledger.locked(request["by"]), alone(paths_of(request)):
        ledger.recover(paths_of(request))
        change = {
            "format": FORMAT,
            "id": ledger.next_name(request["patch"]),
            "patch": request["patch"],
            "state": "applying",
            "at": now(),
            "by": "{} as {}".format(request["by"], user()),
            "distribution": request["distribution"],
            "context": request.get("context", {}),
            "files": [],
            "notes": [],
            "ledger": ledger.directory,
        }  # type: Json
        contents = [base64.b64decode(file["data"]) for file in request["files"]]
        for file in request["files"]:
            change["files"].append({key: file[key] for key in ("module", "path", "before", "after")})
        with targets(change, True) as places:
            earlier = already_applied(ledger, change, places)
            if earlier is not None:
                return {"change": described(earlier), "new": False}
            backups = []
            for place, file, data in zip(places, change["files"], contents):
                old = place.read()
                if sha256(old) != file["before"]:
                    raise Refused("changed", file["path"] + " is not what the change was planned on")
                if sha256(data) != file["after"] or data == old:
                    raise Refused("request", file["path"] + " would not change, or did not arrive whole")
                check_compiles(data, file["path"], request.get("python", ""))
                file["links"], file["symlink"] = place.stat().st_nlink, place.link()
                backups.append(old)
            change["version"] = installed_version(change)
            ledger.begin(change, backups)
            try:
                replace_all(change, places, contents)
            except BaseException as error:
                with contextlib.suppress(OSError, Refused):  # what this cannot do, the next run does
                    ledger.restore(change, "undone", said(error))
                raise
            ledger.settle(change, "applied")
        return {"change": described(change), "new": True}


def replace_all(change: "Json", places: "list[Target]", contents: "list[bytes]") -> "None":
    for index, (place, data) in enumerate(zip(places, contents)):
        with naming(place.path):
            place.stage(temporary(change, index), data)
    for index, (place, file) in enumerate(zip(places, change["files"])):
        with naming(place.path):
            if place.digest() != file["before"]:
                raise Refused("changed", file["path"] + " changed in this moment")
            place.replace(temporary(change, index))
            if place.digest() != file["after"]:
                raise Refused("changed", file["path"] + " changed in this moment")
    left = bytecode_note(places)
    if left:
        raise Refused("bytecode", left)


def already_applied(ledger: "Ledger", change: "Json", places: "list[Target]") -> "Json | None":
    """The change on record that made the files what they are to become; None when they are not."""
    if any(place.digest() != file["after"] for place, file in zip(places, change["files"])):
        return None
    wanted = [(file["path"], file["after"]) for file in change["files"]]
    for earlier in reversed(ledger.load()):
        made = [(file["path"], file["after"]) for file in earlier["files"]]
        if earlier["state"] == "applied" and earlier["patch"] == change["patch"] and made == wanted:
            return earlier
    raise Refused("changed", f"{wanted[0][0]} already has the new content, and not by us")


def rollback(request: "Json") -> "Json":
    ledger = holding(request)
    with ledger.locked(request["by"]), alone(paths_of(ledger.get(request["change"]))):
        settled = ledger.recover(paths_of(ledger.get(request["change"])))
        change = ledger.get(request["change"])
        if change["state"] in ("reverted", "undone"):
            return {"change": described(change), "new": change["id"] in [item["id"] for item in settled]}
        if change["state"] != "applied":
            raise Refused("state", "; ".join(["the change is " + change["state"], *change["notes"]]))
        for other in ledger.load():
            if (
                other["state"] == "applied"
                and other["id"] > change["id"]
                and paths_of(other) & paths_of(change)
            ):
                raise Refused("newer", other["id"])
        for file in described(change)["files"]:
            if file["now"] not in (file["before"], file["after"]):
                how = {None: "is gone", "": "cannot be read"}.get(file["now"], "has changed since")
                raise Refused("drifted", file["path"] + " " + how)
        for index in range(len(change["files"])):
            ledger.backup(change, index)
        ledger.settle(change, "reverting")
        ledger.restore(change)
        return {"change": described(change), "new": True}


def retire(request: "Json") -> "Json":
    """Close the record of changes that are in none of their files any more."""
    ledger, settled = own_ledger(request), []
    with ledger.locked(request["by"]):
        for change in [holding(dict(request, change=name)).get(name) for name in request["changes"]]:
            if change["state"] != "applied":
                raise Refused("state", "the change is " + change["state"])
            now = described(change)
            there = [file["path"] for file in now["files"] if file["now"] in ("", file["after"])]
            if there and now["installed"] == change["version"]:
                raise Refused("changed", "the change is still in " + ", ".join(there))
            ledger.settle(change, "abandoned", request["note"])
            settled.append(described(change))
    return {"changes": settled}


def recover(request: "Json") -> "Json":
    ledger = own_ledger(request)
    if not os.path.isdir(ledger.changes):
        return {"changes": []}
    with ledger.locked(request["by"]):
        return {"changes": [described(change) for change in ledger.recover()]}


def show(request: "Json") -> "Json":
    """A change with the old and the present bytes of its files."""
    ledger = holding(request)
    change = ledger.get(request["change"])
    with targets(change) as places:
        present = [place.read() for place in places]
    backups = [ledger.backup(change, index) for index in range(len(present))]
    return {
        "change": described(change),
        "before": [base64.b64encode(data).decode("ascii") for data in backups],
        "now": [base64.b64encode(data).decode("ascii") for data in present],
    }


@contextlib.contextmanager
def targets(change: "Json", changing: "bool" = False) -> "Iterator[list[Target]]":
    """The files of a change, their directories held open."""
    places = []  # type: list[Target]
    try:
        for file in change["files"]:
            places.append(Target(file["path"], changing))
        yield places
    finally:
        for place in places:
            place.close()


@contextlib.contextmanager
def naming(path: "str") -> "Iterator[None]":
    """Make errors name the whole path, not a name in a directory that is held open."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


def paths_of(change: "Json") -> "set[str]":
    return {file["path"] for file in change["files"]}


def temporary(change: "Json", index: "int") -> "str":
    return ".triage-{}-{}".format(change["id"], index)


def keep_attributes(path: "str", fd: "int") -> "None":
    """Give an open file the extended attributes of another, access list and security label included."""
    wanted, present = attributes(path), attributes(fd)
    for name in sorted(wanted):
        if present.get(name) != wanted[name]:
            os.setxattr(fd, name, wanted[name])
    if ACCESS_LIST in present and ACCESS_LIST not in wanted:  # the directory's default
        os.removexattr(fd, ACCESS_LIST)


def attributes(place: "str | int") -> "dict[str, bytes]":
    try:
        names = os.listxattr(place)
    except OSError:
        return {}
    return {name: os.getxattr(place, name) for name in names if name not in SIGNATURES}


def is_run(bytecode: "str", source: "os.stat_result") -> "bool":
    """Whether Python takes this bytecode for that of the source: by a hash that it does not check, or by
    time and size."""
    try:
        head = read_file(bytecode)
    except (OSError, Refused):
        return True
    flags = int.from_bytes(head[4:8], "little")
    if flags & 1:
        return not flags & 2
    stamp = [int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF]
    return [int.from_bytes(head[start : start + 4], "little") for start in (8, 12)] == stamp


def bytecode_note(places: "list[Target]") -> "str":
    left = [path for place in places for path in place.forget_bytecode()]
    return "stale bytecode would be run and could not be removed: " + ", ".join(left) if left else ""


def check_compiles(data: "bytes", path: "str", python: "str" = "") -> "None":
    """Under the interpreter of the tree, where that is another than this one: then as whoever owns it."""
    there = is_other(python)
    if there:
        version, error = there, compiles_elsewhere(there, data, path)
    else:
        version, error = "Python {}.{}".format(*sys.version_info), ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(data, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as caught:
            error = str(caught)
    if error:
        raise Refused("compile", f"{path} would not compile under {version}: {error}") from None


def is_other(python: "str") -> "str":
    """The path of an interpreter that is not the one that runs this; "" where it is, or none is named."""
    found = shutil.which(python) or python if python else ""
    same = os.path.realpath(found) == os.path.realpath(sys.executable)
    return "" if not found or same else found


def check_record(change: "Json", name: "str") -> "None":
    """Raises KeyError, TypeError or ValueError for what is not the record of that change."""
    texts = [change[key] for key in ("patch", "at", "by", "distribution", "version")] + change["notes"]
    texts += change.get("context", {}).values()
    for file in change["files"]:
        texts += [file[key] for key in ("module", "path", "before", "after", "symlink")]
        texts += [] if isinstance(file["links"], int) else [None]
    known = change["id"] == name and change["state"] in STATES and len(change["files"]) > 0
    if not known or not all(isinstance(text, str) for text in texts):
        raise ValueError


def described(change: "Json") -> "Json":
    """A change with what is on disk now: a digest, None where a file is gone, "" where it cannot be read."""
    files = []
    for file in change["files"]:
        found = None  # type: str | None
        try:
            with targets({"files": [file]}) as places:
                found = places[0].digest() or None
        except GONE:
            pass
        except (OSError, Refused):
            found = ""
        files.append(dict(file, now=found))
    return dict(change, files=files, installed=installed_version(change))


def installed_version(change: "Json") -> "str":
    """The version of the distribution beside the first file's package, by its dist-info; "" without one."""
    if not change["files"]:
        return ""
    first = change["files"][0]
    root = first["path"]
    depth = len(first["module"].split(".")) + (1 if root.endswith("/__init__.py") else 0)
    for _ in range(depth):
        root = os.path.dirname(root)
    wanted = re.sub(r"[-_.]+", "_", change["distribution"]).lower()
    found = []
    try:
        with owned(root):
            names = os.listdir(root)
    except OSError:
        return ""
    for name in names:
        match = re.match(r"(.+)-([^-]+)\.dist-info\Z", name)
        if match and re.sub(r"[-_.]+", "_", match.group(1)).lower() == wanted:
            found.append(match.group(2))
    return ", ".join(sorted(found))


def own_ledger(request: "Json") -> "Ledger":
    usual = SYSTEM_LEDGER if os.geteuid() == 0 else home_ledger("~")
    directory = os.path.abspath(os.path.expanduser(request.get("ledger") or usual))
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise Refused("ledger", f"{directory} is not a directory")
    return Ledger(directory)


def other_ledgers(request: "Json") -> "list[str]":
    """Where changes to the same tree may be on record too: root's, and those of the roots' owners."""
    own = own_ledger(request).directory
    if request.get("ledger"):
        return []
    found = [SYSTEM_LEDGER]
    for root in request.get("roots", ()):
        with contextlib.suppress(OSError, KeyError):
            found.append(home_ledger(pwd.getpwuid(os.stat(root).st_uid).pw_dir))
    return [directory for directory in dict.fromkeys(found) if directory != own]


def holding(request: "Json") -> "Ledger":
    """This user's ledger, for a change in it. Raises Refused where the change is in another's."""
    ledger, name = own_ledger(request), request["change"]
    for directory in () if name in ledger.names() else other_ledgers(request):
        with contextlib.suppress(OSError), owned(directory):
            if name in Ledger(directory).names():
                raise Refused("elsewhere", f"it is on record in {directory}")
    return ledger


def home_ledger(home: "str") -> "str":
    return os.path.join(home, ".local", "state", "triage")


def user() -> "str":
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    return f"{name}@{socket.gethostname()}"


def now() -> "str":
    """UTC, as 2026-11-29T16:45:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def sha256(data: "bytes") -> "str":
    return hashlib.sha256(data).hexdigest()


def encoded(change: "Json") -> "bytes":
    kept = {key: value for key, value in change.items() if key != "ledger"}
    return (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode("ascii")


def file_in(path: "str") -> "str":
    """The file that a path leads into or is, such as an egg; "" where all of it are directories."""
    while path and not os.path.isdir(path):
        if os.path.exists(path):
            return path
        path = os.path.dirname(path)
    return ""


def make_directory(path: "str") -> "None":
    """Make a directory and those above it, each on disk before the next."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_directory(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)
    sync(parent)


def discard_directory(path: "str") -> "None":
    for name in os.listdir(path):
        os.unlink(os.path.join(path, name))
    os.rmdir(path)


def read_file(path: "str", name: "str" = "", directory: "int | None" = None) -> "bytes":
    """The bytes of a regular file, and of nothing that could block; `name` is it in an open directory."""
    with naming(path):
        fd = os.open(name or path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Refused("changed", f"{path} is not a regular file")
            parts, size = [], 0  # type: list[bytes], int
            while size <= MAX_FILE:
                part = os.read(fd, 1 << 20)
                if not part:
                    return b"".join(parts)
                parts.append(part)
                size += len(part)
        finally:
            os.close(fd)
    raise Refused("size", f"{path} is larger than {MAX_FILE} bytes")


def read_source(path: "str") -> "bytes":
    """The bytes of a module. Raises Refused for a link to what is no Python source: whoever may write into
    a tree can make one to a file that only we may read."""
    with owned(os.path.dirname(path)):
        real = os.path.realpath(path)
        if os.path.exists(real) and not real.endswith(".py"):
            raise Refused("changed", f"{path} is a link to {real}, which is no Python source")
        return read_file(path)


def write_file(path: "str", data: "bytes", mode: "int" = 0o644) -> "None":
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with naming(path):
            write_all(fd, data)
            os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: "int", data: "bytes") -> "None":
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(directory: "str") -> "None":
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with naming(directory):
            os.fsync(fd)
    finally:
        os.close(fd)


OPERATIONS = {
    "read": read,
    "search": search,
    "status": status,
    "apply": apply,
    "rollback": rollback,
    "retire": retire,
    "recover": recover,
    "show": show,
}


def said(error: "BaseException") -> "str":
    if isinstance(error, OSError):
        return f"{error.filename or error.filename2 or 'the host'}: {error.strerror or error}"
    return str(error) or type(error).__name__


def take_rights(request: "Json") -> "None":
    """Where root is told to keep the ledger in a place of another account, be that account altogether."""
    if os.geteuid() != 0 or not request.get("ledger"):
        return
    directory = os.path.abspath(os.path.expanduser(request["ledger"]))
    uid, gid, shared = account_of(directory)
    if shared:
        raise Refused(
            "shared", f"{shared}, where the ledger is to be, can be changed by more than one account"
        )
    if uid:
        become(uid, gid)


def answer(request: "Json") -> "Json":
    try:
        take_rights(request)
        return dict(OPERATIONS[request["op"]](request), ok=True)
    except Refused as refused:
        return {"ok": False, "kind": refused.kind, "message": str(refused)}
    except OSError as error:
        kind = KINDS.get(error.errno or 0, "failed")
        if kind == "denied" and os.geteuid() == 0:
            kind = "protected"
        return {"ok": False, "kind": kind, "message": said(error)}


def main(request: "Json") -> "None":
    """Answer one request on standard output.

    A lost connection does not stop what has begun: until it is killed, two seconds later, it goes on.
    """
    for asked_to_end in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(asked_to_end, signal.SIG_IGN)
    os.umask(0o022)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer(request)) + "\n")
        sys.stdout.flush()
