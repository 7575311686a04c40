"""A run and a plan as a person reads them; nothing of a host steers the terminal."""

from __future__ import annotations

import re

from tests.playbook.hosts import Host, failed
from triage.common.errors import UnreachableError
from triage.playbook.model import ActionResult, ConsentAsked, Done
from triage.playbook.plan import PlannedRun, plan
from triage.playbook.variables import resolve
from triage.report.playbook import event_lines, plan_lines, question, result_line

STEPS = """
- {name: Look, do: diagnose, register: seen}
- {name: Never, do: capture, when: seen.worse, with: {output: x}}
- {name: Change, do: patch, with: {id: "{{ seen.id }}"}, consent: true}
- name: Prove
  do: verify
  retry: {count: 1, seconds: 5}
  on_failure: [{name: Back, do: rollback, with: {id: "{{ seen.id }}"}}]
"""


def shown(host):
    return [line.plain for event in host.events for line in event_lines(event)]


def test_a_run(playbook):
    host = Host(
        diagnose=ActionResult(True, {"id": "p", "worse": False}, "PP3 died first", "IndexError\n+ at 120"),
        verify=failed("no answer"),
        rollback=UnreachableError("connecting to", "gpu01", "no route", "ping gpu01"),
    )
    result = host.run(playbook(STEPS))
    assert shown(host) == [
        "▶ Look  diagnose",
        "    IndexError",
        "    + at 120",
        "  ✓ PP3 died first",
        "- Never  skipped, does not hold: seen.worse",
        '▶ Change  patch id="p"',
        "  ✓ patch",
        "▶ Prove  verify",
        "  ? attempt 1 of 2 failed, again in 5 s: no answer",
        "  ✗ Prove: no answer",
        '▶ Back  rollback id="p"',
        "  ✗ Back: connecting to gpu01: no route",
        "    next: ping gpu01",
    ]
    assert result_line(result).plain == (
        "mine on gpu01: failed: Prove: no answer; Back: connecting to gpu01: no route"
    )


def test_a_refusal(playbook):
    host = Host(diagnose={"id": "p", "worse": False})
    result = host.run(playbook(STEPS), consent=lambda asked: False)
    assert shown(host)[-1] == "  ✗ not done: consent was refused"
    assert result_line(result).plain == "mine on gpu01: refused: Change: consent was refused"


def test_a_question():
    assert question(ConsentAsked("Change", "patch", "gpu01", {"id": "p"})) == 'Change: patch id="p" on gpu01?'


def test_a_plan(playbook):
    mine = playbook(STEPS)
    lines = [
        line.plain for line in plan_lines(PlannedRun(mine, "gpu01", plan(mine, "gpu01", resolve(mine, []))))
    ]
    assert lines == [
        "mine on gpu01, without doing any of it:",
        "  ▶ Look  diagnose",
        '  ? Never  capture output="x"',
        "      decided at run time: when seen.worse",
        "  ▶ Change  patch",
        "      with, known at run time: id",
        "      asks for consent",
        "  ▶ Prove  verify",
        "      up to 2 attempts, 5 s apart",
        "    ▶ Back  rollback",
        "        when Prove fails",
        "        with, known at run time: id",
    ]


def test_nothing_of_a_host_steers_the_terminal(playbook):
    evil = "\x1b]0;x\x07\u202e[red]"
    host = Host(
        diagnose=ActionResult(True, {"id": evil, "worse": False}, evil, evil),
        verify=failed(f"{evil}\nline two"),
    )
    result = host.run(playbook(STEPS))
    lines = [
        *shown(host),
        result_line(result).plain,
        question(ConsentAsked(evil, "patch", evil, {evil: evil})),
    ]
    assert len(lines) > 10
    assert not [line for line in lines if re.search("[\x00-\x1f\x7f-\x9f\u202e]", line)]
    assert any("\\x1b" in line for line in lines)


def test_a_diff_is_shown_line_by_line():
    lines = list(event_lines(Done("Show", "one file", "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n")))
    assert [line.plain for line in lines] == [
        "    --- a",
        "    +++ b",
        "    @@ -1 +1 @@",
        "    -old",
        "    +new",
        "  ✓ one file",
    ]
    assert [str(line.style) for line in lines[3:5]] == ["red", "green"]
