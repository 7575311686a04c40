"""What a test run inherits from whoever starts it, made the same for everyone.

Tests and the programs that they start see one environment: no terminal's size, no colours, no locale, no
time zone, no home directory and no settings of the user's; signals that end a program end it.
"""

from __future__ import annotations

import atexit
import contextlib
import locale
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache" / "user"
TESTS_OWN = (  # variables of which the others of this prefix are the program's
    *("TRIAGE_BENCH_", "TRIAGE_CACHE", "TRIAGE_FUZZ", "TRIAGE_PAD_MB", "TRIAGE_REQUIRE_E2E", "TRIAGE_SUITES"),
    "TRIAGE_WINDOWS",
)
DROPPED = (
    *("CLICOLOR", "COLORTERM", "COLUMNS", "DISPLAY", "EDITOR", "FORCE_COLOR", "GREP_", "HF_TOKEN"),
    *("KUBECONFIG", "LANGUAGE", "LC_", "LESS", "LINES", "NO_COLOR", "PAGER", "POSIXLY_CORRECT", "TTY_"),
    *("CONTAINER_", "DOCKER_", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "PYTHON", "SGLANG_"),
    *("SSH_", "SUDO_", "SYSTEMD_", "TRIAGE_", "VISUAL", "VLLM_", "XDG_"),
)
KEPT = ("PYTHONHOME", "PYTHONPATH", *TESTS_OWN)
ENDING = (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def environment(inherited: Mapping[str, str], home: str) -> dict[str, str]:
    """What is left of an environment, with a home directory that is nobody's.

    What pip, uv and pyenv keep below the user's home directory is still found: nothing is fetched twice.
    """
    left = {
        name: value
        for name, value in inherited.items()
        if name.startswith(KEPT) or not name.startswith(DROPPED)
    }
    kept = {"PYENV_ROOT": ".pyenv", "PIP_CACHE_DIR": ".cache/pip", "UV_CACHE_DIR": ".cache/uv"}
    for name, below in kept.items():
        if os.path.isdir(place := os.path.expanduser(f"~/{below}")):
            left.setdefault(name, place)
    own = {"HOME": home, "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "xterm", "XDG_CACHE_HOME": str(CACHE)}
    return left | own


def settle() -> None:
    """Make this process, and so what it starts, the same for everyone. Once only: workers inherit it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        home = tempfile.mkdtemp(prefix="triage-home-")
        atexit.register(_leave, home, os.getpid())
        settled = environment(os.environ, home)
        os.environ.clear()
        os.environ.update(settled)
    for name in ("COLUMNS", "LINES"):  # on a terminal readline sets these, unknown to os.environ
        os.unsetenv(name)
    time.tzset()
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
    os.umask(0o022)
    sys.dont_write_bytecode = False
    if sys.warnoptions:  # of PYTHONWARNINGS
        sys.warnoptions.clear()
        warnings.resetwarnings()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_IGN:  # under nohup
            signal.signal(number, _go_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _leave(home: str, process: int) -> None:
    """Remove the home directory with the process that has made it, not with a copy of that process."""
    if os.getpid() == process:
        shutil.rmtree(home, ignore_errors=True)


def _go_on(*_: object) -> None:
    """Outlive the signal, as whoever has had it ignored wants; no program that is started inherits this."""
