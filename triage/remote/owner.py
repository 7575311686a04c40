"""What the agents share: to work in a directory with the rights of the account that owns it.

One file, standard library alone, Python 3.6 or newer; `remote` sends it before the agent. It matters where
the agent is root: in a directory that another account can change, or that is below one, it reads and writes
as that account, so that a link put there leads no further than the account itself could go. What several
accounts can change is read as nobody, and not changed. Root's own directories are as ever, and so is all
where the agent is not root.
"""

import contextlib
import grp
import os
import pwd
import stat
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534
ACCESS = "system.posix_acl_access"
_CHECK = "import sys;compile(sys.stdin.buffer.read(),sys.argv[1],'exec',dont_inherit=True)"
_known = {}  # type: dict[str, tuple[int, int, str]]


class Refused(Exception):
    """Nothing was done, or all of it was taken back. `kind` says why in one word."""

    def __init__(self, kind: "str", message: "str") -> "None":
        super().__init__(message)
        self.kind = kind


def account_of(path: "str") -> "tuple[int, int, str]":
    """Who owns the way to a path besides root: number, group, and what on it several may change, or ""."""
    uid, gid, shared = 0, 0, ""
    for entry in ways(path):
        try:
            found = os.lstat(entry)
        except OSError:
            break
        if found.st_uid:
            shared = entry if uid not in (0, found.st_uid) else shared
            uid, gid = (found.st_uid, found.st_gid) if not uid else (uid, gid)
        shared = entry if is_shared(entry, found) else shared
    return uid, gid, shared


def ways(path: "str") -> "Iterator[str]":
    """Every directory, link and file on the way to an absolute path."""
    at, rest, links = "/", path.split("/"), 0
    yield at
    while rest:
        name = rest.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        entry = os.path.join(at, name)
        yield entry
        try:
            to = os.readlink(entry)
        except OSError:
            at = entry
            continue
        links += 1
        if links > 40:
            raise Refused("changed", f"{entry} is one of too many symbolic links")
        rest = to.split("/") + rest
        at = "/" if to.startswith("/") else at


def is_shared(entry: "str", found: "os.stat_result") -> "bool":
    """Whether more than its owner, or for root more than root's group, may write there."""
    mode = found.st_mode
    if stat.S_ISLNK(mode) or mode & stat.S_ISVTX:
        return False
    if mode & stat.S_IWOTH:
        return True
    if not mode & stat.S_IWGRP:
        return False
    if has_list(entry):
        return True
    if found.st_uid == 0:
        return found.st_gid != 0 and not is_empty(found.st_gid)
    return found.st_gid != group_of(found.st_uid)


def is_empty(gid: "int") -> "bool":
    """Whether nobody is in a group: Debian's `staff`, which may write in /usr/local, is one."""
    try:
        return not grp.getgrgid(gid).gr_mem and all(each.pw_gid != gid for each in pwd.getpwall())
    except KeyError:
        return False


def has_list(entry: "str") -> "bool":
    """Whether an access list says who else may."""
    try:
        return ACCESS in os.listxattr(entry)
    except OSError:
        return False


def group_of(uid: "int") -> "int":
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return -1


def name_of(uid: "int") -> "str":
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@contextlib.contextmanager
def owned(directory: "str", changing: "bool" = False, what: "str" = "") -> "Iterator[None]":
    """With the rights of whoever owns a directory. Raises Refused for a change of `what` where there is no
    such account, and where the account may not do it."""
    if os.geteuid() != 0:
        yield
        return
    known = None if changing else _known.get(directory)
    uid, gid, shared = known or account_of(directory)
    _known[directory] = (uid, gid, shared)
    if shared and changing:
        raise Refused(
            "shared", f"{shared} can be changed by more than one account, and root would follow them"
        )
    if shared:
        uid, gid = NOBODY, NOBODY
    if not uid:
        yield
        return
    own, groups = os.getegid(), os.getgroups()
    theirs = groups_of(uid, gid)
    os.setgroups(theirs)
    os.setegid(theirs[0])
    os.seteuid(uid)
    try:
        yield
    except PermissionError as error:
        if not changing:
            raise
        what = what or error.filename or directory
        owner = f"{name_of(uid)}, who owns the way to it"
        raise Refused("owner", f"{what}: {owner}, may not change it so, and root does not there") from None
    finally:
        os.seteuid(0)
        os.setegid(own)
        os.setgroups(groups)


def groups_of(uid: "int", gid: "int") -> "list[int]":
    """The groups of an account, its own first; `gid` where it is in no list of accounts."""
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return [gid]
    others = os.getgrouplist(found.pw_name, found.pw_gid)
    return [found.pw_gid] + [each for each in others if each != found.pw_gid]


def become(uid: "int", gid: "int") -> "None":
    """Be that account from now on, for good."""
    groups = groups_of(uid, gid)
    os.setgroups(groups)
    os.setgid(groups[0])
    os.setuid(uid)


def compiles_elsewhere(python: "str", data: "bytes", path: "str") -> "str":
    """Why another interpreter does not compile source; "" where it does. It runs as whoever owns it."""
    uid, gid, shared = account_of(python)
    if shared:
        uid, gid = NOBODY, NOBODY

    def drop() -> "None":
        if uid and os.geteuid() == 0:
            become(uid, gid)

    argv = [python, "-I", "-S", "-B", "-c", _CHECK, path]
    try:
        done = subprocess.run(
            argv,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=30,
            preexec_fn=drop,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{python} could not be asked: {error}"
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (words[-1][:300] if words else f"exit status {done.returncode}") if done.returncode else ""
