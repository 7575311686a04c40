"""Which boxes exist on this machine, whoever started them: one directory an address, in /run.

A directory is a claim on its address. It holds all that the box has outside its own mount namespace:

    state.json     what an `Entry` holds
    process        pid and start time of the box's nspawn, written by that process itself
    ...            keys, ssh_config, console.log (see `box`)

A claim stands while its owner lives, or, for one that is kept, while the box does. Whatever stands no
longer is swept away by the next claim.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import host
from .errors import BoxError
from .processes import Process

REGISTRY = Path("/run/triage-box")
ADDRESSES = tuple(f"127.0.1.{n}" for n in range(1, 255))
PORTS = (22, 2222)  # the second where the machine's own sshd has the first on every address
GRACE = 10.0  # seconds for an orderly shutdown; well under 1 is needed
FORCE = 5.0  # seconds for the kernel to clear up after SIGKILL


@dataclass(frozen=True)
class Entry:
    """One claimed address, and the box on it."""

    name: str
    address: str
    port: int
    owner: Process
    kept: bool  # outlives its owner
    cgroups: tuple[Path, ...]

    @property
    def directory(self) -> Path:
        return REGISTRY / self.address

    @property
    def nspawn(self) -> Process | None:
        """The living nspawn process."""
        try:
            process = Process(*map(int, (self.directory / "process").read_text().split()))
        except (OSError, ValueError, TypeError):
            return None
        return process if process.alive() else None

    @property
    def stands(self) -> bool:
        """Whether somebody still wants it."""
        return self.owner.alive() or (self.kept and self.nspawn is not None)


def claim(name: str, address: str | None = None, *, kept: bool = False) -> Entry:
    """Claim `address`, or the first that is free. Raises BoxError when it is taken."""
    if address is not None and address not in ADDRESSES:
        raise BoxError(f"box {name}: {address} is none of {ADDRESSES[0]} to {ADDRESSES[-1]}")
    owner = Process.of(os.getpid())
    assert owner is not None
    with _locked():
        _sweep()
        for candidate in (address,) if address else ADDRESSES:
            port = _free_port(candidate)
            if port is None or (REGISTRY / candidate).exists():
                continue
            groups = tuple(group / f"triage-box-{candidate}" for group in host.cgroups())
            entry = Entry(name, candidate, port, owner, kept, groups)
            _store(entry)
            return entry
    raise BoxError(f"box {name}: {address or 'every address'} is taken; see python -m tests.e2e.box list")


def entries() -> list[Entry]:
    """All claims, after those that no longer stand were swept away."""
    with _locked():
        _sweep()
        return _entries()


def find(word: str) -> Entry:
    """The one box with that name or address."""
    found = [entry for entry in entries() if word in (entry.name, entry.address)]
    if len(found) != 1:
        raise BoxError(f"{len(found)} boxes are called {word}; see python -m tests.e2e.box list")
    return found[0]


def stop(entry: Entry) -> None:
    """Shut a box down, in order if it can, and leave nothing of it behind."""
    if _load(entry.directory) != entry:
        return  # somebody else has, and the address may be another box's by now
    try:
        nspawn = entry.nspawn
        init = nspawn.child() if nspawn else None
        if nspawn and init:
            init.send(signal.SIGRTMIN + 3)  # systemd's "power off"
            nspawn.wait(GRACE)
    finally:
        with _locked():
            if _load(entry.directory) == entry:
                _destroy(entry)


def _destroy(entry: Entry) -> None:
    nspawn = entry.nspawn
    if nspawn:
        nspawn.send(signal.SIGKILL)
    for group in entry.cgroups:
        _remove_cgroup(group)
    aside = _aside()
    entry.directory.rename(aside)
    shutil.rmtree(aside)


def _remove_cgroup(top: Path) -> None:
    """Kill all that is in it, and remove it."""
    deadline = time.monotonic() + FORCE
    while top.exists():
        for members in top.rglob("cgroup.procs"):
            for pid in map(int, members.read_text().split()):
                if pid > 1:  # 0 is one that our own pid namespace does not see
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        try:
            for folder, _, _ in os.walk(top, topdown=False):
                os.rmdir(folder)
        except OSError as error:
            # The last of them may still be on their way out.
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _sweep() -> None:
    for entry in _entries():
        if not entry.stands:
            _destroy(entry)


def _entries() -> list[Entry]:
    found = (_load(REGISTRY / address) for address in ADDRESSES)
    return [entry for entry in found if entry]


def _load(directory: Path) -> Entry | None:
    try:
        state = json.loads((directory / "state.json").read_text())
    except FileNotFoundError:
        return None
    return Entry(
        **{**state, "owner": Process(**state["owner"]), "cgroups": tuple(map(Path, state["cgroups"]))}
    )


def _store(entry: Entry) -> None:
    aside = _aside()
    aside.mkdir()
    owner = {"pid": entry.owner.pid, "started": entry.owner.started}
    state = {**vars(entry), "owner": owner, "cgroups": [str(group) for group in entry.cgroups]}
    (aside / "state.json").write_text(json.dumps(state))
    aside.rename(entry.directory)


def _aside() -> Path:
    """A free name: claims come and go by rename, so that none is ever seen without its state."""
    aside = REGISTRY / "aside"
    if aside.exists():
        shutil.rmtree(aside)
    return aside


def _free_port(address: str) -> int | None:
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            probe.listen()
            return port
    return None


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    REGISTRY.mkdir(mode=0o700, exist_ok=True)
    with (REGISTRY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
