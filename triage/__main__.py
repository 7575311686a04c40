"""The way in. Ctrl-C ends quietly from the first line on, also while the commands are still being loaded."""

from __future__ import annotations

import os
import signal

from triage.common.errors import INTERRUPTED


def main() -> None:
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell may have it ignored
    if heard:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from triage.cli.app import main as run

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
