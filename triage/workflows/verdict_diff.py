"""Verdicts of replayed cases held against those of other rules, or of an earlier result: which flip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.common.errors import TriageError, UnreachableError, UsageError
from triage.common.files import read_plain
from triage.common.json import parse_json
from triage.rules.load import load_rules
from triage.workflows.diagnose import load_knowledge
from triage.workflows.replay import Expected, Replayed, diagnose_case, expectation

if TYPE_CHECKING:
    from triage.workflows.diagnose import Knowledge
    from triage.workflows.score import Score

PARTS = ("category", "certainty", "rule", "initiator")
MAX_BYTES = 64 * 1024 * 1024

Found = Mapping[str, str | None]
"""What was found in a case: `category`, `certainty`, `rule`, `initiator`; None for what there is not."""


@dataclass(frozen=True)
class Flip:
    """A case whose verdict is another: its parts that differ, each as (before, now)."""

    name: str
    changed: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class ReplayResult:
    """All cases replayed; of a comparison the verdicts that flip, and with how many it was made."""

    results: tuple[Replayed, ...]
    flips: tuple[Flip, ...] = ()
    compared: int | None = None
    score: Score | None = None

    @property
    def failed(self) -> int:
        return sum(bool(result.differences) for result in self.results)


def flips(results: Iterable[Replayed], before: Mapping[str, Found]) -> Iterator[Flip]:
    """The cases in both whose verdicts are not the same, in order."""
    for result in results:
        if result.name not in before:
            continue
        was, is_ = before[result.name], parts(result.found)
        changed = {part: (was.get(part), is_[part]) for part in PARTS if was.get(part) != is_[part]}
        if changed:
            yield Flip(result.name, changed)


def parts(found: Expected | None) -> dict[str, str | None]:
    return {part: getattr(found, part, None) for part in PARTS}


def verdicts_of(reference: Path, cases: Iterable[Path]) -> Mapping[str, Found]:
    """What other rules (a directory), or an earlier result, say of the cases. Raises TriageError."""
    if not reference.is_dir():
        return from_result(reference, cases)
    return by_rules(cases, replace(load_knowledge(), rules=load_rules(base=reference)))


def by_rules(cases: Iterable[Path], knowledge: Knowledge) -> dict[str, Found]:
    """What other rules find in the cases; one that cannot be read has nothing."""
    found: dict[str, Found] = {}
    for case in cases:
        try:
            found[str(case)] = parts(expectation(diagnose_case(case, knowledge)))
        except TriageError:
            found[str(case)] = parts(None)
    return found


def from_result(path: Path, cases: Iterable[Path]) -> dict[str, Found]:
    """What an earlier `--format json` result of `replay` or `diagnose` says of these cases.

    Raises UsageError when it is neither, or names none of them.
    """
    earlier = _entries(_read(path), path)
    found: dict[str, Found] = {}
    for case in cases:
        # a diagnosis names its log or the case's directory, and another machine may hold it elsewhere
        for name in (str(case), *(name for name in earlier if case.name in Path(name).parts[-2:])):
            if name in earlier:
                found[str(case)] = earlier[name]
                break
    if not found:
        raise UsageError(
            "comparing with", str(path), "it names none of these cases", "triage replay DIR --format json"
        )
    return found


def _read(path: Path) -> dict[str, Any]:
    doing, next = "comparing with", "triage replay DIR --format json > RESULT"
    try:
        data = read_plain(path, MAX_BYTES)
    except ValueError as error:
        raise UsageError(doing, str(path), f"it is {error}", next) from None
    except OSError as error:
        raise UnreachableError(
            doing, str(path), error.strerror or str(error), f"ls -l {path.parent}"
        ) from None
    try:
        value = parse_json(data)
    except ValueError:
        raise UsageError(doing, str(path), "it is neither a directory nor JSON", next) from None
    if not isinstance(value, dict):
        raise UsageError(doing, str(path), "it is not the result of a replay or a diagnosis", next)
    return value


def _entries(value: dict[str, Any], path: Path) -> dict[str, Found]:
    try:
        if value["schema"] == "triage.replay/1":
            return {str(item["name"]): _said(item["found"] or {}) for item in value["cases"]}
        if value["schema"] == "triage.diagnosis/1":
            return {str(value["source"]["name"]): _said(_of_diagnosis(value["incidents"]))}
        wrong = f"schema: it is {value['schema']!r}"
    except (LookupError, TypeError, AttributeError) as error:
        wrong = f"a key is missing or not as it should be: {error}"
    raise UsageError("comparing with", str(path), wrong, "triage replay DIR --format json > RESULT")


def _said(found: dict[str, Any]) -> Found:
    values = {part: found.get(part) for part in PARTS}
    return {part: None if value is None else str(value) for part, value in values.items()}


def _of_diagnosis(incidents: list[dict[str, Any]]) -> dict[str, Any]:
    if not incidents:
        return {"category": "none"}
    last = incidents[-1]
    fault, diagnoses = last["initiator"], last["diagnoses"]
    said = fault and ": ".join(filter(None, (fault["type"], fault["message"])))
    return {**last["verdict"], "rule": diagnoses[0]["rule"] if diagnoses else None, "initiator": said}
