"""The root file system that all boxes share: built once, then only read."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from . import host
from .errors import BoxError

RECIPE = Path(__file__).with_name("recipe.sh")
REPOSITORY = Path(__file__).parents[3]
TIMEOUT = 1800.0  # seconds; a slow mirror is no failure


def cache() -> Path:
    """Where built file systems stay: `$TRIAGE_CACHE/box`, or `.cache/box` in the repository."""
    return Path(os.environ.get("TRIAGE_CACHE") or REPOSITORY / ".cache").absolute() / "box"


def rootfs(suite: str = "") -> Path:
    """The root file system of a Debian suite, by default this machine's, for today's recipe; built first, in
    minutes, where the cache has none.

    Raises BoxError with the end of debootstrap's output when it cannot be built.
    """
    suite = suite or host.suite()
    key = hashlib.sha256(suite.encode() + RECIPE.read_bytes()).hexdigest()[:12]
    target = cache() / f"rootfs-{suite}-{key}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _build(target, suite)
    return target


def _build(target: Path, suite: str) -> None:
    aside = target.with_suffix(".partial")
    log = target.with_suffix(".log")
    for stale in target.parent.glob("*.partial"):
        shutil.rmtree(stale)
    # In namespaces of its own: whatever it mounted or started ends with it.
    isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    recipe = ["sh", str(RECIPE), str(aside), suite, host.mirror(suite)]
    try:
        with log.open("wb") as output:
            code = subprocess.run(
                isolated + recipe, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=TIMEOUT
            ).returncode
        if code != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise BoxError(f"building {target} failed (all of it in {log}):\n{tail}")
        aside.rename(target)
    except subprocess.TimeoutExpired:
        raise BoxError(f"building {target} took more than {TIMEOUT:.0f} s; see {log}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
