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
    with alone(LocalConnection(), KIMI) as note:
        assert note.startswith(
            "other runs of triage are not kept out: /dev/null/triage-systemd-kimi.service.lock"
        )
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").symlink_to("/bin/sh")
    with alone(LocalConnection(), KIMI) as note:
        assert note


def test_what_is_not_locked_has_no_holder(tmp_path: Path):
    assert holder_of(LocalConnection(), str(tmp_path)) is None
    assert holder_of(LocalConnection(), str(tmp_path / "none")) is None


def test_a_name_stays_one_name():
    assert name_of(Deployment("a b/../c", manager="docker")) == "docker-a_b_.._c"
    assert len(name_of(Deployment("x" * 999))) == 150
    assert os.sep not in name_of(Deployment("/" * 10))


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_in_the_place_of_a_lock_is_not_followed(directory: Path, target: str):
    (directory / "there").mkdir()
    (directory / f"triage-{name_of(KIMI)}.lock").symlink_to(directory / target)
    with alone(LocalConnection(), KIMI) as note:
        assert "cannot be locked" in note
    assert not (directory / "nowhere").exists()
