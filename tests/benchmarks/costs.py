"""What a command costs: `python -m tests.benchmarks.costs COMMAND...` prints wall and CPU seconds as JSON.

The CPU is that of the command and of all that it leaves running in the background, which is waited for:
ssh(1) goes there to share its connection. Exits as the command did; its output goes to standard error.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time

CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans become our own children


def main(argv: list[str]) -> int:
    ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1)
    start = time.perf_counter()
    code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
    wall = time.perf_counter() - start
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"wall": wall, "cpu": took.ru_utime + took.ru_stime}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
