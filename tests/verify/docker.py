#!/usr/bin/env python3
"""Plays docker for one container, whose process is a real one: inspect, restart, logs, exec.

The rest is what docker 28 prints of `inspect`. DOCKER_STATE is a directory with `command.json`, the argv.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

STATE = Path(os.environ.get("DOCKER_STATE", ""))
ID = "7" * 64


def read(name: str, default: str = "") -> str:
    path = STATE / name
    return path.read_text() if path.exists() else default


def running() -> bool:
    try:
        status = Path(f"/proc/{int(read('pid', '0'))}/stat").read_text()
    except (OSError, ValueError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def inspect() -> None:
    code = int(read("code", "0"))
    state = {"Status": "running", "Running": True, "Pid": int(read("pid", "0")), "ExitCode": 0}
    if not running():
        state = {"Status": "exited", "Running": False, "Pid": 0, "ExitCode": code or 1}
    print(json.dumps({**state, "OOMKilled": False, "StartedAt": read("started", "0001-01-01T00:00:00Z")}))


def restart() -> None:
    if running():
        os.kill(int(read("pid")), signal.SIGTERM)
        while running():
            time.sleep(0.05)
    with (STATE / "log").open("w") as log:
        argv = json.loads(read("command.json"))
        process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
    (STATE / "pid").write_text(str(process.pid))
    (STATE / "started").write_text(datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"))
    print(ID)


def execute(argv: tuple[str, ...]) -> int:
    """What runs inside is no child of the client's, and stays when that is killed; only its input ends."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
    threading.Thread(target=relay, args=(process.stdin,), daemon=True).start()
    return process.wait()


def relay(given: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError), given:
        while piece := os.read(0, 1 << 16):
            given.write(piece)
            given.flush()


def main(verb: str, *words: str) -> None:
    if read("refuses"):
        sys.exit("permission denied while trying to connect to the Docker daemon socket")
    if words and words[-1] != ID and verb != "exec":
        sys.exit(f"Error: No such container: {words[-1]}")
    if verb == "inspect":
        inspect()
    elif verb == "restart":
        restart()
    elif verb == "logs":
        assert words[:3] == ("--follow", "--since", read("started"))
        os.execvp("tail", ["tail", "--follow", "--bytes=+1", str(STATE / "log")])
    elif verb == "exec":
        assert words[:2] == ("--interactive", ID)
        sys.exit(execute(words[2:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
