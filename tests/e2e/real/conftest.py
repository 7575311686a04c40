"""Commands of triage against a real server in a box, each with its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

WORDS = "--requests 2 --repeats 2-2 --concurrency 2 --max-tokens 8 --prompt-tokens 16"
BRIEF = tuple(WORDS.split())


@pytest.fixture
def triage(box, tmp_path):
    environment = {
        **os.environ,
        "TRIAGE_SSH_CONFIG": str(box.ssh_config()),
        "XDG_STATE_HOME": str(tmp_path),
        "COLUMNS": "120",
    }

    def run(*arguments, code=0):
        begin = time.monotonic()
        argv = [sys.executable, "-m", "triage", *arguments, "--format", "json"]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=900, check=False)
        print(f"{time.monotonic() - begin:6.1f} s  triage {' '.join(arguments)}: exit {done.returncode}")
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return json.loads(done.stdout)

    return run
