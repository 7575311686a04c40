"""`triage rules`: the knowledge base, and the tools of those who add to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.explain import RuleArgument
from triage.cli.options import (
    Format,
    FormatOption,
    RulesOption,
)
from triage.common.commands import command
from triage.common.errors import ExitCode, RefusedError, UsageError
from triage.common.wording import counted
from triage.workflows.knowledge import find_rule, knowledge, rule_directories

app = typer.Typer(no_args_is_help=True, help="List, read, test, check and draft the rules of a diagnosis.")


@app.command("list")
def list_rules(
    category: Annotated[str, typer.Option(help="Only this category.", show_default=False)] = "",
    engine: Annotated[
        str, typer.Option(help="Only what can be said of this engine.", show_default=False)
    ] = "",
    role: Annotated[
        str, typer.Option(help="Only this role: cause, consequence, benign.", show_default=False)
    ] = "",
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
) -> None:
    """List the rules: id, category, role, engine, title."""
    from triage.engines import ENGINES
    from triage.rules.categories import CATEGORIES
    from triage.rules.load import load_rules
    from triage.workflows.rules import RuleList

    _require("category", category, CATEGORIES)
    _require("engine", engine, tuple(ENGINES))
    _require("role", role, ("cause", "consequence", "benign"))
    found = [
        rule
        for rule in load_rules(rule_directories(rules))
        if category in ("", rule.category)
        and role in ("", rule.role)
        and (not engine or rule.engine in ("", engine))
    ]
    console.show(RuleList(tuple(found)), format)


@app.command()
def show(rule: RuleArgument, format: FormatOption = Format.TEXT, rules: RulesOption = None) -> None:
    """Print all of a rule: what `triage explain` says of it, and its cases."""
    from triage.workflows.rules import ExplainedRule

    console.show(ExplainedRule(find_rule(rule, rules), with_cases=True), format)


@app.command("test")
def run_cases(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[RULE...]", help="Only the cases of these rules.")
    ] = None,
    rules: RulesOption = None,
) -> None:
    """Hold every rule against every case of every rule.

    Its own log matches it and nothing else, a near miss does not. Exit code 1 when one is not so.
    """
    from triage.report.safe import safe_line
    from triage.rules.authoring.check import check, rule_cases

    known = knowledge(rules)
    ids = [find_rule(name, rules).id for name in only or ()] or [rule.id for rule in known.rules]
    failed = count = 0
    for case in rule_cases(rule for rule in known.rules if rule.id in ids):
        checked = check(case, known)
        count += 1
        if checked.problem:
            failed += 1
            print(safe_line(f"FAIL {case}: {checked.problem}"), flush=True)
    fail = "fails" if failed == 1 else "fail"
    print(f"{counted(len(ids), 'rule')}, {counted(count, 'case')}, {failed} {fail}")
    raise typer.Exit(ExitCode.FOUND if failed else ExitCode.OK)


@app.command()
def lint(rules: RulesOption = None) -> None:
    """Check the shape and style of rule files: keys, texts, remedies, signatures, patterns.

    With --rules only those. Exit code 1 when something is to be fixed.
    """
    from triage.common.config import load_config
    from triage.patching.load import load_patches
    from triage.report.safe import safe_line
    from triage.rules.authoring.lint import lint as check
    from triage.rules.load import KNOWLEDGE, rule_files

    directories = rules or (KNOWLEDGE, *rule_directories())
    problems = check(directories, (patch.id for patch in load_patches(load_config().patches)))
    for problem in problems:
        print(safe_line(str(problem)))
    files = sum(1 for directory in directories for _ in rule_files(directory))
    print(f"{counted(files, 'file')}, {counted(len(problems), 'problem')}")
    raise typer.Exit(ExitCode.FOUND if problems else ExitCode.OK)


@app.command("lines")
def check_fault_lines(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR...]", help="Further files, beside the shipped ones and your own."),
    ] = None,
) -> None:
    """Hold what programs say when they fail against its own samples and near misses.

    Exit code 1 when an entry does not give what its sample says, or claims a near miss.
    """
    from triage.common.config import load_config, with_configured
    from triage.logs.faults.line_check import check_lines
    from triage.logs.faults.line_files import KNOWLEDGE, line_files
    from triage.report.safe import safe_line

    places = (KNOWLEDGE, *with_configured(load_config().lines, directories))
    files = [path for place in places for path in line_files(place)]
    problems = list(check_lines(files))
    for entry, reason in problems:
        print(safe_line(f"FAIL {entry}: {reason}"))
    print(f"{counted(len(files), 'file')}, {counted(len(problems), 'problem')}")
    raise typer.Exit(ExitCode.FOUND if problems else ExitCode.OK)


@app.command()
def matrix(
    corpus: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR...]", help="Further cases, or directories of them.", show_default=False),
    ] = None,
    format: FormatOption = Format.TEXT,
    rules: RulesOption = None,
) -> None:
    """Show which rules fire where: on their own cases, on near misses, and elsewhere."""
    from triage.rules.authoring import check
    from triage.workflows.replay import diagnose_case, find_cases
    from triage.workflows.rules import RulesMatrix

    known = knowledge(rules)
    further = {str(path): check.fired_in(diagnose_case(path, known)) for path in find_cases(corpus or ())}
    results = [check.check(case, known) for case in check.rule_cases(known.rules)]
    fired = {**{str(item.case): item.fired for item in results}, **further}
    rows = tuple(
        (row.rule, "/".join(map(str, row.own)), "/".join(map(str, row.near)), ", ".join(row.elsewhere))
        for row in check.matrix(results, further)
    )
    console.show(RulesMatrix(fired, rows), format)


@app.command()
def new(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the new rule; it names the defect.")],
    from_case: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draft it from this captured case.", show_default=False)
    ] = None,
    from_log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draft it from this log.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Else ID.yaml here.", show_default=False)
    ] = None,
    rules: RulesOption = None,
) -> None:
    """Draft a rule file from an incident: signature, frames, and the log around it as the case.

    Secrets, people and addresses are replaced; names of hosts in plain lines are for you to look at.
    """
    from triage.common.files import write_atomically
    from triage.logs import open_log
    from triage.report.safe import safe_line
    from triage.rules.authoring.draft import draft
    from triage.workflows.replay import logs_of

    if (from_case is None) == (from_log is None):
        raise UsageError(
            "drafting a rule", id, "give either --from-case or --from-log", command("rules new --help")
        )
    path = output or Path(f"{id}.yaml")
    if path.exists():
        raise RefusedError("writing", str(path), "it is there already", "give another --output")
    sources = logs_of(from_case) if from_case is not None else (open_log(from_log or ""),)
    made = draft(id, sources, knowledge(rules))
    write_atomically(path, made.text.encode(), shared=True)
    print(f"wrote {safe_line(str(path))}")
    for note in made.notes:
        print(f"note: {safe_line(note)}")
    print(f"next: triage rules lint --rules {safe_line(str(path.parent))}")


@app.command()
def docs(
    write: Annotated[Path, typer.Option(metavar="DIR", help="Where the pages go.")],
    rules: RulesOption = None,
) -> None:
    """Write what the rules say as Markdown: a page a category, and an index."""
    from triage.common.files import write_atomically
    from triage.report.safe import safe_line
    from triage.rules.authoring.docs import GENERATED, pages
    from triage.rules.load import load_rules

    found = pages(load_rules(rule_directories(rules)))
    for name, text in found.items():
        write_atomically(write / name, text.encode(), shared=True)
    for path in write.glob("*.md"):
        if path.name not in found and path.is_file() and GENERATED in path.read_text("utf-8", "replace"):
            path.unlink()
    print(f"wrote {counted(len(found), 'page')} in {safe_line(str(write))}")


def _require(option: str, given: str, known: Iterable[str]) -> None:
    if given and given not in known:
        raise UsageError(f"listing rules of {option}", given, "there is none", f"one of: {', '.join(known)}")
