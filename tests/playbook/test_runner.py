"""Order, conditions, retries, consent, failure. The actions are fakes: they are the runner's seam."""

from __future__ import annotations

import json

import pytest

from tests.playbook.hosts import Host, failed, statuses
from triage.common.errors import ExitCode, RefusedError, UnreachableError, UsageError
from triage.playbook.model import ConsentAsked, Done, Failed, Retried, Skipped, StepRefused, StepStarted

CHANGE = """
- {name: look, do: diagnose, register: seen}
- {name: change, do: patch, with: {id: p}, consent: true, register: changed}
- name: prove
  do: verify
  on_failure:
    - {name: keep, do: capture, with: {output: "{{ host }}-case"}}
    - {name: back, do: rollback, when: changed is defined, with: {id: p}}
- {name: after, do: diagnose}
"""
GONE = UnreachableError("connecting to", "gpu01", "no route", "ping gpu01")


def test_steps_run_in_order_with_their_arguments(playbook):
    steps = """
    - {name: one, do: diagnose, with: {unit: "{{ unit }}.service"}, register: seen}
    - {name: two, do: patch, with: {id: "{{ seen.fix[0].id }}", apply: "{{ seen.sure }}"}}
    - {name: three, do: verify, with: {concurrency: "{{ seen.width * 2 }}"}}
    """
    host = Host(diagnose={"fix": [{"id": "p"}], "sure": True, "width": 4})
    result = host.run(playbook(steps, "{unit: sglang}"))
    assert host.calls == [
        ("diagnose", {"unit": "sglang.service"}),
        ("patch", {"id": "p", "apply": True}),
        ("verify", {"concurrency": 8}),
    ]
    assert (result.status, result.exit_code, result.reason) == ("done", ExitCode.OK, "")
    assert [type(event) for event in host.events] == [StepStarted, Done] * 3


def test_a_step_is_skipped_when_its_condition_does_not_hold(playbook):
    steps = """
    - {name: look, do: diagnose, register: seen}
    - {name: change, do: patch, when: seen.incidents, with: {id: "{{ seen.x }}"}, register: changed}
    - {name: prove, do: verify, when: changed is not defined}
    """
    host = Host(diagnose={"incidents": []})
    result = host.run(playbook(steps))
    assert host.verbs == ["diagnose", "verify"]
    assert statuses(result) == {"look": "done", "change": "skipped", "prove": "done"}
    assert Skipped("change", "does not hold: seen.incidents") in host.events


def test_a_run_whose_last_step_is_skipped_is_done(playbook):
    result = Host().run(playbook("- {name: a, do: verify, when: go}", "{go: false}"))
    assert (result.status, result.exit_code) == ("done", ExitCode.OK)


def test_what_a_host_says_is_never_a_template(playbook):
    steps = """
    - {name: look, do: diagnose, register: seen}
    - {name: keep, do: capture, with: {output: "/tmp/{{ seen.name }}"}, register: kept}
    - {name: again, do: capture, with: {output: "{{ kept.name }}"}}
    - {name: stop, do: stop, with: {reason: "saw {{ kept.name }}"}}
    """
    hostile = "{{ host.__class__ }}{% include 'x' %}"
    host = Host(diagnose={"name": hostile}, capture={"name": hostile})
    result = host.run(playbook(steps))
    assert host.calls[1:] == [("capture", {"output": f"/tmp/{hostile}"}), ("capture", {"output": hostile})]
    assert result.reason == f"stop: saw {hostile}"


def test_an_action_cannot_change_what_later_steps_see(playbook):
    steps = """
    - {name: one, do: set, with: {list: ["{{ host }}"]}, register: mine}
    - {name: two, do: stop, with: {reason: "{{ mine.list | join }}"}}
    """
    assert Host().run(playbook(steps)).reason == "two: gpu01"


def test_a_failed_step_ends_the_run_after_its_on_failure(playbook):
    host = Host(verify=failed("no answer in 60 s"))
    result = host.run(playbook(CHANGE))
    assert host.verbs == ["diagnose", "patch", "verify", "capture", "rollback"]
    assert (result.status, result.exit_code) == ("failed", ExitCode.FOUND)
    assert result.reason == "prove: no answer in 60 s"
    assert [outcome.after for outcome in result.outcomes] == ["", "", "", "prove", "prove"]


def test_on_failure_goes_on_whatever_becomes_of_its_steps(playbook):
    host = Host(verify=failed("died"), capture=GONE, rollback=GONE)
    result = host.run(playbook(CHANGE))
    assert host.verbs[-2:] == ["capture", "rollback"]
    assert result.exit_code is ExitCode.FOUND  # that of the step that failed first
    assert result.reason == (
        "prove: died; keep: connecting to gpu01: no route; back: connecting to gpu01: no route"
    )


def test_on_failure_sees_what_the_failed_step_registered(playbook):
    steps = """
    - name: prove
      do: verify
      register: proof
      on_failure: [{name: keep, do: capture, with: {output: "{{ proof.why }}"}}]
    """
    host = Host(verify=failed(why="slow"))
    host.run(playbook(steps))
    assert host.calls[-1] == ("capture", {"output": "slow"})


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GONE, 3),
        (UsageError("a", "b", "c", "d"), 2),
        (RefusedError("patching", "x", "it has changed", "look"), 4),
    ],
)
def test_an_error_is_a_failure_with_its_text_and_code(playbook, error, code):
    host = Host(patch=error)
    result = host.run(playbook(CHANGE))
    assert host.verbs == ["diagnose", "patch"]
    assert (result.status, result.exit_code, result.reason) == ("failed", code, f"change: {error}")
    assert Failed("change", str(error), next=error.next) in host.events


