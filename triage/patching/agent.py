"""The part of patching that runs on the host: reads modules, changes files, keeps the ledger.

One file, standard library alone, Python 3.6 or newer. `remote` sends it on standard input together
with a request, to the interpreter of the tree that is patched; it answers with one JSON object,
`{"ok": true, ...}` or `{"ok": false, "kind": KIND, "message": WHY}`.

    {"op": "read", "roots": [DIR], "modules": [NAME]}     -> {"files": [...]}
    {"op": "search", "roots": [DIR], "package": NAME, "needles": [TEXT], "skipped": [TEXT]}
                                                          -> {"files": [...], "looked": N, "unread": [...]}
    {"op": "status", "roots": [DIR]}                      -> {"changes": [...]}
    {"op": "apply", "patch": ID, "distribution": NAME, "by": WHO,
     "files": [{"module": .., "path": .., "before": SHA256, "after": SHA256, "data": BASE64}]}
                                                          -> {"change": {...}, "new": true}
    {"op": "rollback", "change": ID, "by": WHO}                    -> {"change": {...}, "new": true}
    {"op": "recover", "by": WHO}                                 -> {"changes": [those that it settled]}
    {"op": "show", "change": ID}                          -> {"change": {...}, "before": [BASE64],
                                                             "now": [BASE64]}

The ledger is a directory a change, `changes/ID`, with `change.json` and the old bytes of every file
as `0.before`, `1.before`, ... The directory comes into being, whole and synced, by one rename before
the first file is touched, and `change.json` is only ever replaced, so a cut at any point leaves the
old file or the new one and a record that names both. Files are written beside and renamed.
"""

# ruff: noqa: B905 - zip has no `strict` before Python 3.10

import base64
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
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

SYSTEM_LEDGER = "/var/lib/triage"
MAX_FILE = 8 * 1024 * 1024  # bytes
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
FULL = (errno.ENOSPC, errno.EDQUOT)


class Refused(Exception):
    """Nothing was done, or all of it was taken back. `kind` says why in one word."""

    def __init__(self, kind: "str", message: "str") -> "None":
        super().__init__(message)
        self.kind = kind


class Target:
    """A file to be replaced. Its directory is held open, so that all steps happen in the same one."""

    def __init__(self, path: "str") -> "None":
        self.path = path
        self.directory, self.name = os.path.split(path)
        if not os.path.isabs(path) or os.path.realpath(self.directory) != self.directory:
            raise Refused("changed", f"{path} does not lead where it did when the change was planned")
        self.fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> "None":
        os.close(self.fd)

    def stat(self) -> "os.stat_result":
        found = os.stat(self.name, dir_fd=self.fd)
        if not stat.S_ISREG(found.st_mode):
            raise Refused("changed", f"{self.path} is not a regular file")
        return found

    def link(self) -> "str":
        """What it points to where it is a symbolic link, else ""."""
        try:
            return os.readlink(self.name, dir_fd=self.fd)
        except OSError:
            return ""

    def read(self) -> "bytes":
        self.stat()
        fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return read_all(fd, self.path)
        finally:
            os.close(fd)

    def digest(self) -> "str":
        """SHA-256 of its bytes; "" when it is gone."""
        try:
            return sha256(self.read())
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return ""
            raise

    def stage(self, temporary: "str", data: "bytes") -> "None":
        """Write the new file beside the old one: same mode, owner and extended attributes, synced."""
        like = self.stat()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600, dir_fd=self.fd)
        try:
            write_all(fd, data)
            new = os.fstat(fd)
            if (new.st_uid, new.st_gid) != (like.st_uid, like.st_gid):
                os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, stat.S_IMODE(like.st_mode))
            self._keep_attributes(fd)
            os.fsync(fd)
        finally:
            os.close(fd)

    def stage_link(self, temporary: "str", target: "str") -> "None":
        os.symlink(target, temporary, dir_fd=self.fd)

    def replace(self, temporary: "str") -> "None":
        os.rename(temporary, self.name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        os.fsync(self.fd)

    def discard(self, temporary: "str") -> "None":
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.fd)

    def forget_bytecode(self) -> "list[str]":
        """Remove what was compiled from the old source; give what could not be removed.

        Python compares time and size, but not for unchecked bytecode, and a second is a long time.
        """
        stem, left = self.name[: -len(".py")], []
        cache = os.path.join(self.directory, "__pycache__")
        try:
            names = os.listdir(cache)
        except OSError:
            return []
        for name in names:
            if name.startswith(stem + ".") and name.endswith(".pyc"):
                try:
                    os.unlink(os.path.join(cache, name))
                except OSError:
                    left.append(os.path.join(cache, name))
        return left

    def _keep_attributes(self, fd: "int") -> "None":
        path = os.path.join(self.directory, self.name)
        try:
            names = os.listxattr(path)
        except OSError:
            return
        for name in names:
            value = os.getxattr(path, name)
            try:
                same = os.getxattr(fd, name) == value
            except OSError:
                same = False
            if not same:
                os.setxattr(fd, name, value)


