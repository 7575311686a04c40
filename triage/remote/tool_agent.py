"""Runs an engine's own benchmark on the engine's host, and hands back what it wrote.

One file, standard library alone, Python 3.7 or newer, sent to the host and run by the service's own
interpreter: `python -I -S -B -c SOURCE`, one JSON object on standard input, one on standard output. What it
starts has a process group of its own, writes below one temporary directory, and ends with this program.

    {"commands": [["python", "-m", "sglang.bench_serving", "--output-file", "RESULT", ...], ...],
     "environment": {"HF_HUB_OFFLINE": "1"}, "pid": 4711, "timeout": 300}
        -> {"results": ["the text of the file at RESULT", ...], "why": "", "words": ""}

In a command RESULT stands for the file that it is to write, and DIRECTORY for where that is. The environment
is that of the process `pid`, where it may be read, else this program's own, and `environment` above it. It
ends at the first command that fails; then `why` says how, and `words` has the end of what that printed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Json = dict[str, Any]

MAX_INPUT = 1 << 20  # bytes
MAX_RESULT = 4 << 20
WORDS = 4000  # bytes of what a command printed last
NAME = "result.json"
UNWANTED = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "WATCHDOG_USEC", "WATCHDOG_PID")
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
SET_PDEATHSIG = 1  # prctl(2)


class Ended(Exception):
    """This program was told to end, or nobody reads what it says."""


def end(number: int, frame: object) -> None:
    """Once: `timeout` passes on what the whole group was sent, and the ending itself must not be ended."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Ended


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL)


def environment_of(pid: int | None, changes: Json, home: str) -> Json:
    """What the service has in its environment. Caches and settings that a tool writes go to `home`."""
    found = dict(os.environ)
    if pid is not None:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [pair.partition(b"=") for pair in file.read(MAX_INPUT).split(b"\0") if b"=" in pair]
            found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    cache = os.path.join(found.get("HOME") or "/root", ".cache", "huggingface")
    for name in UNWANTED:
        found.pop(name, None)
    return {"HF_HOME": cache, **found, "HOME": home, "TMPDIR": home, **changes}


def run(command: list[str], environment: Json, home: str, end_at: float) -> Json:
    """One command's result, or why there is none."""
    result, words = os.path.join(home, NAME), b""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(result)
    places = {"RESULT": result, "DIRECTORY": home}
    argv = [places.get(word, word) for word in command]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=home,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    with process.stdout as output:
        try:
            while process.poll() is None:
                if time.monotonic() > end_at:
                    return {"why": "it took too long", "words": words.decode("utf-8", "replace")}
                words = heard(output.fileno(), words, 0.5)
                sys.stdout.write(" ")  # fails where nobody reads any more
                sys.stdout.flush()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        words = heard(output.fileno(), words, 0.1)
    try:
        with open(result, encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_RESULT)
    except OSError:
        text = ""
    if process.returncode or not text:
        why = f"exit status {process.returncode}" if process.returncode else "it wrote no result"
        return {"why": why, "words": words.decode("utf-8", "replace")}
    return {"result": text}


def heard(output: int, words: bytes, seconds: float) -> bytes:
    """The end of what has been printed, so many seconds later."""
    end, left = time.monotonic() + seconds, seconds
    while left > 0 and select.select([output], [], [], left)[0]:
        piece = os.read(output, 1 << 16)
        words = (words + piece)[-WORDS:]
        left = max(0.0, end - time.monotonic())
        if not piece:  # closed, by a command that may go on
            time.sleep(left)
            break
    return words


def main(job: Json) -> None:
    for number in ENDING:
        signal.signal(number, end)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a write that fails then says so
    home = tempfile.mkdtemp(prefix="triage-tool-")
    results: list[str] = []
    reply = {"results": results, "why": "", "words": ""}
    try:
        environment = environment_of(job.get("pid"), job["environment"], home)
        end_at = time.monotonic() + job["timeout"]
        for command in job["commands"]:
            found = run(command, environment, home, end_at)
            if "result" not in found:
                reply.update(found)
                break
            results.append(found["result"])
    except (Ended, BrokenPipeError):
        reply.clear()
    except OSError as error:
        reply["why"] = str(error)
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(home, ignore_errors=True)
    if not reply:
        os._exit(1)  # without a last word to a pipe that may be closed
    sys.stdout.write(json.dumps(reply))


if __name__ == "__main__":
    main(json.load(sys.stdin))
