"""`triage patch`, run as a person runs it, on a tree of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patching.trees import BACKEND, BACKEND_SOURCE, install, module_path, reinstall

ID = "sglang-triton-value-head-dim"
MLA = "pool_class=MLATokenToKVPool"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


class Triage:
    def __init__(self, root: Path, ledger: Path) -> None:
        self.root = root
        self.environment = {**os.environ, "TRIAGE_LEDGER": str(ledger)}

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "triage", "patch", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def show(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self("local", "--package-root", f"{self.root}/sglang", "--python", sys.executable, *words)

    def apply(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.show("--id", ID, "--given", MLA, "--apply", *words)


@pytest.fixture
def triage(root: Path, tmp_path: Path) -> Triage:
    return Triage(root, tmp_path / "ledger")


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "triage.patch/1"
    return document


def backend(root: Path) -> str:
    return module_path(root, BACKEND).read_text()


def test_show_apply_status_rollback(root: Path, triage: Triage) -> None:
    shown = triage.show("--id", ID, "--given", MLA)
    assert shown.returncode == 0, shown.stderr
    assert f"{ID}: applicable" in shown.stdout
    assert "-            self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0)" in shown.stdout
    assert "memory_pool.py:3 " in shown.stdout  # the line that the precondition was read from
    kept = f"--package-root {root}/sglang --python {sys.executable} --given {MLA}"
    assert f"next: triage patch local {kept} --id {ID} --apply" in shown.stdout
    assert backend(root) == BACKEND_SOURCE

    applied = triage.apply("--yes")
    assert applied.returncode == 0, applied.stderr
    assert "applied" in applied.stdout
    assert "restart the service" in applied.stdout
    assert backend(root) != BACKEND_SOURCE

    again = triage.apply("--yes")
    assert (again.returncode, "nothing was changed: it was applied before" in again.stdout) == (0, True)

    status = triage("status", "local")
    assert "as the change left it" in status.stdout

    rolled_back = triage("rollback", "local", "--id", ID, "--yes")
    assert rolled_back.returncode == 0, rolled_back.stderr
    assert backend(root) == BACKEND_SOURCE
    assert "reverted" in triage("status", "local").stdout


def test_status_says_whether_the_service_runs_the_change(root: Path, triage: Triage) -> None:
    (root / "sglang" / "launch_server.py").write_text(
        "import time\nprint('up', flush=True)\ntime.sleep(120)\n"
    )
    with served(root) as pid:
        triage.apply("--yes")
        behind = triage("status", "local", "-F", "/dev/null").stdout
        assert f"  pid {pid} does not run the change yet: started 20" in behind
        assert behind.endswith("  next: triage verify local --ssh-config /dev/null\n")
    with served(root) as pid:
        now = triage("status", "local").stdout
        assert f"  pid {pid} runs the change: started 20" in now
        assert "next:" not in now
        (change,) = parsed(triage("status", "local", "--format", "json"))["changes"]
        assert [item["current"] for item in change["services"] if item["pid"] == pid] == [True]
        assert (change["happened"], change["next"]) == ("", "")


def test_rebase(root: Path, triage: Triage) -> None:
    assert "nothing is applied on local" in triage("rebase", "local").stdout
    triage.apply("--yes")
    changed = backend(root)
    assert ": in place" in triage("rebase", "local").stdout

    reinstall(root, BACKEND_SOURCE)
    status = triage("status", "local").stdout
    assert "sglang 0.5.11 was installed again at 20" in status
    assert status.endswith("  next: triage patch rebase local\n")
    shown = triage("rebase", "local", "--python", sys.executable)
    assert (shown.returncode, ": applies again" in shown.stdout) == (0, True)
    assert shown.stdout.endswith(f"next: triage patch rebase local --python {sys.executable} --apply\n")
    assert triage("rebase", "local", "--apply").returncode == 4  # nobody agreed
    assert backend(root) == BACKEND_SOURCE
    done = triage("rebase", "local", "--apply", "--yes", "--format", "json")
    assert (done.returncode, backend(root)) == (0, changed)
    document = parsed(done)
    assert [item["verdict"] for item in document["rebased"]] == ["applies again"]
    assert [item["new"] for item in document["changes"]] == [True]

    install(root, "0.5.12", memory_pool="x = 1\n")
    done = triage("rebase", "local", "--apply", "--yes")
    assert done.returncode == 4
    assert ": conflict" in done.stdout
    assert "  the change as it was made:\n--- a/" in done.stdout
    assert backend(root) == BACKEND_SOURCE


@contextlib.contextmanager
def served(root: Path) -> Iterator[int]:
    """A process that serves from the tree, as discovery finds it."""
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", "/none"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(argv, cwd=root, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        try:
            yield process.pid
        finally:
            process.terminate()


def test_json(root: Path, triage: Triage) -> None:
    (patch,) = parsed(triage.show("--id", ID, "--given", MLA, "--format", "json"))["patches"]
    assert (patch["id"], patch["state"]) == (ID, "applicable")
    assert [check["holds"] for check in patch["checks"]] == [True, True]
    assert patch["sites"][0]["line"] == 9
    assert patch["diff"].startswith("--- a/")
    applied = parsed(triage.apply("--yes", "--format", "json"))
    assert [item["state"] for item in applied["patches"]] == ["applied"]
    assert [(item["state"], item["new"]) for item in applied["changes"]] == [("applied", True)]
    (change,) = parsed(triage("status", "local", "--format", "json"))["changes"]
    assert change["files"][0]["now"] == change["files"][0]["after"]
    (change,) = parsed(triage("rollback", "local", "--yes", "--format", "json"))["changes"]
    assert (change["state"], change["new"]) == ("reverted", True)


def test_a_damaged_record_is_shown_and_the_rest_goes_on(root: Path, tmp_path: Path, triage: Triage) -> None:
    assert triage.apply("--yes").returncode == 0
    (record,) = (tmp_path / "ledger" / "changes").glob("*/change.json")
    record.write_text("{")
    shown = triage("status", "local")
    assert (shown.returncode, f"{record.parent.name}: unreadable" in shown.stdout) == (0, True)
    assert f"{record} is not a record of a change" in shown.stdout
    (change,) = parsed(triage("status", "local", "--format", "json"))["changes"]
    assert (change["state"], change["files"]) == ("unreadable", [])
    refused = triage("rollback", "local", "--id", record.parent.name, "--yes")
    assert (refused.returncode, str(record) in refused.stderr) == (4, True)
    install(root)
    assert triage.apply("--yes").returncode == 0
    assert triage("rollback", "local", "--yes").returncode == 0
    assert backend(root) == BACKEND_SOURCE


def test_nobody_is_there_to_agree(root: Path, triage: Triage) -> None:
    done = triage.apply()
    assert done.returncode == 4
    assert "--yes" in done.stderr
    assert backend(root) == BACKEND_SOURCE
    triage.apply("--yes")
    assert triage("rollback", "local").returncode == 4
    assert backend(root) != BACKEND_SOURCE


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 4), ("\n", 4)])
def test_a_person_is_asked(root: Path, triage: Triage, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    done = subprocess.run(
        [
            sys.executable, "-m", "triage", "patch", "local", "--package-root", f"{root}/sglang",
            "--python", sys.executable, "--id", ID, "--given", MLA, "--apply",
        ],
        env=triage.environment, stdin=theirs, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert f"Make this change ({ID})?" in done.stderr
    assert (backend(root) == BACKEND_SOURCE) == (code != 0)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("--id", ID, "--given", "pool_class=SWAKVPool", "--apply", "--yes"), 4, "blocked"),
        (("--id", ID, "--apply", "--yes"), 4, "--given"),  # nobody said which pool serves
        (("--id", "no-such-patch"), 2, ID),
        (("--id", ID, "--given", "pool_class"), 2, "NAME=VALUE"),
        (("--id", ID, "--python", "/no/python"), 3, "--python"),
        (("--id", ID, "--patches", "/no/patches"), 2, "no such directory"),
        (("--id", ID, "--ledger", "/etc/passwd"), 4, "/etc/passwd is not a directory"),
    ],
)
def test_refusals(root: Path, triage: Triage, words: tuple[str, ...], code: int, expected: str) -> None:
    done = triage.show(*words)
    assert done.returncode == code, done.stdout + done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert backend(root) == BACKEND_SOURCE


def test_a_fixed_tree_needs_nothing_and_says_so(root: Path, triage: Triage) -> None:
    receiver = "model_runner.token_to_kv_pool"
    install(root, triton_backend=BACKEND_SOURCE.replace("buffer(0)", f"buffer({receiver}.start_layer)"))
    done = triage.apply("--yes")
    assert (done.returncode, "fixed-upstream" in done.stdout) == (0, True)
    assert f"nothing was changed: the source has the fix of {ID} already" in done.stdout
    assert done.stdout.endswith("old source; restart the service to run it: triage verify local\n")


def test_absent_is_not_fixed(tmp_path: Path, triage: Triage) -> None:
    triage.root = tmp_path / "nothing"
    done = triage.apply("--yes")
    assert (done.returncode, "not-installed" in done.stderr) == (4, True)


def test_export_is_a_diff_that_patch_applies(root: Path, triage: Triage) -> None:
    planned = triage.show("--id", ID, "--given", MLA, "--export", "diff")
    triage.apply("--yes")
    new = backend(root)
    exported = triage.show("--export", "diff")  # what is on record
    assert (exported.returncode, exported.stdout) == (0, planned.stdout), exported.stderr
    install(root)
    argv = ["patch", "-p1", "-F0", "-d", str(root)]
    subprocess.run(argv, input=exported.stdout, text=True, check=True, timeout=20)
    assert backend(root) == new


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("--id", ID, "--export", "diff", "--apply"), 2, "--export and --apply"),
        (("--id", ID, "--all"), 2, "--all and --id"),
        (("--id", ID, "--given", "pool_class=SWAKVPool", "--export", "ansible"), 4, "blocked"),
        (("--export", "dockerfile"), 4, "none is applied"),
        (("--apply", "--yes"), 4, "no patch is known for what ran there"),
    ],
)
def test_exports_that_are_refused(
    root: Path, triage: Triage, words: tuple[str, ...], code: int, expected: str
) -> None:
    done = triage.show(*words)
    assert (done.returncode, expected in done.stderr) == (code, True), done.stderr
    assert "--- a/" not in done.stdout


def test_which_change_is_meant(root: Path, triage: Triage) -> None:
    nothing = triage("rollback", "local", "--yes")
    assert (nothing.returncode, "no such change is applied" in nothing.stderr) == (2, True)
    triage.apply("--yes")
    wrong = triage("rollback", "local", "--id", "another", "--yes")
    assert (wrong.returncode, "triage patch status local" in wrong.stderr) == (2, True)
    (change,) = parsed(triage("status", "local", "--format", "json"))["changes"]
    assert triage("rollback", "local", "--id", change["id"], "--yes").returncode == 0


def test_what_is_on_record_is_shown_without_an_id(root: Path, triage: Triage) -> None:
    assert "no patch is proposed" in triage.show().stdout
    triage.apply("--yes")
    assert f"{ID}: applied" in triage.show().stdout


def test_source_text_does_not_steer_the_terminal(root: Path, triage: Triage) -> None:
    install(root, triton_backend=BACKEND_SOURCE.replace("# the width", "# \x1b]0;title\x07"))
    done = triage.show("--id", ID, "--given", MLA)
    assert "\\x1b]0;title\\x07" in done.stdout
    assert "\x1b" not in done.stdout


def test_help_names_the_host_and_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "triage", "patch", "--help"], capture_output=True, text=True, timeout=60
    )
    assert "triage patch HOST" in " ".join(done.stdout.split())
    for name in ("status", "rollback", "--export"):
        assert name in done.stdout


def test_a_directory_instead_of_a_host(root: Path, triage: Triage) -> None:
    unnamed = triage(str(root))
    assert (unnamed.returncode, f"Next: triage scan {root}" in unnamed.stderr) == (2, True)
    done = triage(str(root), "--id", ID, "--given", MLA, "--apply", "--yes")
    assert (done.returncode, "start_layer" in backend(root)) == (0, True), done.stderr
    assert done.stdout.endswith("\nrestart what runs from it\n")
    blocked = triage(str(root), "--id", "sglang-triton-swa-value-head-dim", "--apply", "--yes")
    assert (blocked.returncode, blocked.stderr.endswith(f"Next: triage scan {root}\n")) == (4, True)
