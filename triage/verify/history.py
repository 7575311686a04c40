"""Stored verifications: one file of JSON lines per host and deployment, appended under a lock."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from triage.common.commands import command
from triage.common.errors import UnreachableError, UsageError
from triage.common.files import name_for, open_plain, read_all, read_plain, state_directory, write_atomically
from triage.common.json import parse_json
from triage.verify.model import Verification

SCHEMA = "triage.verification/1"
MAX_FILE = 1 << 29  # bytes that are read of one
MAX_LINE = 8 * 1024 * 1024  # bytes; a longer result is stored without its single requests


class History:
    """A directory of results. A line that a kill has torn is ignored, and removed by the next append."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or state_directory("history")

    def path(self, host: str, deployment: str) -> Path:
        return self.directory / f"{name_for(deployment, host)}.jsonl"

    def append(self, host: str, result: Verification) -> None:
        """Raises UnreachableError when it cannot be written."""
        line = _encoded(result)
        if len(line) > MAX_LINE:
            line = _encoded(replace(result, loads=()))
        path = self.path(host, result.deployment)
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                end = _end_of_whole_lines(file.fileno())
                file.truncate(end)
                file.seek(end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UnreachableError(
                "store a result in", str(path), error.strerror or str(error), f"ls -ld {self.directory}"
            ) from None

    def read(self, host: str, deployment: str) -> Iterator[Verification]:
        """All results, oldest first; nothing where there is no file. Raises UnreachableError."""
        path = self.path(host, deployment)
        try:
            with open_plain(path) as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                lines = read_all(file, MAX_FILE).split(b"\n")[:-1]
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UnreachableError("read the results in", str(path), why, f"ls -l {path}") from None
        for line in lines:
            result = _decoded(line)
            if result is not None:
                yield result

    def reference(self, host: str, deployment: str) -> Verification | None:
        """What a new result is compared with: the pinned one, else the latest that can be."""
        at = self.pinned(host, deployment)
        fit = list(filter(is_measured, self.read(host, deployment)))
        return next((one for one in fit if one.at == at), fit[-1] if fit else None)

    def pinned(self, host: str, deployment: str) -> str:
        """The `at` of the baseline, "" where none is pinned. Raises UnreachableError."""
        path = self._pin(host, deployment)
        try:
            return read_plain(path, 1000).decode().strip()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise UnreachableError("read the baseline in", str(path), str(error), f"rm {path}") from None

    def lost_baseline(self, host: str, deployment: str) -> Iterator[str]:
        """What to say of a pinned result that nothing can be compared with any more."""
        at = self.pinned(host, deployment)
        if at and not any(one.at == at and is_measured(one) for one in self.read(host, deployment)):
            yield f"the pinned baseline of {at} is no longer stored; the latest result takes its place"

    def pin(self, host: str, deployment: str, at: str) -> Verification:
        """Compare with this result from now on; `at` may be "last".

        Raises UsageError for one that nothing can be compared with.
        """
        results = list(self.read(host, deployment))
        chosen = [one for one in results if is_measured(one) and at in ("last", one.at)]
        if not chosen:
            raise _not_pinned(host, deployment, at, any(one.at == at for one in results))
        write_atomically(self._pin(host, deployment), f"{chosen[-1].at}\n".encode())
        return chosen[-1]

    def unpin(self, host: str, deployment: str) -> None:
        """Compare with the latest result again. Raises UnreachableError."""
        path = self._pin(host, deployment)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnreachableError(
                "removing", str(path), error.strerror or str(error), f"ls -ld {self.directory}"
            ) from None

    def deployments(self, host: str = "") -> tuple[tuple[str, str], ...]:
        """Every (host, deployment) that has results, or those of one host."""
        names = (path.stem.partition("@") for path in sorted(self.directory.glob("*@*.jsonl")))
        found = ((unquote(host), unquote(deployment)) for deployment, _, host in names)
        return tuple(pair for pair in found if host in ("", pair[0]))

    def _pin(self, host: str, deployment: str) -> Path:
        return self.path(host, deployment).with_suffix(".baseline")


@dataclass(frozen=True)
class Listing:
    """The results of some deployments, each named by host and deployment."""

    store: History
    names: tuple[tuple[str, str], ...]


def is_measured(result: Verification) -> bool:
    """Can another be compared with it: ready until the end, measured, without failures?"""
    sound = result.verdict != "failed" and not any(one.failed for one in result.metrics)
    return bool(sound and result.start.ready and result.metrics)


def _not_pinned(host: str, deployment: str, at: str, is_there: bool) -> UsageError:
    of = f"{deployment} on {host}"
    if at == "last":
        verify = command("verify", host, "--unit", deployment)
        return UsageError("pinning the latest result of", of, "none was measured without failures", verify)
    why = "it was not measured without failures" if is_there else "there is none of that time"
    return UsageError(f"pinning the result of {at} of", of, why, command("history", host))


def _encoded(result: Verification) -> bytes:
    from pydantic import TypeAdapter

    fields = TypeAdapter(Verification).dump_python(result, mode="json")
    return json.dumps({"schema": SCHEMA, **fields}).encode() + b"\n"


def _decoded(line: bytes) -> Verification | None:
    from pydantic import TypeAdapter, ValidationError

    try:
        fields = parse_json(line)
        if not isinstance(fields, dict) or fields.pop("schema", "") != SCHEMA:
            return None
        return TypeAdapter(Verification).validate_python(fields)
    except (ValueError, ValidationError):
        return None


def _end_of_whole_lines(descriptor: int) -> int:
    """Return where the last complete line of a file ends."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
