"""A run of the tests does not depend on how it is started: under nohup, in the background, or wherever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.surroundings import ENDING, environment

REPOSITORY = Path(__file__).parents[1]
ODD = {
    "CLICOLOR_FORCE": "1",
    "COLUMNS": "40",
    "FORCE_COLOR": "1",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "LINES": "5",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONWARNINGS": "error",
    "SSH_AUTH_SOCK": "/nonexistent/agent",
    "TERM": "dumb",
    "TRIAGE_INVENTORY": "/nonexistent/hosts.yaml",
    "TRIAGE_LEDGER": "/nonexistent/ledger",
    "TZ": "America/St_Johns",
    "XDG_CACHE_HOME": "relative",
    "XDG_CONFIG_HOME": "/nonexistent/config",
}
ASKED = """
import json, os, signal, sys, time
ignored = [each.name for each in signal.Signals if signal.getsignal(each) is signal.SIG_IGN]
mask = os.umask(0)
print(json.dumps([sorted(ignored), mask, time.timezone, sys.getfilesystemencoding(), dict(os.environ)]))
"""


def test_what_a_test_starts_inherits_nothing_of_a_user() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, check=True, timeout=60)
    ignored, mask, zone, encoding, seen = json.loads(done.stdout)
    assert ignored == ["SIGPIPE", "SIGXFSZ"]  # as Python has it
    assert (mask, zone, encoding) == (0o022, 0, "utf-8")
    assert not [name for name, value in ODD.items() if seen.get(name) == value]
    assert os.access(seen["HOME"], os.W_OK)


def test_what_a_user_has_set_for_the_tests_stays() -> None:
    told = {
        "TRIAGE_FUZZ": "7",
        "PATH": "/bin",
        "PIP_INDEX_URL": "x",
        "TRIAGE_SSH_CONFIG": "y",
        "COLUMNS": "1",
    }
    left = environment(told, "/home")
    assert [left.get(name) for name in told] == ["7", "/bin", "x", None, None]


def test_a_run_under_nohup_and_in_the_background_passes(tmp_path: Path) -> None:
    chosen = (
        *("tests/test_surroundings.py::test_what_a_test_starts_inherits_nothing_of_a_user",),
        *("tests/cli/test_interrupted.py", "tests/report/test_timeline.py", "tests/common/test_files.py"),
    )
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path}/made",
            *chosen,
        ],
        cwd=REPOSITORY,
        env={**kept, **ODD},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        preexec_fn=_as_nohup,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def _as_nohup() -> None:
    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