class Ledger:
    """The changes on record in one directory."""

    def __init__(self, directory: "str") -> "None":
        self.directory = directory
        self.changes = os.path.join(directory, "changes")

    @contextlib.contextmanager
    def locked(self, by: "str") -> "Iterator[None]":
        """Hold the ledger alone. Raises Refused when another run does."""
        make_directory(self.changes)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.join(self.directory, "lock"), flags, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(fd, 500).decode("utf-8", "replace").strip()
                raise Refused("locked", holder or "another run") from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{by}, pid {os.getpid()}, since {now()}".encode(), 0)
            yield
        finally:
            os.close(fd)

    def load(self) -> "list[Json]":
        """Every change, oldest first. Raises Refused for a record that cannot be read."""
        try:
            names = sorted(os.listdir(self.changes))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [self.get(name) for name in names if not name.startswith(".")]

    def get(self, name: "str") -> "Json":
        path = os.path.join(self.changes, name, "change.json")
        if not re.match(r"[A-Za-z0-9-]+\Z", name) or not os.path.exists(path):
            raise Refused("unknown", f"there is no change {name} in {self.directory}")
        try:
            with open(path, "rb") as file:
                change = json.loads(file.read().decode("utf-8"))  # type: Json
            if change["id"] != name or not isinstance(change["files"], list):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise Refused("ledger", f"{path} is not a record of a change") from None
        change["ledger"] = self.directory
        return change

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
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            data = read_all(fd, path)
        finally:
            os.close(fd)
        if sha256(data) != change["files"][index]["before"]:
            raise Refused("backup", f"{path} is not what was put away")
        return data

    def recover(self) -> "list[Json]":
        """Finish or take back what an earlier run left in the middle; give the changes it settled."""
        for name in os.listdir(self.changes):
            if name.startswith(".new-"):  # cut before it was on record: no file was touched
                discard_directory(os.path.join(self.changes, name))
        settled = []
        for change in self.load():
            if change["state"] not in ("applying", "reverting"):
                continue
            try:
                if change["state"] == "applying":
                    self.finish_or_undo(change)
                else:
                    self.restore(change)
            except (FileNotFoundError, NotADirectoryError, Refused) as error:
                self.settle(change, "abandoned", str(error))
            settled.append(change)
        return settled

    def finish_or_undo(self, change: "Json") -> "None":
        """An apply that did not come to its end: done where all files are new, taken back otherwise."""
        with targets(change) as places:
            digests = [place.digest() for place in places]
            if all(found == file["after"] for found, file in zip(digests, change["files"])):
                for index, place in enumerate(places):
                    place.discard(temporary(change, index))
                self.settle(change, "applied", bytecode_note(places))
                return
        self.restore(change, "undone")

    def restore(self, change: "Json", state: "str" = "reverted") -> "None":
        """Put the old bytes back where the new ones are, and record it."""
        foreign = []
        with targets(change) as places:
            for index, place in enumerate(places):
                file, beside = change["files"][index], temporary(change, index)
                place.discard(beside)
                found = place.digest()
                if found == file["after"]:
                    with naming(place.path):
                        if file["symlink"]:
                            place.stage_link(beside, file["symlink"])
                        else:
                            place.stage(beside, self.backup(change, index))
                        place.replace(beside)
                elif found != file["before"]:
                    foreign.append(file["path"])
            note = bytecode_note(places)
        if foreign:
            note = f"{', '.join(foreign)} was changed by another hand and is left as it is"
            state = "abandoned"
        self.settle(change, state, note)


