"""Whose rights a command gets on this machine, in every shell and by every tool that is here."""

from __future__ import annotations

import grp
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from triage.evidence.catalogue import ReadFile
from triage.evidence.live import LiveEvidence
from triage.hosts.local import LocalConnection
from triage.hosts.rights import REFUSED, as_ours, as_owner, as_service, command_in
from triage.remote.owner import Refused, account_of, owned

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
SVC, EVE = 61_234, 61_235  # no such accounts
PYTHON = "/usr/bin/python3"
WHO = ("-I", "-S", "-B", "-c", "import os, sys; print(os.geteuid(), sys.executable)")
SHELLS = ("dash", "bash", "ksh", "mksh", "yash", "zsh")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory that every account can reach."""
    root = Path(tempfile.gettempdir())
    for directory in (tmp_path, *tmp_path.parents):  # of xdist there is one more
        if root in directory.parents:
            directory.chmod(0o755)
    return tmp_path


def environment_of(place: Path, *owners: int) -> str:
    """A tree `a/b/...`, a level an owner, and in it a link to Python; its path."""
    for index, owner in enumerate(owners):
        place = place / f"level{index}"
        place.mkdir()
        os.chown(place, owner, owner)
    python = place / "python"
    python.symlink_to(PYTHON)
    os.chown(python, owners[-1], owners[-1], follow_symlinks=False)
    return str(python)


def ran(argv: Sequence[str], shell: str = "sh", path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PATH": path} if path else {})}
    return subprocess.run([shell, *argv[1:]], capture_output=True, text=True, env=environment)


def who(argv: Sequence[str], shell: str = "sh", path: str | None = None) -> int:
    done = ran(argv, shell, path)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


@pytest.mark.parametrize("shell", SHELLS)
def test_the_owner_runs_what_is_his_in_every_shell(place: Path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} here")
    (place / "sh").symlink_to(found)
    python = environment_of(place, 0, SVC)
    assert who(as_owner((python,), (python, *WHO)), str(place / "sh")) == SVC
    assert who(as_owner((PYTHON,), (PYTHON, *WHO)), str(place / "sh")) == 0
    assert ran(as_ours((python, *WHO)), str(place / "sh")).stdout.split() == ["0", PYTHON]


@pytest.mark.parametrize(
    ("owners", "mode", "expected"),
    [
        ((0,), 0o755, 0),
        ((0,), 0o1777, 0),  # what is root's there nobody else replaces
        ((0, SVC), 0o755, SVC),
        ((SVC, 0), 0o755, SVC),  # who owns what is above can put another in its place
        ((SVC, EVE), 0o755, 65534),
        ((0,), 0o777, 65534),
        ((SVC,), 0o777, 65534),
    ],
)
def test_who_it_is(place: Path, owners: tuple[int, ...], mode: int, expected: int) -> None:
    python = environment_of(place, *owners)
    Path(python).parent.chmod(mode)
    assert who(as_owner((python,), (python, *WHO))) == expected
    uid, _, shared = account_of(python)
    assert (65534 if shared else uid) == expected


def test_a_group_of_others_may_write_as_well_as_everybody(place: Path) -> None:
    python = environment_of(place, 0)
    os.chown(Path(python).parent, 0, EVE)
    Path(python).parent.chmod(0o775)
    assert who(as_owner((python,), (python, *WHO))) == 65534
    assert account_of(python)[2] == str(Path(python).parent)


def test_a_link_of_another_account_leads_no_further_than_its_owner_may_go(place: Path) -> None:
    secret = place / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    python = environment_of(place, SVC)
    link = Path(python).with_name("model.json")
    link.symlink_to(secret)
    done = ran(as_owner((str(link),), ("cat", str(link))))
    assert (done.returncode != 0, done.stdout) == (True, "")
    with pytest.raises(PermissionError), owned(str(link.parent)):
        link.read_text()
    assert os.geteuid() == 0


def test_a_service_is_run_as_its_user_and_one_that_is_gone_as_nobody(place: Path) -> None:
    python = environment_of(place, SVC)
    assert who(as_service("daemon", (python,), (python, *WHO))) == int(
        subprocess.run(["id", "-u", "daemon"], capture_output=True, text=True, check=True).stdout
    )
    assert who(as_service("no-such-account", (python,), (python, *WHO))) == 65534
    assert who(as_service("root", (python,), (python, *WHO))) == SVC


def test_nothing_of_the_environment_of_root_goes_along(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    python = environment_of(place, SVC)
    code = "import os; print(sorted(set(os.environ) - {'LC_CTYPE', 'PWD', 'SHLVL', '_'}))"
    done = ran(as_owner((python,), (python, "-I", "-S", "-c", code)))
    assert done.stdout.strip() == str(["HOME", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER"])


@pytest.mark.parametrize("tool", ["setpriv", "runuser", "su"])
def test_the_tools_that_a_host_may_have(place: Path, tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool} here")
    bin = place / "bin"
    bin.mkdir()
    for name in ("id", "ls", "readlink", "env", "sed", "sh", tool):
        (bin / name).symlink_to(shutil.which(name) or "")
    words = ("-I", "-S", "-c", "import os, sys; print(os.geteuid(), sys.argv[1:])", "it's", "a\nb", "$x", "")
    done = ran(as_service("nobody", (PYTHON,), (PYTHON, *words)), "/bin/sh", str(bin))
    assert done.stdout.strip() == f"65534 {['it' + chr(39) + 's', 'a' + chr(10) + 'b', '$x', '']}", (
        done.stderr
    )


def test_where_no_rights_can_be_given_up_nothing_is_run(place: Path) -> None:
    bin = place / "bin"
    bin.mkdir()
    for name in ("id", "ls", "readlink", "env", "sed"):
        (bin / name).symlink_to(shutil.which(name) or "")
    done = ran(as_service("nobody", (PYTHON,), (PYTHON, *WHO)), "/bin/sh", str(bin))
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert "neither setpriv, runuser, su nor sudo" in done.stderr


def test_the_command_in_it() -> None:
    assert command_in(as_owner(("/a", "/b"), ("cat", "--", "/a"))) == ("cat", "--", "/a")
    assert command_in(("cat", "/a")) == ("cat", "/a")


def test_an_account_changes_only_what_it_may(place: Path) -> None:
    python = environment_of(place, SVC)
    directory = Path(python).parent
    mine, roots = directory / "mine", directory / "roots"
    for path, owner in ((mine, SVC), (roots, 0)):
        path.write_text("x")
        os.chown(path, owner, owner)
    with owned(str(directory), True):
        mine.write_text("y")
    with pytest.raises(Refused, match="may not change it"), owned(str(directory), True, str(roots)):
        roots.write_text("y")
    assert (mine.read_text(), roots.read_text()) == ("y", "x")
    directory.chmod(0o777)
    with pytest.raises(Refused, match="more than one account"), owned(str(directory), True):
        mine.write_text("z")


@pytest.mark.parametrize(("group", "expected"), [("staff", 0), ("nogroup", 65534)])
def test_a_group_that_nobody_is_in_shares_nothing(place: Path, group: str, expected: int) -> None:
    """Debian's `staff` may write in /usr/local; `nogroup` is the group of an account."""
    python = environment_of(place, 0)
    os.chown(Path(python).parent, 0, grp.getgrnam(group).gr_gid)
    Path(python).parent.chmod(0o2775)
    assert who(as_owner((python,), (python, *WHO))) == expected
    assert bool(account_of(python)[2]) is bool(expected)


def test_root_reads_for_an_account_what_the_account_may_read(place: Path) -> None:
    """As one that a start script of the account sources."""
    secret = place / "secret.env"
    secret.write_text("KEY=1\n")
    secret.chmod(0o600)
    evidence = LiveEvidence(LocalConnection())
    answer = evidence.ask(ReadFile(str(secret), "daemon"))
    assert (answer.value, "Permission denied" in answer.missing) == (None, True)
    assert LiveEvidence(LocalConnection()).ask(ReadFile(str(secret))).value == "KEY=1\n"
    assert ReadFile(str(secret), "daemon").key == ReadFile(str(secret)).key
