"""The dry run: what each step would do, and what only the run itself can decide."""

from __future__ import annotations

import json

import pytest

from triage.common.errors import UsageError
from triage.playbook.plan import PlannedRun, plan
from triage.playbook.variables import resolve
from triage.report.playbook import plan_document

STEPS = """
- {name: look, do: diagnose, with: {unit: "{{ unit }}"}, register: seen}
- {name: change, do: patch, when: seen.incidents, with: {unit: "{{ unit }}", id: "{{ seen.id }}"},
   consent: true}
- {name: never, do: patch, when: go, with: {unit: "{{ unit }}", id: "{{ unit | first }}"}}
- name: prove
  do: verify
  when: not go
  with: {concurrency: "{{ count * 2 }}", timeout: 9}
  retry: {count: 1, seconds: 5}
  on_failure:
    - {name: back, do: rollback, with: {id: "{{ seen.id }}"}}
"""
VARS = '{unit: "", go: false, count: 4}'


@pytest.fixture
def planned(playbook):
    mine = playbook(STEPS, VARS)
    return {step.name: step for step in plan(mine, "gpu01", resolve(mine, []))}


def test_every_step_stands_in_it_in_order(planned):
    assert list(planned) == ["look", "change", "never", "prove", "back"]
    assert planned["back"].after == "prove"
    assert planned["change"].consent
    assert planned["prove"].retry.count == 1


def test_what_is_known_beforehand_is_worked_out(planned):
    assert planned["look"].arguments == {"unit": ""}
    assert planned["prove"].arguments == {"concurrency": 8, "timeout": 9}
    assert [planned[name].runs for name in ("look", "never", "prove")] == ["yes", "no", "yes"]


def test_what_depends_on_a_step_that_did_not_run_is_decided_at_run_time(planned):
    assert planned["change"].runs == "decided at run time"
    assert planned["change"].when == "seen.incidents"
    assert planned["change"].open == ("id",)
    assert planned["change"].arguments == {"unit": "", "id": "{{ seen.id }}"}
    assert planned["back"].open == ("id",)


def test_an_argument_of_the_wrong_type_is_found(playbook):
    mine = playbook('- {name: a, do: verify, with: {timeout: "{{ wait }}"}}', "{wait: soon}")
    with pytest.raises(UsageError, match=r"'a'.*mine\.yaml: with\.timeout: number, 1 to 86400 expected"):
        plan(mine, "gpu01", resolve(mine, []))


def test_as_json(playbook):
    mine = playbook(STEPS, VARS)
    value = json.loads(
        json.dumps(plan_document(PlannedRun(mine, "gpu01", plan(mine, "gpu01", resolve(mine, [])))))
    )
    assert value["schema"] == "triage.run-check/1"
    assert value["steps"][3] == {
        "name": "prove",
        "do": "verify",
        "runs": "yes",
        "when": "not go",
        "arguments": {"concurrency": 8, "timeout": 9},
        "open": [],
        "consent": False,
        "retry": {"count": 1, "seconds": 5.0},
        "after": "",
    }
