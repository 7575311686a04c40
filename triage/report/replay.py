"""Replayed cases as text and as `triage.replay/1`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from triage.common.wording import counted
from triage.report import json
from triage.report.safe import safe_line
from triage.workflows.replay import Replayed
from triage.workflows.score import Score
from triage.workflows.verdict_diff import Flip, ReplayResult


def case_lines(result: Replayed) -> Iterator[Text]:
    """One case, as soon as it was replayed."""
    yield Text(f"{'FAIL' if result.differences else 'ok  '} {safe_line(result.name)}")
    for difference in result.differences:
        yield Text(f"       {safe_line(f'{difference.part} {difference.text}')}")


def summary_lines(replay: ReplayResult) -> Iterator[Text]:
    """How many cases differ, and in what; which verdicts flip; the score where it is asked for."""
    failed = replay.failed
    parts = Counter(part for item in replay.results for part in {each.part for each in item.differences})
    told = "".join(f", {part} of {count}" for part, count in parts.most_common())
    differ = "differs" if failed == 1 else "differ"
    yield Text(f"{counted(len(replay.results), 'case')}, {failed} {differ}{told}")
    if replay.compared is not None:
        yield from _flip_lines(replay.flips, replay.compared)
    if replay.score is not None:
        yield from _score_lines(replay.score)


def document(replay: ReplayResult) -> dict[str, Any]:
    """`triage.replay/1`, with the score where it is asked for."""
    found = json.replay(replay.results, replay.flips)
    return found if replay.score is None else {**found, "score": asdict(replay.score)}


def _flip_lines(flips: Sequence[Flip], compared: int) -> Iterator[Text]:
    for flip in flips:
        yield Text(f"FLIP {safe_line(flip.name)}")
        for part, (before, now) in flip.changed.items():
            yield Text(f"       {part} {safe_line(before or '-', 200)} -> {safe_line(now or '-', 200)}")
    yield Text(f"{len(flips)} of {compared} verdicts flip")


def _score_lines(score: Score) -> Iterator[Text]:
    for part, share in score.parts.items():
        rate = f"{share.right / share.asked:7.1%}" if share.asked else "      -"
        yield Text(f"  {part:9} {share.right:4} of {share.asked:4} {rate}")
    yield Text(
        f"  of the categories that are not right, {score.unanswered} had no answer, {score.guessed} were "
        f"called possible, {len(score.wrong)} confidently wrong"
    )
    for name, share in score.baselines.items():
        if share.asked:
            told = f"{share.right:4} of {share.asked:4} {share.right / share.asked:7.1%}"
            yield Text(f"  initiator by the {name + ':':22} {told}")
    for name in score.silent:
        yield Text(f"  no incident was found: {safe_line(name)}")
    for name in score.wrong:
        yield Text(f"  confidently wrong: {safe_line(name)}")
