"""Everything that the story needs and pip does not bring: `make story`. Says what it does, once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from examples.story import setup

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TRIAGE_CACHE") or ROOT / ".cache")
SERVICE = CACHE / "story" / setup.VERSION


def main() -> int:
    """Fetch the engine's sources, and build the root file system of the boxes where boxes can run."""
    from tests.e2e import box

    try:
        if setup.prepare(SERVICE):
            print(f"made {SERVICE}: the real sglang {setup.VERSION} and its stand-ins")
    except setup.SetupError as error:
        print(f"story: {error}", file=sys.stderr)
        return 1
    reason = box.why_not()
    if reason:
        print(f"no test machine here ({reason}): the story plays as a plain process")
    else:
        box.rootfs()
    return 0


if __name__ == "__main__":
    sys.exit(main())
