"""Run the service as a plain process: `python -m examples.story.run DIR [option ...] [--log FILE]`.

Options that are not listed go to `sglang.launch_server`, after those of the unit file. The exit status is
the one that a shell would tell: 137 when SGLang killed itself.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from examples.story.setup import MODEL, command


def run(arguments: list[str], log: Path | None) -> int:
    """Run a command until it ends; SIGTERM is passed on. Returns its status as a shell would."""
    output = log.open("wb") if log else None
    process = subprocess.Popen(arguments, stdout=output, stderr=output)
    signal.signal(signal.SIGTERM, lambda signum, frame: process.terminate())
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue  # the service got the same signal and is ending
        return status if status >= 0 else 128 - status


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("directory", type=Path, metavar="DIR", help="made by examples.story.setup")
    parser.add_argument("--log", type=Path, metavar="FILE", help="where its output goes (default: here)")
    parser.add_argument("--model", default=MODEL, help="of DIR/models (default: %(default)s)")
    options, more = parser.parse_known_args()
    return run(command(options.directory.resolve(), *more, model=options.model), options.log)


if __name__ == "__main__":
    sys.exit(main())
