"""The output of a running command so far, within its limits."""

from __future__ import annotations

from typing import Literal

from triage.hosts.connection import Output

CHUNK = 256 * 1024  # bytes a read

Stream = Literal["stdout", "stderr"]


class Capture:
    """Collects both output streams, each up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.cut: Literal["", "bytes", "time"] = ""

    def add(self, stream: Stream, data: bytes | bytearray) -> None:
        """Keep `data`, and set `cut` if that stream exceeds its limit."""
        kept = self.stdout if stream == "stdout" else self.stderr
        kept += data
        if len(kept) > self.limit:
            del kept[self.limit :]
            self.cut = "bytes"

    def output(self, code: int | None) -> Output:
        return Output(None if self.cut else code, bytes(self.stdout), bytes(self.stderr), self.cut)
