"""The shipped playbooks against every shape of diagnosis. The actions are fakes: they are the seam."""

from __future__ import annotations

import pytest

from tests.playbook.diagnoses import LAYOUT, NO_USE, PATCH, RESTART, UNSURE, UPGRADE, incident, report
from tests.playbook.hosts import Host, failed, statuses
from triage.common.errors import ExitCode, UnreachableError
from triage.playbook.load import load_playbook, shipped_playbooks
from triage.playbook.plan import plan

HEALTHY = report()
CONFIRMED = report(incident("confirmed", LAYOUT, PATCH, UPGRADE))
FIXED = report(incident("likely", RESTART, UPGRADE, outcome="unproven"))
DEAD = {"ready": False, "died": True}
SHOWN = {"unit": "", "id": "sglang-pp-start-layer", "apply": False}
APPLIED = {"unit": "", "id": "sglang-pp-start-layer"}


@pytest.mark.parametrize("name", shipped_playbooks())
def test_it_loads_under_the_name_of_its_file_and_can_be_planned(name):
    playbook = load_playbook(name)
    assert playbook.name == name
    given = {key: "x" if value is None else value for key, value in playbook.vars.items()}
    assert len(plan(playbook, "gpu01", given)) >= len(playbook.steps)


class TestPp8Bringup:
    playbook = load_playbook("pp8-bringup")

    def test_a_confirmed_cause_is_patched_and_proven(self):
        host = Host(wait=DEAD, diagnose=CONFIRMED)
        result = host.run(self.playbook, "unit=sglang.service", "timeout=120")
        unit = {"unit": "sglang.service"}
        assert host.calls == [
            ("wait", {**unit, "timeout": 120}),
            ("diagnose", unit),
            ("patch", SHOWN | unit),
            ("patch", APPLIED | unit),
            ("verify", {**unit, "restart": True, "timeout": 120, "concurrency": 4, "most_repeats": 5}),
        ]
        assert result.status == "done"

    def test_the_patch_is_shown_before_consent_and_nothing_is_done_without(self):
        host = Host(wait=DEAD, diagnose=CONFIRMED)
        result = host.run(self.playbook, consent=lambda asked: False)
        assert host.calls[1:] == [("diagnose", {"unit": ""}), ("patch", SHOWN)]
        assert (result.status, result.exit_code) == ("refused", ExitCode.REFUSED)

    @pytest.mark.parametrize(
        ("verify", "code"),
        [(failed("died again"), 1), (UnreachableError("reading", "gpu01", "gone", "ssh gpu01"), 3)],
    )
    def test_the_patch_is_taken_back_when_the_proof_fails(self, verify, code):
        host = Host(wait=DEAD, diagnose=CONFIRMED, verify=verify)
        result = host.run(self.playbook)
        assert host.calls[-1] == ("rollback", APPLIED)
        assert (result.status, result.exit_code) == ("failed", code)

    def test_nothing_is_proven_or_taken_back_when_the_patch_cannot_be_made(self):
        host = Host(wait=DEAD, diagnose=CONFIRMED, patch=[{}, failed("the file has changed")])
        result = host.run(self.playbook)
        assert host.verbs == ["wait", "diagnose", "patch", "patch"]
        assert result.reason == "Apply the patch: the file has changed"

    def test_without_an_incident_it_is_only_verified(self):
        host = Host(wait=DEAD, diagnose=HEALTHY)
        assert host.run(self.playbook).status == "done"
        assert host.verbs == ["wait", "diagnose", "verify"]
        assert host.calls[-1][1]["restart"]

    def test_what_serves_is_verified_as_it_runs(self):
        host = Host(wait={"ready": True, "died": False}, diagnose=HEALTHY)
        assert host.run(self.playbook).status == "done"
        assert (host.verbs, host.calls[-1][1]["restart"]) == (["wait", "diagnose", "verify"], False)

    def test_what_neither_serves_nor_dies_is_diagnosed_and_left_alone(self):
        host = Host(wait=failed("it neither serves nor has died: no connection"), diagnose=HEALTHY)
        result = host.run(self.playbook)
        assert host.verbs == ["wait", "diagnose"]
        assert (result.status, result.exit_code) == ("failed", ExitCode.FOUND)
        assert "neither serves nor has died" in result.reason

    def test_a_source_that_was_fixed_already_is_only_verified(self):
        host = Host(wait=DEAD, diagnose=FIXED)
        assert host.run(self.playbook).status == "done"
        assert host.verbs == ["wait", "diagnose", "verify"]
        assert host.calls[-1][1]["restart"]

    @pytest.mark.parametrize("diagnosis", [HEALTHY, FIXED])
    def test_what_was_not_patched_is_not_taken_back(self, diagnosis):
        host = Host(wait=DEAD, diagnose=diagnosis, verify=failed())
        assert host.run(self.playbook).status == "failed"
        assert "rollback" not in host.verbs

    @pytest.mark.parametrize(
        "found",
        [
            incident("likely", PATCH, outcome="unproven"),
            incident("possible", PATCH, outcome="unproven"),
            incident("unknown", PATCH, outcome="refuted"),
            incident("unknown"),
        ],
    )
    def test_a_cause_that_is_not_proven_stops_it(self, found):
        host = Host(wait=DEAD, diagnose=report(found))
        result = host.run(self.playbook)
        assert host.verbs == ["wait", "diagnose"]
        assert (result.status, result.exit_code) == ("failed", ExitCode.FOUND)
        assert (
            f"the cause is not proven ({found.verdict.category}, {found.verdict.certainty})" in result.reason
        )

    @pytest.mark.parametrize("remedies", [(UPGRADE,), (NO_USE, LAYOUT), (UNSURE, LAYOUT)])
    def test_a_proven_cause_without_a_patch_that_helps_stops_it(self, remedies):
        host = Host(wait=DEAD, diagnose=report(incident("confirmed", *remedies)))
        result = host.run(self.playbook)
        assert host.verbs == ["wait", "diagnose"]
        assert "the cause is pp-rank-assumption, and no patch helps here" in result.reason


