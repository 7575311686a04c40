"""What only the kernel or the service manager can tell is confirmed only where it comes from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.world import Answers, Tree, fault, incident, rule
from triage.evidence.model import Deployment
from triage.rules.engine import diagnose, verdict

DOUBT = "nobody signed it"
FAILED = Deployment("x", unit="x.service", state="failed")
RULE = rule(signature={"exception": "^oom-kill$"}, conclusive=True, category="host-oom")


@pytest.mark.parametrize(
    ("kind", "doubt", "result", "certainty"),
    [
        ("kernel", "", "", "confirmed"),
        ("kernel", DOUBT, "", "possible"),
        ("kernel", DOUBT, "oom-kill", "confirmed"),  # systemd says the same
        ("kernel", DOUBT, "signal", "possible"),
        ("kernel", "", "signal", "confirmed"),  # a child was killed, and the main process ended otherwise
        ("service", "", "oom-kill", "confirmed"),
        ("service", "", "signal", "likely"),  # systemd's own record is another
        ("service", DOUBT, "", "possible"),
    ],
)
def test_certainty(kind: str, doubt: str, result: str, certainty: str) -> None:
    found = incident(fault("oom-kill", "killed", kind=kind, doubt=doubt))
    diagnoses = diagnose(found, replace(FAILED, result=result), Answers(), Tree(), [RULE], {})
    assert verdict(found, diagnoses).certainty == certainty
    missing = [finding for finding in diagnoses[0].findings if finding.result == "missing"]
    assert bool(missing) is (certainty != "confirmed")


def test_another_fault_of_which_the_writer_is_known_agrees() -> None:
    first, second = (
        fault("oom-kill", "killed", kind=kind, doubt=doubt)
        for kind, doubt in (("kernel", DOUBT), ("service", ""))
    )
    found = replace(incident(first), faults=(first, second))
    (diagnosis,) = diagnose(found, Deployment("log"), Answers(), Tree(), [RULE], {})
    assert diagnosis.outcome == "confirmed"


def test_the_command_names_the_unit() -> None:
    found = incident(fault("oom-kill", "killed", kind="service", doubt=DOUBT))
    (diagnosis,) = diagnose(found, FAILED, Answers(), Tree(), [RULE], {})
    (command,) = [finding.command for finding in diagnosis.findings if finding.command]
    assert command.startswith("systemctl show x.service -p Result")


@pytest.mark.parametrize(("doubt", "result"), [("", "fail"), (DOUBT, "pass")])
def test_what_nobody_signed_refutes_nothing(doubt: str, result: str) -> None:
    probe = {"check": "no-oom-kill", "says": "nothing was killed for memory"}
    asked = rule(signature={"exception": "^ValueError$"}, falsifiers=[probe])
    first, other = fault(), fault("oom-kill", "k", kind="kernel", doubt=doubt)
    (diagnosis,) = diagnose(
        replace(incident(first), faults=(first, other)), FAILED, Answers(), Tree(), [asked], {}
    )
    assert [finding.result for finding in diagnosis.findings if finding.kind == "falsifier"] == [result]
