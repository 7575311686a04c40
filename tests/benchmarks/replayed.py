"""A service that died, played again: each line is written by a process of its own writer's, in order.

Runs in a box, as the service: `replayed.py LINES`, where LINES holds a JSON array `[pid, text]` a line. Ends
as the service did, by SIGKILL.
"""

import json
import os
import signal
import sys
import time


def main(path):
    writers = {}
    with open(path, encoding="utf-8") as file:
        for pid, text in map(json.loads, file):
            if pid not in writers:
                writers[pid] = _writer()
            to, done = writers[pid]
            to.write(text.encode() + b"\n")
            done.read(1)
    time.sleep(2)  # what took minutes is written at once: journald is behind, and systemd has the last word
    os.kill(os.getpid(), signal.SIGKILL)


def _writer():
    """A process that passes on what it is sent, and says when a line is out."""
    (lines, to), (done, says) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(to)
        with os.fdopen(lines, "rb") as given:
            for line in given:
                os.write(2, line)
                os.write(says, b".")
        os._exit(0)
    os.close(lines)
    return os.fdopen(to, "wb", 0), os.fdopen(done, "rb", 0)


main(sys.argv[1])
