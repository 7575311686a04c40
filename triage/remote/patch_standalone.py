"""Change files of an installed package, each only where it is byte for byte what the change was made for.

Python 3.6 or newer, standard library alone.
"""

import glob
import hashlib
import importlib.util
import os
import shutil
import sys


def change(files: "list[tuple[str, str, str, str, list[tuple[int, int, bytes]]]]") -> "None":
    """Package, path in it, SHA-256 before and after, and lines: (first from 0, how many go, what comes)."""
    new = {}
    for package, name, before, after, hunks in files:
        spec = importlib.util.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            sys.exit("there is no package " + package + " for " + sys.executable)
        path = os.path.join(places[0], *name.split("/"))
        with open(path, "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() == after:
            print("there already:", path)
            continue
        if hashlib.sha256(data).hexdigest() != before:
            sys.exit(path + " is not the file that this change was made for; nothing was changed")
        lines = data.splitlines(keepends=True)
        for first, count, text in reversed(hunks):
            lines[first : first + count] = [text]
        new[path] = b"".join(lines)
        if hashlib.sha256(new[path]).hexdigest() != after:
            sys.exit(path + " would not come out right; nothing was changed")
    for path, data in new.items():
        beside, old = path + ".new", os.stat(path)
        with open(beside, "xb") as file:
            file.write(data)
        shutil.copystat(path, beside)
        os.utime(beside)
        os.chown(beside, old.st_uid, old.st_gid)
        os.replace(beside, path)
        stem = os.path.basename(path)[: -len("py")]
        for stale in glob.glob(
            os.path.join(glob.escape(os.path.dirname(path)), "__pycache__", stem + "*pyc")
        ):
            os.unlink(stale)
        print("changed:", path)