class TestDiagnoseOnly:
    playbook = load_playbook("diagnose-only")

    def test_an_incident_is_a_failure(self):
        host = Host(diagnose=CONFIRMED)
        result = host.run(self.playbook, "unit=a.service")
        assert host.calls == [("diagnose", {"unit": "a.service"})]
        assert result.exit_code is ExitCode.FOUND
        assert result.reason == "Report the incident: pp-rank-assumption, confirmed"

    def test_a_healthy_service_is_none(self):
        assert Host(diagnose=HEALTHY).run(self.playbook).exit_code is ExitCode.OK


class TestRollback:
    playbook = load_playbook("rollback")

    def test_it_asks_first(self):
        host = Host()
        result = host.run(self.playbook, "id=p", consent=lambda asked: False)
        assert host.calls == []
        assert result.exit_code is ExitCode.REFUSED

    def test_it_takes_the_patch_back(self):
        host = Host()
        result = host.run(self.playbook, "id=p")
        assert host.calls == [("rollback", {"unit": "", "id": "p"})]
        assert statuses(result)["Verify"] == "skipped"

    def test_it_verifies_where_that_is_wanted(self):
        host = Host()
        host.run(self.playbook, "id=p", "verify=true", "unit=a.service")
        assert host.calls[-1] == ("verify", {"unit": "a.service"})


class TestLayoutMatrix:
    playbook = load_playbook("layout-matrix")

    def test_the_layouts_are_measured_with_consent(self):
        host = Host()
        assert host.run(self.playbook, "layouts=tp8,pp8", consent=lambda asked: False).status == "refused"
        assert host.calls == []
        assert host.run(self.playbook, "layouts=tp8,pp8", "repeats=2", "rate=0.5,2").status == "done"
        loads = {"timeout": 900, "requests": 8, "concurrency": "", "rate": "0.5,2", "repeats": "2"}
        loads |= {"prompt_tokens": "64", "max_tokens": "32"}
        assert host.calls == [("bench", {"unit": "", "layouts": "tp8,pp8", **loads})]

    def test_without_a_recommendation_it_fails(self):
        result = Host(bench=failed("recommended: none")).run(self.playbook, "layouts=tp8")
        assert (result.status, result.exit_code) == ("failed", ExitCode.FOUND)
