"""Cases: what was asked of a host and what it answered, in a directory that can be diagnosed anywhere.

    CASE/manifest.json         schema `triage.case/1`: questions, commands, files, hashes, what is missing,
                               what was cut, how often something was redacted
    CASE/answers/journal-sglang-kimi.service.jsonl ...
    CASE/log                   the log that was given by hand, if one was

Other files in the directory (an `expected.yaml`) are not part of the bundle and stay when it is replaced.
The same directory in one file is an archive (`triage.evidence.cases.archive`); whatever reads a case reads
both.

A manifest of the same schema and a larger `minor` is read without the keys that are not known here; one of
another schema is refused.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.common.files import create, read_plain
from triage.common.json import parse_json
from triage.common.problems import problems_of
from triage.evidence.cases import archive
from triage.evidence.catalogue import HostName
from triage.evidence.live import LiveEvidence
from triage.evidence.recorded import Case, Recorded
from triage.evidence.redaction.anonymity import Anonymiser, host_names, hosts_in, users_in
from triage.logs.model import LogSource

MANIFEST = "manifest.json"
SCHEMA = "triage.case/1"
MINOR = 2  # 1: `size`, `redacted`; 2: `prompts_kept`
ANSWERS = "answers"
LOG = "log"
AGAIN = "triage capture HOST -o DIR"
LEFT_OUT = "left out: the case was captured without program text"
SUBJECTS = ("unit", "path", "python", "program", "pid")  # the field of a query that names its file
MAX_MANIFEST = 64 * 1024 * 1024  # bytes
MAX_ANSWER = 1024 * 1024 * 1024  # bytes
_PLACEHOLDER = re.compile(r"<(token|prompt|user|host|address|email|mac)-[0-9]{1,9}>")


@dataclass(frozen=True)
class CaseEntry:
    """One query of a case. `size` is in bytes; `redacted` counts the placeholders in its answer, by kind."""

    query: str  # its name in the catalogue, or "log" for a log that was given with --log
    about: str  # the fields that distinguish it from others
    command: str
    file: str = ""  # within the case, "" without an answer
    size: int = 0
    missing: str = ""
    partial: str = ""
    redacted: Mapping[str, int] = field(default_factory=dict)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    command: str
    file: str = Field(default="", pattern=r"^(?:answers/[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,160})?$")
    sha256: str = ""
    missing: str = ""
    partial: str = ""
    size: int = Field(default=0, ge=0)
    redacted: dict[str, int] = {}


class _Log(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    sha256: str
    partial: str = ""
    size: int = Field(default=0, ge=0)
    redacted: dict[str, int] = {}


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal["triage.case/1"] = Field(alias="schema")
    minor: int = 0
    created: str
    unit: str = ""
    prompts_kept: bool = False
    log: _Log | None = None
    answers: tuple[_Answer, ...]


def write_case(
    case: Path,
    evidence: LiveEvidence,
    unit: str = "",
    log: LogSource | None = None,
    source: bool = True,
    replacing: bool = False,
) -> None:
    """Write everything that `evidence` was asked, with people, machines and addresses replaced.

    `case` is a directory, or an archive by its suffix. Without `source`, program text is left out. The case
    appears completely or not at all. Raises as `check_place` does, and UnreachableError if it cannot be
    written.
    """
    check_place(case, replacing)
    recorded, unit, log = _anonymous(evidence, unit, log)
    if not source:
        recorded = tuple(map(_without_source, recorded))
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        case.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{case.name}-", dir=case.parent) as scratch:
            built = Path(scratch) / "new"
            _write_bundle(built, recorded, unit, log, created, evidence.redactor.keeps_prompts)
            if archive.is_archive(case):
                archive.pack(built, case)
                return
            _keep_others(case, built)
            if case.exists():
                _keep_modes(case, built)
                os.rename(case, Path(scratch) / "old")
            os.rename(built, case)
    except OSError as error:
        raise UnreachableError(
            "writing the case", str(case), error.strerror or str(error), f"ls -ld {case.parent}"
        ) from None


def read_case(case: Path) -> Case:
    """Read a case, a directory or an archive, from disk.

    Raises UsageError that names the invalid file and key.
    """
    with archive.opened(case) as directory:
        manifest = _manifest_of_all(directory)
        recorded = []
        for answer in manifest.answers:
            text = None
            if answer.file:
                text = _answer(directory, answer).decode("utf-8", "surrogateescape")
            recorded.append(Recorded(answer.key, answer.command, text, answer.missing, answer.partial))
        log = None
        if manifest.log:
            data = _read_file(directory, LOG, manifest.log.sha256, "log")
            log = LogSource(manifest.log.name, data, manifest.log.partial)
        name = directory.name or str(directory)
        return Case(name, tuple(recorded), manifest.unit, log, manifest.created)


def is_one(path: str) -> bool:
    """Return whether there is a case at that path, valid or not. Never raises."""
    return os.path.isfile(path if archive.is_archive(Path(path)) else os.path.join(path, MANIFEST))


def list_case(case: Path) -> tuple[str, bool, tuple[CaseEntry, ...]]:
    """Return when a case was captured, whether prompts were kept in it, and what its manifest says about each
    query. Raises as `read_case` does.
    """
    with archive.opened(case) as directory:
        manifest = _manifest_of_all(directory)
        told = [
            CaseEntry(
                *_question(answer.key),
                answer.command,
                answer.file,
                len(_answer(directory, answer)),
                answer.missing,
                answer.partial,
                answer.redacted,
            )
            for answer in manifest.answers
        ]
        if manifest.log:
            log = manifest.log
            size = len(_read_file(directory, LOG, log.sha256, "log"))
            told.append(CaseEntry("log", log.name, "", LOG, size, "", log.partial, log.redacted))
        return manifest.created, manifest.prompts_kept, tuple(told)


def _question(key: str) -> tuple[str, str]:
    """Return the name of a query, and its fields in words."""
    query, _, fields = key.partition(" ")
    try:
        values = parse_json(fields)
    except ValueError:
        return query, fields
    return query, " ".join(str(value) for value in values.values()) if isinstance(values, dict) else fields


def _answer(directory: Path, answer: _Answer) -> bytes:
    return _read_file(directory, answer.file, answer.sha256, f"answer {answer.key!r}") if answer.file else b""


def _anonymous(
    evidence: LiveEvidence, unit: str, log: LogSource | None
) -> tuple[tuple[Recorded, ...], str, LogSource | None]:
    """Return the answers without names, and the keys too, so that a replay asks the same queries."""
    recorded = evidence.recorded
    own_name = evidence.ask(HostName()).value or ""
    said = evidence.redactor.redact(bytes(log.data).decode("utf-8", "surrogateescape")) if log else ""
    everything = (*recorded, Recorded("log", "", said))
    hosts = {*host_names(own_name), *host_names(evidence.origin.name), *hosts_in(everything)}
    anonymiser = Anonymiser(evidence.redactor, users_in(everything), hosts)
    text = anonymiser.text
    if log is not None:
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
    built: Path, recorded: Iterable[Recorded], unit: str, log: LogSource | None, created: str, prompts: bool
) -> None:
    built.mkdir(mode=0o700)
    (built / ANSWERS).mkdir(mode=0o700)
    taken: set[str] = set()
    answers = []
    for each in recorded:
        file, data = "", b""
        if each.text is not None:
            file = f"{ANSWERS}/{_file_name(each.key, taken)}"
            data = each.text.encode("utf-8", "surrogateescape")
            _write(built / file, data)
        answers.append(
            _Answer(
                key=each.key,
                command=each.command,
                file=file,
                sha256=hashlib.sha256(data).hexdigest() if file else "",
                missing=each.missing,
                partial=each.partial,
                size=len(data),
                redacted=_redacted(each.text or ""),
            )
        )
    told = None
    if log is not None:
        said = bytes(log.data)
        _write(built / LOG, said)
        told = _Log(
            name=log.name,
            sha256=hashlib.sha256(said).hexdigest(),
            partial=log.partial,
            size=len(said),
            redacted=_redacted(said.decode("utf-8", "replace")),
        )
    manifest = _Manifest(
        schema=SCHEMA,
        minor=MINOR,
        created=created,
        unit=unit,
        prompts_kept=prompts,
        log=told,
        answers=tuple(answers),
    )
    text = manifest.model_dump_json(by_alias=True, indent=1, exclude_defaults=True)
    _write(built / MANIFEST, f"{text}\n".encode())


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(create(path), "wb") as file:
        file.write(data)


def _keep_modes(old: Path, new: Path) -> None:
    """A case that is written anew is for whom the old one was."""
    for path in (new, *new.rglob("*")):
        before = old / path.relative_to(new)
        if not before.is_symlink() and before.exists() and before.is_dir() == path.is_dir():
            path.chmod(stat.S_IMODE(before.stat().st_mode) & 0o777)


def _redacted(text: str) -> dict[str, int]:
    return dict(Counter(match[1] for match in _PLACEHOLDER.finditer(text)))


def _file_name(key: str, taken: set[str]) -> str:
    """Return a file name such as `journal-sglang-kimi.service.jsonl`; a number separates equal names."""
    query, _, fields = key.partition(" ")
    values = json.loads(fields)
    subject = next((str(values[name]) for name in SUBJECTS if values.get(name)), "")
    words = re.sub(r"[^A-Za-z0-9_.@+-]+", "-", subject)[-80:].strip("-.")
    stem, extension = (
        f"{query}-{words}".strip("-"),
        ".jsonl" if query in ("journal", "journal-windows", "kernel-log") else ".txt",
    )
    name, count = f"{stem}{extension}", 1
    while name.lower() in taken:
        count += 1
        name = f"{stem}-{count}{extension}"
    taken.add(name.lower())
    return name


def check_place(case: Path, replacing: bool = False) -> None:
    """Raise RefusedError if something is at the path of a case, even another case, unless it is to be
    replaced.

    Raises UnreachableError if no case can be written there.
    """
    doing = "writing the case"
    if not case.exists() and not case.is_symlink():
        parent = next(path for path in case.absolute().parents if path.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            why = os.strerror(errno.EACCES if parent.is_dir() else errno.ENOTDIR)
            raise UnreachableError(doing, str(case), why, f"ls -ld {parent}")
        return
    if case.is_dir() and not case.is_symlink() and not any(case.iterdir()) and not archive.is_archive(case):
        return
    if not _is_case(case):
        raise RefusedError(
            doing,
            str(case),
            "something that is no case is there already",
            f"choose another place; ls -la {case}",
        )
    if not replacing:
        raise RefusedError(
            doing,
            str(case),
            "there is a case already",
            f"look at it: triage case show {case}; then choose another place, or add --replace",
        )


def _is_case(path: Path) -> bool:
    if path.is_symlink() or path.is_file() != archive.is_archive(path):
        return False
    try:
        with archive.opened(path) as directory:
            _read_manifest(directory)
    except (UsageError, UnreachableError):
        return False
    return True


def _keep_others(old: Path, new: Path) -> None:
    """Keep files beside the bundle, such as an expectation: they belong to whoever put them there."""
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
        return _Manifest.model_validate(_known(parse_json(data)))
    except ValueError as error:
        raise UsageError("reading the case", str(path), _why(error), AGAIN) from None


def _manifest_of_all(directory: Path) -> _Manifest:
    """Return the manifest if it names every answer."""
    manifest = _read_manifest(directory)
    listed = {answer.file for answer in manifest.answers}
    for found in sorted((directory / ANSWERS).glob("*")):
        if f"{ANSWERS}/{found.name}" not in listed:
            raise UsageError("reading the case", str(found), "the manifest names no such answer", AGAIN)
    return manifest


def _known(told: Any) -> Any:
    """Return a manifest without the keys that only a later minor version knows.

    Raises ValueError for another schema, and for text that is not JSON.
    """
    schema = told.get("schema") if isinstance(told, dict) else None
    if isinstance(schema, str) and schema.startswith("triage.case/") and schema != SCHEMA:
        raise ValueError(f"schema: it is {schema!r}, and this triage reads {SCHEMA}; a newer one may read it")
    minor = told.get("minor", 0) if isinstance(told, dict) else 0
    if not isinstance(minor, int) or minor <= MINOR:
        return told
    parts: dict[str, type[BaseModel]] = {"log": _Log, "answers": _Answer}
    return {
        key: _only(value, parts[key]) if key in parts else value
        for key, value in _only(told, _Manifest).items()
    }


def _only(told: Any, model: type[BaseModel]) -> Any:
    if isinstance(told, list):
        return [_only(each, model) for each in told]
    if not isinstance(told, dict):
        return told
    fields = {info.alias or name for name, info in model.model_fields.items()}
    return {key: value for key, value in told.items() if key in fields}


def _why(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        said = str(error)
        return said if said.startswith("schema: ") else f"the file: Invalid JSON: {said}"
    key, reason = problems_of(error)[0]
    return f"{key or 'the file'}: {reason}"


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
        return read_plain(path, limit)
    except ValueError as error:
        raise UsageError("reading the case", str(path), f"{what}: {error}", AGAIN) from None
    except OSError as error:
        raise UsageError("reading the case", str(path), f"{what}: {error.strerror or error}", AGAIN) from None