def test_an_expression_without_a_value_fails_the_step_and_names_it(playbook):
    steps = """
    - {name: change, do: patch, with: {id: p}, register: changed}
    - name: prove
      do: verify
      with: {unit: "{{ changed.unit }}"}
      on_failure: [{name: back, do: rollback, with: {id: p}}]
    """
    host = Host()
    mine = playbook(steps)
    result = host.run(mine)
    assert host.verbs == ["patch", "rollback"]  # a change is taken back even so
    assert result.exit_code is ExitCode.USAGE
    for part in ("'prove'", mine.file, "with.unit", "has no attribute 'unit'"):
        assert part in result.reason


def test_a_condition_without_a_value_fails_the_step(playbook):
    host = Host()
    result = host.run(
        playbook("- {name: a, do: diagnose, register: b}\n- {name: c, do: verify, when: b.x > 1}")
    )
    assert host.verbs == ["diagnose"]
    assert "'c'" in result.reason
    assert "when:" in result.reason


def test_a_rendered_argument_of_the_wrong_type_fails_the_step(playbook):
    host = Host(diagnose={"width": "4"})
    steps = """
    - {name: a, do: diagnose, register: b}
    - {name: c, do: verify, with: {requests: "{{ b.width }}"}}
    """
    assert 'with.requests: whole number, 0 to 10000 expected, not "4"' in host.run(playbook(steps)).reason
    assert host.verbs == ["diagnose"]


def test_consent_is_asked_for_and_a_refusal_ends_the_run(playbook):
    asked = []
    host = Host()
    result = host.run(playbook(CHANGE), consent=lambda question: asked.append(question))
    assert asked == [ConsentAsked("change", "patch", "gpu01", {"id": "p"})]
    assert host.verbs == ["diagnose"]
    assert (result.status, result.exit_code) == ("refused", ExitCode.REFUSED)
    assert host.events[-1] == StepRefused("change")


def test_with_consent_it_goes_on(playbook):
    host = Host()
    assert host.run(playbook(CHANGE), consent=lambda question: True).status == "done"
    assert host.verbs == ["diagnose", "patch", "verify", "diagnose"]


def test_nobody_is_asked_about_a_step_that_is_skipped(playbook):
    steps = "- {name: a, do: patch, with: {id: p}, when: go, consent: true}"
    assert Host().run(playbook(steps, "{go: false}"), consent=lambda question: False).status == "done"


RETRY = "- {name: prove, do: verify, retry: {count: 3, seconds: 20}, register: proof}"


def test_a_failed_step_is_tried_again(playbook):
    host = Host(verify=[failed("not yet"), GONE, {"ok": 1}])
    result = host.run(playbook(RETRY))
    assert result.status == "done"
    assert result.outcomes[0].attempts == 3
    assert result.outcomes[0].data == {"ok": 1}
    assert host.slept == [20, 20]
    assert host.events[1:3] == [
        Retried("prove", 1, 4, 20, "not yet"),
        Retried("prove", 2, 4, 20, "connecting to gpu01: no route"),
    ]


def test_but_no_more_often_than_the_playbook_says(playbook):
    host = Host(verify=failed("not yet"))
    result = host.run(playbook(RETRY))
    assert host.verbs == ["verify"] * 4
    assert result.outcomes[0].attempts == 4
    assert len([event for event in host.events if isinstance(event, Failed)]) == 1


@pytest.mark.parametrize("error", [UsageError("a", "b", "c", "d"), RefusedError("a", "b", "c", "d")])
def test_what_will_not_pass_later_is_not_tried_again(playbook, error):
    host = Host(verify=error)
    host.run(playbook(RETRY))
    assert host.verbs == ["verify"]
    assert host.slept == []


def test_set_names_a_value(playbook):
    steps = """
    - {name: a, do: set, with: {wide: "{{ count > 4 }}", twice: "{{ count * 2 }}"}, register: mine}
    - {name: b, do: verify, when: mine.wide, with: {concurrency: "{{ mine.twice }}"}}
    """
    host = Host()
    host.run(playbook(steps, "{count: 8}"))
    assert host.calls == [("verify", {"concurrency": 16})]


def test_stop_fails_with_its_reason(playbook):
    host = Host()
    result = host.run(playbook("- {name: a, do: stop, with: {reason: enough}}\n- {name: b, do: verify}"))
    assert host.calls == []
    assert (result.status, result.exit_code, result.reason) == ("failed", ExitCode.FOUND, "a: enough")


def test_the_result_as_json(playbook):
    host = Host(diagnose={"schema": "triage.diagnosis/1"}, verify=GONE)
    mine = playbook(CHANGE, "{unit: x}")
    value = json.loads(json.dumps(host.run(mine).as_json()))
    steps = value.pop("steps")
    assert value == {
        "schema": "triage.run/1",
        "playbook": {"name": "mine", "file": mine.file},
        "host": "gpu01",
        "variables": {"unit": "x"},
        "status": "failed",
        "reason": "prove: connecting to gpu01: no route",
        "exit_code": 3,
    }
    assert [(step["name"], step["status"], step["after"]) for step in steps] == [
        ("look", "done", ""),
        ("change", "done", ""),
        ("prove", "failed", ""),
        ("keep", "done", "prove"),
        ("back", "done", "prove"),
    ]
    assert steps[0]["data"] == {"schema": "triage.diagnosis/1"}
    assert steps[2]["next"] == "ping gpu01"
    assert steps[3]["arguments"] == {"output": "gpu01-case"}
