"""Cases: what was asked of a host and what it answered, in a directory that can be diagnosed anywhere.

    CASE/manifest.json         schema `triage.case/1`: questions, commands, files, hashes, what is missing
    CASE/answers/journal-sglang-kimi.service.jsonl ...
    CASE/log                   the log that was given by hand, if one was

Other files in the directory (an `expected.yaml`) are not part of the bundle and stay when it is written anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from triage.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.anonymity import Anonymiser, host_names, users_in
from triage.evidence.live import LiveEvidence
from triage.evidence.queries import HostName
from triage.evidence.recorded import Recorded
from triage.logs.model import LogSource

MANIFEST = "manifest.json"
SCHEMA = "triage.case/1"
ANSWERS = "answers"
LOG = "log"
AGAIN = "triage capture HOST -o DIR"
LEFT_OUT = "left out: the case was captured without program text"
SUBJECTS = ("unit", "path", "python", "program", "pid")  # the field of a query that names its file
MAX_MANIFEST = 64 * 1024 * 1024  # bytes
MAX_ANSWER = 1024 * 1024 * 1024  # bytes


@dataclass(frozen=True)
class Case:
    """A captured bundle. `unit` and `log` are what the diagnosis was asked with."""

    name: str
    recorded: tuple[Recorded, ...]
    unit: str = ""
    log: LogSource | None = None
    created: str = ""  # ISO 8601, UTC


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    command: str
    file: str = Field(default="", pattern=r"^(?:answers/[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,160})?$")
    sha256: str = ""
    missing: str = ""
    partial: str = ""


class _Log(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    sha256: str
    partial: str = ""


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal["triage.case/1"] = Field(alias="schema")
    created: str
    unit: str = ""
    log: _Log | None = None
    answers: tuple[_Answer, ...]


def write_case(
    directory: Path,
    evidence: LiveEvidence,
    unit: str = "",
    log: LogSource | None = None,
    source: bool = True,
) -> tuple[Path, ...]:
    """Write everything that `evidence` was asked, with people, machines and addresses replaced.

    Without `source`, program text that was read is left out. The directory appears whole or not at all.
    Raises RefusedError when something else is in its place, UnreachableError when it cannot be written.
    Returns the files of the bundle.
    """
    _check_place(directory)
    recorded, unit, log = _anonymous(evidence, unit, log)
    if not source:
        recorded = tuple(map(_without_source, recorded))
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
            built = Path(scratch) / "new"
            _write_bundle(built, recorded, unit, log, created)
            _keep_others(directory, built)
            if directory.exists():
                os.rename(directory, Path(scratch) / "old")
            os.rename(built, directory)
    except OSError as error:
        raise UnreachableError(
            "writing the case", str(directory), error.strerror or str(error), f"ls -ld {directory.parent}"
        ) from None
    return tuple(sorted(path for path in directory.rglob("*") if path.is_file()))


def read_case(directory: Path) -> Case:
    """A case from disk. Raises UsageError that names the file and the key which are broken."""
    manifest = _read_manifest(directory)
    recorded = []
    for answer in manifest.answers:
        text = None
        if answer.file:
            data = _read_file(directory, answer.file, answer.sha256, f"answer {answer.key!r}")
            text = data.decode("utf-8", "surrogateescape")
        recorded.append(Recorded(answer.key, answer.command, text, answer.missing, answer.partial))
    log = None
    if manifest.log:
        data = _read_file(directory, LOG, manifest.log.sha256, "log")
        log = LogSource(manifest.log.name, data, manifest.log.partial)
    return Case(directory.name or str(directory), tuple(recorded), manifest.unit, log, manifest.created)


def _anonymous(
    evidence: LiveEvidence, unit: str, log: LogSource | None
) -> tuple[tuple[Recorded, ...], str, LogSource | None]:
    """What was asked, without names; keys too, so that a replay asks for the same."""
    recorded = evidence.recorded
    own_name = evidence.ask(HostName()).value or ""
    hosts = {*host_names(own_name), *host_names(evidence.origin.name)}
    anonymiser = Anonymiser(evidence.redactor, users_in(recorded), hosts)
    text = anonymiser.text
    if log is not None:
        said = evidence.redactor.redact(bytes(log.data).decode("utf-8", "surrogateescape"))
        log = replace(log, name=text(log.name), data=text(said).encode("utf-8", "surrogateescape"))
    return (
        tuple(
            Recorded(
                text(each.key),
                text(each.command),
                None if each.text is None else text(each.text),
                text(each.missing),
                each.partial,
                each.source,
            )
            for each in recorded
        ),
        text(unit),
        log,
    )


def _without_source(recorded: Recorded) -> Recorded:
    return replace(recorded, text=None, missing=LEFT_OUT) if recorded.source and recorded.text else recorded


def _write_bundle(
    built: Path, recorded: Iterable[Recorded], unit: str, log: LogSource | None, created: str
) -> None:
    (built / ANSWERS).mkdir(parents=True)
    taken: set[str] = set()
    answers = []
    for each in recorded:
        file, digest = "", ""
        if each.text is not None:
            file, data = (
                f"{ANSWERS}/{_file_name(each.key, taken)}",
                each.text.encode("utf-8", "surrogateescape"),
            )
            (built / file).write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
        answers.append(
            _Answer(
                key=each.key,
                command=each.command,
                file=file,
                sha256=digest,
                missing=each.missing,
                partial=each.partial,
            )
        )
    told = None
    if log is not None:
        said = bytes(log.data)
        (built / LOG).write_bytes(said)
        told = _Log(name=log.name, sha256=hashlib.sha256(said).hexdigest(), partial=log.partial)
    manifest = _Manifest(schema=SCHEMA, created=created, unit=unit, log=told, answers=tuple(answers))
    text = manifest.model_dump_json(by_alias=True, indent=1, exclude_defaults=True)
    (built / MANIFEST).write_text(f"{text}\n", "utf-8")


def _file_name(key: str, taken: set[str]) -> str:
    """`journal-sglang-kimi.service.jsonl`, from the question; a number tells equal ones apart."""
    query, _, fields = key.partition(" ")
    values = json.loads(fields)
    subject = next((str(values[name]) for name in SUBJECTS if values.get(name)), "")
    words = re.sub(r"[^A-Za-z0-9_.@+-]+", "-", subject)[-80:].strip("-.")
    stem, extension = (
        f"{query}-{words}".strip("-"),
        ".jsonl" if query in ("journal", "kernel-log") else ".txt",
    )
    name, count = f"{stem}{extension}", 1
    while name.lower() in taken:
        count += 1
        name = f"{stem}-{count}{extension}"
    taken.add(name.lower())
    return name


def _check_place(directory: Path) -> None:
    if not directory.exists() and not directory.is_symlink():
        return
    if directory.is_dir() and not directory.is_symlink():
        if not any(directory.iterdir()):
            return
        if (directory / MANIFEST).is_file():
            try:
                _read_manifest(directory)
                return
            except UsageError:
                pass
    raise RefusedError(
        "writing the case",
        str(directory),
        "something that is no case is there already",
        f"choose another directory; ls -la {directory}",
    )


def _keep_others(old: Path, new: Path) -> None:
    """Files beside the bundle, such as an expectation, belong to whoever put them there."""
    if old.is_dir():
        for path in old.iterdir():
            if path.name not in (MANIFEST, ANSWERS, LOG):
                if path.is_dir() and not path.is_symlink():
                    shutil.copytree(path, new / path.name, symlinks=True)
                else:
                    shutil.copy2(path, new / path.name, follow_symlinks=False)


def _read_manifest(directory: Path) -> _Manifest:
    path = directory / MANIFEST
    data = _read_bounded(path, MAX_MANIFEST, "manifest")
    try:
        return _Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError("reading the case", str(path), f"{where}: {first['msg']}", AGAIN) from None


def _read_file(directory: Path, file: str, sha256: str, what: str) -> bytes:
    path = directory / file
    data = _read_bounded(path, MAX_ANSWER, what)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UsageError(
            "reading the case", str(path), f"{what}: its bytes are not those that were captured", AGAIN
        )
    return data


def _read_bounded(path: Path, limit: int, what: str) -> bytes:
    try:
        if (
            path.is_symlink()
            or not path.is_file()
            or (path.parent.name == ANSWERS and path.parent.is_symlink())
        ):
            raise UsageError("reading the case", str(path), f"{what}: there is no such plain file", AGAIN)
        if path.stat().st_size > limit:
            raise UsageError("reading the case", str(path), f"{what}: larger than {limit} bytes", AGAIN)
        return path.read_bytes()
    except OSError as error:
        raise UsageError("reading the case", str(path), f"{what}: {error.strerror or error}", AGAIN) from None
