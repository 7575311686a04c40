"""Locks of real processes on this machine; over ssh, and between users: tests/e2e/test_verify_unit.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from triage.common.errors import RefusedError
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.patching.transaction import operator
from triage.verify.service import exclusion
from triage.verify.service.exclusion import alone, holder_of, name_of

KIMI, OTHER = (Deployment(name, manager="systemd", unit=name) for name in ("kimi.service", "other.service"))
HOLDER = """
import sys, time
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.service import exclusion
exclusion.DIRECTORY = sys.argv[1]
with exclusion.alone(LocalConnection(), Deployment("kimi.service", manager="systemd")):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(exclusion, "DIRECTORY", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # of who is not root
    monkeypatch.setattr(exclusion, "WAIT", 0.5)
    return tmp_path


def test_a_second_one_is_told_who_is_there():
    here = LocalConnection()
    with alone(here, KIMI) as note:
        assert note == ""
        with pytest.raises(RefusedError) as found, alone(here, KIMI):
            pass
        assert f"{operator()} does so since 20" in str(found.value)
        with alone(here, OTHER) as other:
            assert other == ""
    with alone(here, KIMI) as note:
        assert note == ""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_lock_ends_with_its_holder(directory: Path, how: signal.Signals, monkeypatch):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(directory)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RefusedError), alone(LocalConnection(), KIMI):
            pass
        holder.send_signal(how)
    monkeypatch.setattr(exclusion, "WAIT", 5.0)
    with alone(LocalConnection(), KIMI) as note:
        assert note == ""


def test_one_that_fails_gives_the_lock_back():
    here = LocalConnection()
    with pytest.raises(ZeroDivisionError), alone(here, KIMI):
        raise ZeroDivisionError
    with alone(here, KIMI) as note:
        assert note == ""


def test_where_nothing_can_be_locked_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exclusion, "DIRECTORY", "/dev/null")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/dev/null")
    if os.geteuid() == 0:
        with alone(LocalConnection(), KIMI) as note:
            assert note == "other runs of triage are not kept out: systemd-kimi.service cannot be locked"
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").symlink_to("/bin/sh")
    with alone(LocalConnection(), KIMI) as note:
        assert note


def test_what_is_not_locked_has_no_holder(directory: Path):
    (directory / name_of(KIMI)).mkdir()
    assert holder_of(LocalConnection(), name_of(KIMI)) is None
    assert holder_of(LocalConnection(), "none") is None


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account too")


def as_nobody(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    code = f"import fcntl, os, sys, time\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n{code}"
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)


@as_root
def test_no_other_account_can_take_roots_lock(directory: Path):
    """Nor keep root out by what it made where locks used to be, nor by another file of the same number."""
    directory.chmod(0o711)
    for above in directory.parents:
        if above.stat().st_uid == 0 and above != Path("/tmp") and len(above.parts) > 2:
            above.chmod(0o711)
    with alone(LocalConnection(), KIMI) as note:
        assert note == ""
    take = """
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("taken", flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""
    with as_nobody(take, str(directory / name_of(KIMI))) as stranger:
        assert stranger.communicate()[0] == b"PermissionError\n"


@as_root
def test_a_holder_of_another_account_is_none(directory: Path):
    """As one is that locks a file with the same number on another file system."""
    place = directory / name_of(KIMI)
    place.mkdir()
    for above in (directory, *directory.parents):
        if len(above.parts) > 2:
            above.chmod(0o755)
    hold = """
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("taken", flush=True)
time.sleep(60)
"""
    with as_nobody(hold, str(place)) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"taken\n"
        assert holder_of(LocalConnection(), name_of(KIMI)) is None
        stranger.kill()


def test_a_name_stays_one_name():
    assert name_of(Deployment("a b/../c", manager="docker")) == "docker-a_b_.._c"
    assert len(name_of(Deployment("x" * 999))) == 150
    assert os.sep not in name_of(Deployment("/" * 10))


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_in_the_place_of_a_lock_is_not_followed(directory: Path, target: str):
    (directory / "there").mkdir()
    (directory / name_of(KIMI)).symlink_to(directory / target)
    with alone(LocalConnection(), KIMI) as note:
        assert "cannot be locked" in note
    assert not (directory / "nowhere").exists()