def read(request: "Json") -> "Json":
    """The bytes of modules, from the first root that has them."""
    return {"files": [read_module(request["roots"], module) for module in request["modules"]]}


def read_module(roots: "list[str]", module: "str") -> "Json":
    found = {"module": module}  # type: Json
    if not all(part.isidentifier() for part in module.split(".")):
        return dict(found, missing=True)
    for root in roots:
        stem = os.path.join(root, *module.split("."))
        for path in (os.path.join(stem, "__init__.py"), stem + ".py"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    continue
                return dict(found, error=f"{path}: {error.strerror}")
            try:
                data = read_all(fd, path)
            except (OSError, Refused) as error:
                return dict(found, error=str(error))
            finally:
                os.close(fd)
            directory, name = os.path.split(path)
            real = os.path.join(os.path.realpath(directory), name)
            return dict(found, path=real, data=base64.b64encode(data).decode("ascii"))
    return dict(found, missing=True)


def search(request: "Json") -> "Json":
    """The files of a package that hold one of some texts."""
    needles = [needle.encode() for needle in request["needles"]]
    files, unread, looked = [], [], 0
    for root in request["roots"]:
        top = os.path.join(root, request["package"])
        for place, directories, names in os.walk(top):
            directories.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                if not name.endswith(".py") or any(part in path for part in request["skipped"]):
                    continue
                looked += 1
                try:
                    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        data = read_all(fd, path)
                    finally:
                        os.close(fd)
                except (OSError, Refused) as error:
                    unread.append([path, str(error)])
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
        with contextlib.suppress(OSError, Refused):
            changes.extend(described(change) for change in Ledger(directory).load())
    return {"changes": sorted(changes, key=lambda change: change["id"])}


def apply(request: "Json") -> "Json":
    ledger = own_ledger(request)
    with ledger.locked(request["by"]):
        ledger.recover()
        change = {
            "id": "{}-{}".format(moment(), request["patch"]),
            "patch": request["patch"],
            "state": "applying",
            "at": now(),
            "by": "{} as {}".format(request["by"], user()),
            "distribution": request["distribution"],
            "files": [],
            "notes": [],
            "ledger": ledger.directory,
        }  # type: Json
        contents = [base64.b64decode(file["data"]) for file in request["files"]]
        for file in request["files"]:
            change["files"].append({key: file[key] for key in ("module", "path", "before", "after")})
        with targets(change) as places:
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
                check_compiles(data, file["path"])
                file["links"], file["symlink"] = place.stat().st_nlink, place.link()
                backups.append(old)
            change["version"] = installed_version(change)
            ledger.begin(change, backups)
            try:
                replace_all(change, places, contents)
            except BaseException:
                with contextlib.suppress(OSError, Refused):  # what this cannot do, the next run does
                    ledger.restore(change, "undone")
                raise
            ledger.settle(change, "applied", bytecode_note(places))
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


@contextlib.contextmanager
def naming(path: "str") -> "Iterator[None]":
    """Make errors name the whole path, not a name in a directory that is held open."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


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
    ledger = own_ledger(request)
    with ledger.locked(request["by"]):
        ledger.recover()
        change = ledger.get(request["change"])
        if change["state"] == "reverted":
            return {"change": described(change), "new": False}
        if change["state"] != "applied":
            raise Refused("state", "the change is " + change["state"])
        paths = {file["path"] for file in change["files"]}
        for other in ledger.load():
            shared = paths & {file["path"] for file in other["files"]}
            if shared and other["state"] == "applied" and other["id"] > change["id"]:
                raise Refused("newer", other["id"])
        with targets(change) as places:
            for place, file in zip(places, change["files"]):
                if place.digest() not in (file["before"], file["after"]):
                    raise Refused("drifted", file["path"] + " has changed since")
        for index in range(len(change["files"])):
            ledger.backup(change, index)
        ledger.settle(change, "reverting")
        ledger.restore(change)
        return {"change": described(change), "new": True}


def recover(request: "Json") -> "Json":
    ledger = own_ledger(request)
    if not os.path.isdir(ledger.changes):
        return {"changes": []}
    with ledger.locked(request["by"]):
        return {"changes": [described(change) for change in ledger.recover()]}


def show(request: "Json") -> "Json":
    """A change with the old and the present bytes of its files."""
    ledger = own_ledger(request)
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
def targets(change: "Json") -> "Iterator[list[Target]]":
    """The files of a change, their directories held open."""
    places = []  # type: list[Target]
    try:
        for file in change["files"]:
            places.append(Target(file["path"]))
        yield places
    finally:
        for place in places:
            place.close()


def temporary(change: "Json", index: "int") -> "str":
    return ".triage-{}-{}".format(change["id"], index)


def bytecode_note(places: "list[Target]") -> "str":
    left = [path for place in places for path in place.forget_bytecode()]
    return "stale bytecode could not be removed: " + ", ".join(left) if left else ""


def check_compiles(data: "bytes", path: "str") -> "None":
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        version = "Python {}.{}".format(*sys.version_info)
        raise Refused("compile", f"{path} would not compile under {version}: {error}") from None


def described(change: "Json") -> "Json":
    """A change with what is on disk now."""
    files = []
    for file in change["files"]:
        try:
            with targets({"files": [file]}) as places:
                found = places[0].digest()
        except (OSError, Refused):
            found = ""
        files.append(dict(file, now=found or None))
    return dict(change, files=files, installed=installed_version(change))


def installed_version(change: "Json") -> "str":
    """The version of the distribution beside the first file's package, by its dist-info; "" without one."""
    first = change["files"][0]
    root = first["path"]
    depth = len(first["module"].split(".")) + (1 if root.endswith("/__init__.py") else 0)
    for _ in range(depth):
        root = os.path.dirname(root)
    wanted = re.sub(r"[-_.]+", "_", change["distribution"]).lower()
    found = []
    try:
        names = os.listdir(root)
    except OSError:
        return ""
    for name in names:
        match = re.match(r"(.+)-([^-]+)\.dist-info\Z", name)
        if match and re.sub(r"[-_.]+", "_", match.group(1)).lower() == wanted:
            found.append(match.group(2))
    return ", ".join(sorted(found))


def own_ledger(request: "Json") -> "Ledger":
    if request.get("ledger"):
        return Ledger(request["ledger"])
    return Ledger(SYSTEM_LEDGER if os.geteuid() == 0 else home_ledger(os.path.expanduser("~")))


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


def moment() -> "str":
    """UTC to the microsecond, in the order of time: 20261129T164500123456Z."""
    seconds = time.time()
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds)) + f"{int(seconds % 1 * 1e6):06d}Z"


