"""Started by `story.pth` in every interpreter of the service's environment; acts in the service alone.

When `python -m sglang.launch_server` looks for `sglang`, everything that this machine lacks is put in
place. Any other program of this environment sees the packages as they were installed.
"""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from typing import Any

OLDEST = (0, 5, 10)  # older ones come up in another way


class Entrance:
    """Waits for the first import of `sglang`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "sglang":
            return None
        sys.meta_path.remove(Entrance)
        version = metadata.version("sglang")
        if tuple(int(part) for part in version.split(".")[:3]) < OLDEST:
            sys.exit(f"story: sglang {version} is here to be read; what runs is 0.5.10 and newer")
        from . import absent, standins

        standins.prepare_torch()
        return absent.install(standins.VALUES).find_spec(name, path, target)


if sys.orig_argv[1:3] == ["-m", "sglang.launch_server"]:
    sys.meta_path.insert(0, Entrance)
