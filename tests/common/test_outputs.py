"""Every file that is written: for whom it is, under any umask, and never by another user's link."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost
from tests.verify.test_other_tools import FILES
from triage.common import files
from triage.common.errors import UnreachableError
from triage.common.files import write_atomically
from triage.evidence.cases.case import write_case
from triage.playbook.load import load_playbook
from triage.playbook.progress import Progress
from triage.verify.history import History
from triage.verify.layouts.bench_progress import BenchProgress
from triage.verify.load.other_tools import read_foreign, verification_of

LOG = Path(__file__).parents[1] / "corpus/argparse-unrecognized/log"
SHARED = ("mine.yaml", "pages", "ranks")  # a rule, its documentation, and logs that were split
TRIAGE = Path(files.__file__).parents[1]


@pytest.fixture(params=[0o022, 0o077, 0o007], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_whom_each_output_is_for(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("state", "cache", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    room = tmp_path / "room"
    room.mkdir()
    evidence = ScriptedHost().evidence
    for name in ("case", "case.tar.zst"):
        write_case(room / name, evidence)
    for arguments in (
        ("diagnose", "--log", str(LOG), "--report", "r.html", "--bug-report", "bug.md"),
        ("replay", str(LOG.parent), "--junit", "junit.xml"),
        ("rules", "new", "mine", "--from-log", str(LOG)),
        ("rules", "docs", "--write", "pages"),
        ("logs", str(LOG), "--split-ranks", "ranks"),
    ):
        environment = {**os.environ, "PYTHONPATH": str(TRIAGE.parent)}
        done = subprocess.run(
            [sys.executable, "-m", "triage", *arguments], cwd=room, env=environment, capture_output=True
        )
        assert done.returncode in (0, 1), done.stderr.decode()
    result = verification_of(read_foreign(FILES["vllm"]), "d", "2026-11-29T00:00:00")
    History().append("h", result)
    History().pin("h", "d", "last")
    BenchProgress("h", "d").write({"layouts": []})
    progress = Progress(load_playbook("diagnose-only"), "h", {})
    with progress.held():
        progress.write(())
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
        names = {path: path.relative_to(tmp_path).as_posix() for path in modes if path.is_file()}
    found = {name: modes[path] for path, name in names.items()}
    ours = tuple(f"room/{name}" for name in SHARED)
    shared = {name: mode for name, mode in found.items() if name.startswith(ours)}
    private = {name: mode for name, mode in found.items() if name not in shared}
    assert shared == dict.fromkeys(shared, 0o666 & ~umask)
    assert private == dict.fromkeys(private, 0o600 & ~umask)
    for name in ("r.html", "bug.md", "junit.xml", "case/manifest.json", "case.tar.zst"):
        assert f"room/{name}" in private
    assert {name.partition("/")[0] for name in private} == {"room", "state", "cache"}
    assert len([name for name in private if name.startswith("state/")]) == 5
    assert len(shared) > 3
    for name in ("room/case", "room/case/answers", "state/triage/history", "state/triage/runs"):
        assert modes[tmp_path / name] == 0o700, name


def test_an_old_file_keeps_its_mode(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "report.html"
    for mode in (0o640, 0o666, 0o600):
        path.touch()
        path.chmod(mode)
        write_atomically(path, b"new")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)


def test_a_case_that_is_replaced_keeps_its_modes(tmp_path: Path, umask: int) -> None:
    case = tmp_path / "case"
    write_case(case, ScriptedHost().evidence)
    case.chmod(0o750)
    (case / "manifest.json").chmod(0o640)
    write_case(case, ScriptedHost().evidence, replacing=True)
    assert stat.S_IMODE(case.stat().st_mode) == 0o750
    assert stat.S_IMODE((case / "manifest.json").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of another user's")
@pytest.mark.parametrize("way", ["last", "dangling", "directory", "behind our own"])
def test_a_link_of_another_user_is_not_followed(tmp_path: Path, way: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    if way != "dangling":
        (victim / "file").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(victim if way == "directory" else victim / "file")
    os.lchown(link, 65534, 65534)
    path = link / "file" if way == "directory" else link
    if way == "behind our own":
        path = tmp_path / "ours"
        path.symlink_to("link")
    before = sorted(os.listdir(victim))
    with pytest.raises(UnreachableError, match="a link of another user's, and is not followed"):
        write_atomically(path, b"new")
    assert sorted(os.listdir(victim)) == before
    assert way == "dangling" or (victim / "file").read_text() == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make pipes of another user's")
def test_a_pipe_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.chown(tmp_path / "pipe", 65534, 65534)
    with pytest.raises(UnreachableError, match="another user's"):
        write_atomically(tmp_path / "pipe", b"new")


WRITES = re.compile(
    r"""\.write_(?:text|bytes)\(|open\((?:[^()]|\([^()]*\))*["'][wax]b?\+?["']|os\.O_CREAT|mkstemp\("""
)
KNOWN = {
    "common/files.py": 3,  # a pipe that is the user's own; `create`
    "hosts/ssh/host_keys.py": 1,  # known_hosts, appended to, 0600
    "logs/views/splitting.py": 1,  # in its own new directory
    "evidence/cases/case.py": 1,  # by `create`
    "evidence/cases/archive.py": 1,  # in a temporary directory
    "playbook/progress.py": 2,  # a lock, 0600
    "verify/history.py": 1,  # appended to, 0600
    "cli/console.py": 1,  # /dev/null
}


def test_whatever_writes_is_known_here() -> None:
    """A new place that writes goes through `write_atomically`, or comes into this list and the test above."""
    found = {
        path.relative_to(TRIAGE).as_posix(): len(WRITES.findall(path.read_text("utf-8")))
        for path in TRIAGE.rglob("*.py")
        if "remote" not in path.parts  # what runs on hosts, as root or an owner: tests/remote, tests/e2e
    }
    assert {name: count for name, count in found.items() if count} == KNOWN