def sha256(data: "bytes") -> "str":
    return hashlib.sha256(data).hexdigest()


def encoded(change: "Json") -> "bytes":
    kept = {key: value for key, value in change.items() if key != "ledger"}
    return (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode("ascii")


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


def write_file(path: "str", data: "bytes", mode: "int" = 0o644) -> "None":
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: "int", data: "bytes") -> "None":
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_all(fd: "int", path: "str") -> "bytes":
    parts = []  # type: list[bytes]
    size = 0
    while size <= MAX_FILE:
        part = os.read(fd, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise Refused("size", f"{path} is larger than {MAX_FILE} bytes")


def sync(directory: "str") -> "None":
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


OPERATIONS = {
    "read": read,
    "search": search,
    "status": status,
    "apply": apply,
    "rollback": rollback,
    "recover": recover,
    "show": show,
}


def answer(request: "Json") -> "Json":
    try:
        return dict(OPERATIONS[request["op"]](request), ok=True)
    except Refused as refused:
        return {"ok": False, "kind": refused.kind, "message": str(refused)}
    except OSError as error:
        kind = "denied" if error.errno in DENIED else "full" if error.errno in FULL else "failed"
        where = error.filename or error.filename2 or request["op"]
        return {"ok": False, "kind": kind, "message": f"{where}: {error.strerror or error}"}


def main(request: "Json") -> "None":
    """Answer one request on standard output. A lost connection does not stop what has begun."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o022)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer(request)) + "\n")
        sys.stdout.flush()
