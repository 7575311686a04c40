"""`triage replay`: every captured crash diagnosed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli.options import Format, FormatOption, RulesOption, knowledge
from triage.common.errors import ExitCode
from triage.common.wording import counted

if TYPE_CHECKING:
    from triage.workflows.replay import Score
    from triage.workflows.verdict_diff import Flip, Found


def replay(
    cases: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Cases, or directories of cases.")],
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
    score: Annotated[
        bool, typer.Option("--score", help="Say how often each part came out as labelled.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="REF",
            help="Show which verdicts differ from those of other rules (a directory, for the shipped ones) "
            "or of an earlier --format json result.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Diagnose captured cases again and compare with what they must give.

    Exit code 1 when a case gives something else, or its verdict is not that of REF.
    """
    from triage.report.safe import safe_line
    from triage.workflows import replay as replaying
    from triage.workflows.verdict_diff import flips as flipped

    known = knowledge(rules)
    found = replaying.find_cases(cases)
    before = None if against is None else _before(against, found)
    results = []
    for result in replaying.replay(found, known):
        results.append(result)
        if format is Format.TEXT:
            print(f"{'FAIL' if result.differences else 'ok  '} {safe_line(result.name)}", flush=True)
            for difference in result.differences:
                print(f"       {safe_line(f'{difference.part} {difference.text}')}")
    flips = () if before is None else tuple(flipped(results, before))
    if junit is not None:
        from triage.common.files import write_atomically
        from triage.report.junit import junit as render

        write_atomically(junit, render(results, flips).encode())
    failed = sum(bool(result.differences) for result in results)
    if format is Format.JSON:
        from triage.report import json

        result_json = json.replay(results, flips)
        if score:
            result_json["score"] = asdict(replaying.score(results))
        print(json.dumps(result_json))
    else:
        parts = Counter(part for item in results for part in {found.part for found in item.differences})
        told = "".join(f", {part} of {count}" for part, count in parts.most_common())
        print(f"{counted(len(results), 'case')}, {failed} {'differs' if failed == 1 else 'differ'}{told}")
        if before is not None:
            _print_flips(flips, len(before))
        if score:
            _print_score(replaying.score(results))
    raise typer.Exit(ExitCode.FOUND if failed or flips else ExitCode.OK)


def _print_score(score: Score) -> None:
    from triage.report.safe import safe_line

    for part, share in score.parts.items():
        rate = f"{share.right / share.asked:7.1%}" if share.asked else "      -"
        print(f"  {part:9} {share.right:4} of {share.asked:4} {rate}")
    print(
        f"  of the categories that are not right, {score.unanswered} had no answer, {score.guessed} were "
        f"called possible, {len(score.wrong)} confidently wrong"
    )
    for name in score.wrong:
        print(f"  confidently wrong: {safe_line(name)}")


def _before(reference: Path, cases: Iterable[Path]) -> Mapping[str, Found]:
    """What other rules, or an earlier result, say of the cases. Raises TriageError."""
    from dataclasses import replace

    from triage.rules.load import load_rules
    from triage.workflows import verdict_diff
    from triage.workflows.diagnose import load_knowledge

    if not reference.is_dir():
        return verdict_diff.from_result(reference, cases)
    other = replace(load_knowledge(), rules=load_rules(base=reference))
    return verdict_diff.by_rules(cases, other)


def _print_flips(flips: Sequence[Flip], compared: int) -> None:
    from triage.report.safe import safe_line

    for flip in flips:
        print(f"FLIP {safe_line(flip.name)}")
        for part, (before, now) in flip.changed.items():
            print(f"       {part} {safe_line(before or '-', 200)} -> {safe_line(now or '-', 200)}")
    print(f"{len(flips)} of {compared} verdicts flip")
