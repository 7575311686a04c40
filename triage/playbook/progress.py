"""The progress of a run, stored after every step, so that an interrupted run can continue."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from triage.common.commands import NextCommand, command
from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.common.files import MAX_JSON, name_for, read_plain, state_directory, write_atomically
from triage.common.json import parse_json
from triage.playbook.model import Playbook, StepOutcome

SCHEMA = "triage.progress/1"


class Progress:
    """The progress of one playbook with its variables on one host. It is deleted when the run has ended.

    `again` is the command that started the run.
    """

    def __init__(
        self,
        playbook: Playbook,
        host: str,
        variables: Mapping[str, Any],
        directory: Path | None = None,
        again: NextCommand | None = None,
    ) -> None:
        said = json.dumps([playbook.name, list(map(str, playbook.steps)), host, dict(variables)])
        self._of = hashlib.sha256(said.encode()).hexdigest()
        self._again = again or command("run", "", playbook.name, host)
        name = f"{name_for(playbook.name, host)}.json"
        self.path = (directory or state_directory("runs")) / name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the progress during a run. It is deleted at the end of the run; an interruption keeps it and
        says how to continue.

        Raises RefusedError while another run of the playbook works on the host.
        """
        with self._locked():
            try:
                yield
            except KeyboardInterrupt:
                if self.path.exists():
                    print(f"interrupted; to go on: {self._again} --resume", file=sys.stderr)
                raise
            self.path.unlink(missing_ok=True)

    def _locked(self) -> BinaryIO:
        path = self.path.with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.fdopen(os.open(path, flags, 0o600), "wb")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            happened = "another run of it is at work on this host"
            raise RefusedError("running", str(self._again), happened, "wait until that has ended") from None
        except OSError as error:
            raise UnreachableError(
                "writing", str(path), error.strerror or str(error), f"ls -ld {path.parent}"
            ) from None
        return file

    def write(self, outcomes: Sequence[StepOutcome]) -> None:
        """Store the progress. Raises UnreachableError."""
        plain = [replace(one, arguments=dict(one.arguments), data=dict(one.data)) for one in outcomes]
        steps = TypeAdapter(list[StepOutcome]).dump_python(plain, mode="json")
        data = json.dumps({"schema": SCHEMA, "of": self._of, "steps": steps}).encode()
        write_atomically(self.path, data)

    def read(self) -> tuple[StepOutcome, ...]:
        """Return the outcomes of an interrupted run. Raises UsageError if no such run was interrupted."""
        try:
            found = parse_json(read_plain(self.path, MAX_JSON))
            if found["schema"] != SCHEMA or found["of"] != self._of:
                raise self._unfit("the run that was interrupted had other steps or variables")
            return TypeAdapter(tuple[StepOutcome, ...]).validate_python(found["steps"])
        except FileNotFoundError:
            raise self._unfit("no run of it was interrupted") from None
        except OSError as error:
            raise UnreachableError(
                "reading", str(self.path), error.strerror or str(error), f"ls -l {self.path}"
            ) from None
        except (ValueError, LookupError, TypeError, RecursionError, ValidationError):
            raise self._unfit(f"{self.path} is none of ours") from None

    def _unfit(self, happened: str) -> UsageError:
        return UsageError("going on with", str(self._again), happened, self._again)
