"""A file of the operator's own is the old one or the new one, and stays what it is."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from triage.common.errors import UnreachableError
from triage.common.files import state_directory, write_atomically


def test_a_new_file_in_a_new_directory(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "new"
    write_atomically(path, b"\x00\xff\n")
    assert path.read_bytes() == b"\x00\xff\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["new"]


def test_an_old_file_is_replaced_not_written_through(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "hard-link"
    path.write_bytes(b"old, and longer")
    os.link(path, other)
    write_atomically(path, b"new")
    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"old, and longer")


def test_a_cut_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def cut(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("number", "next"), [(errno.ENOSPC, "df -h"), (errno.EROFS, "ls -ld")])
def test_what_cannot_be_written_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, next: str
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UnreachableError) as found:
        write_atomically(tmp_path / "file", b"new")
    assert (found.value.happened, found.value.next) == (os.strerror(number), f"{next} {tmp_path}")


def test_a_link_stays_one(tmp_path: Path) -> None:
    real, link, dangling = tmp_path / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_bytes(b"old")
    link.symlink_to("real")
    dangling.symlink_to("later")
    write_atomically(link, b"new")
    write_atomically(dangling, b"new")
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert (real.read_bytes(), (tmp_path / "later").read_bytes()) == (b"new", b"new")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """What `--junit /dev/stdout` names."""
    reader, writer = os.pipe()
    write_atomically(Path(f"/dev/fd/{writer}"), b"new")
    os.close(writer)
    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_a_device_stays_one() -> None:
    write_atomically(Path("/dev/null"), b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(UnreachableError, match="No space left"):
        write_atomically(Path("/dev/full"), b"new")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize(
    ("name", "says"),
    [("file/below", "File exists"), ("directory", "Is a directory"), ("x" * 300, "too long")],
)
def test_what_cannot_be_written_is_an_error_with_the_next_command(
    tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    with pytest.raises(UnreachableError, match=says) as caught:
        write_atomically(tmp_path / name, b"new")
    assert caught.value.next.startswith("ls -ld ")
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]


def test_where_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/tmp/state")
    assert state_directory("history") == Path("/var/tmp/state/triage/history")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which the specification says to ignore
    assert state_directory("runs") == Path.home() / ".local/state/triage/runs"
