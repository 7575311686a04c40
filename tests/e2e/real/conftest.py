"""Commands of triage against a real server in a box, each with its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from tests.verify.conftest import free_port
from triage.hosts.local import LocalConnection
from triage.verify.load.client import Client

WORDS = "--requests 2 --repeats 2-2 --concurrency 2 --max-tokens 8 --prompt-tokens 16"
BRIEF = tuple(WORDS.split())


@pytest.fixture
def port():
    """Boxes share this machine's loopback."""
    return free_port()


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
        return json.loads(done.stdout) if done.stdout else done.stderr

    return run


def tells_what_runs(port, tokens):
    """A server that has one request, which takes seconds, says so, and none afterwards."""
    body = json.dumps({"model": "tiny", "prompt": "a", "max_tokens": tokens, "ignore_eos": True}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, headers)
    asking = threading.Thread(target=lambda: urllib.request.urlopen(request).read())
    client = Client(LocalConnection(), sys.executable, "127.0.0.1", port)
    seen = {client.running().count}
    asking.start()
    while asking.is_alive():
        seen.add(client.running().count)
    assert seen == {0, 1}
    time.sleep(2)
    assert client.running().count == 0


def show(proof):
    """The figures of triage and those of the engine's own benchmark."""
    tool = proof["by_tool"]
    assert tool["failure"] == ""
    assert [one["concurrency"] for one in tool["metrics"]] == [1, 2]
    for title, metrics in (("triage", proof["metrics"]), (tool["tool"], tool["metrics"])):
        for one in metrics:
            assert one["failed"] == 0
            figures = ", ".join(f"{name} {one[f'{name}_ms']:.1f}" for name in ("ttft", "tpot", "e2e"))
            rate = f"{one['output_throughput']:.2f} tokens/s"
            print(f"{title}, {one['concurrency']} streams: {figures} ms; {rate}")
