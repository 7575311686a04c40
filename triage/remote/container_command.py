"""Runs a command in a container for as long as its client lives: exec alone leaves what it has started.

One file, standard library alone, Python 3.7 or newer, sent to the container and run by the service's own
interpreter: `python -I -S -B -c SOURCE BYTES COMMAND...`. The command is given the first BYTES of standard
input. When that ends after them, the client has gone, and the command is ended with what it has started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 2.0  # seconds between SIGTERM and SIGKILL


def watch(process: subprocess.Popen[bytes], left: int) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as given:
        piece = b"begin"
        while left and piece:
            piece = os.read(0, min(left, 1 << 16))
            left -= len(piece)
            given.write(piece)
    while os.read(0, 1 << 16):
        pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        time.sleep(GRACE)


def main() -> int:
    process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, start_new_session=True)
    threading.Thread(target=watch, args=(process, int(sys.argv[1])), daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
