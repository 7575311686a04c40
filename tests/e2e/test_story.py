"""The whole story on a real machine: crash, diagnosis, capture, patch, proof, rollback, crash again."""

from __future__ import annotations

import json
import re

import pytest

from examples.story.prepare import SERVICE
from examples.story.setup import prepare
from examples.story.stage import HOST, UNIT, machine
from triage.workflows.replay import EXPECTED

PATCH = "sglang-triton-value-head-dim"
RULE = "sglang-pp-value-head-dim"
RAISING = {
    f"PP{rank}" for rank in range(2, 8)
}  # 61 layers over 8 stages; PP1 silently reads its layer 13 + 1 - 7
UPSTREAM = "get_value_buffer(model_runner.token_to_kv_pool.start_layer)"


@pytest.fixture
def stage(rootfs, tmp_path):
    prepare(SERVICE)
    with machine(tmp_path / "state") as stage:
        yield stage


@pytest.fixture
def triage(stage):
    """A command of triage on the stage: its JSON, with the exit code that it must have."""

    def run(*arguments, code=0):
        done = stage.run(*arguments, "--format", "json")
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


@pytest.mark.timeout(300)
def test_the_story(stage, triage, tmp_path):
    # The service dies on its own, by the engine's own SIGKILL.
    assert stage.start_and_crash() == "failed, result signal, status 9"

    # One command finds the initiator among the ranks and confirms the cause on the host.
    crash = triage("diagnose", HOST, code=1)
    check_diagnosis(crash)
    text = stage.run("diagnose", HOST).stdout
    assert "confirmed: the attention backend asks this pipeline stage for layer 0" in text
    assert re.search(
        r"▶ +120 │ +self\.v_head_dim = model_runner\.token_to_kv_pool\.get_value_buffer\(0\)", text
    )
    assert "PP1    7-13    silently reads layer" in text

    # What was read is kept; without the host it gives the same, field by field, but for the host's name.
    case = tmp_path / "case"
    assert triage("capture", HOST, "-o", str(case))["answered"] > 5
    replayed = triage("diagnose", "--case", str(case), code=1)
    unnamed = json.loads(json.dumps(crash).replace(f" {HOST} ", " HOST "))
    assert {**replayed, "source": None} == {**unnamed, "source": None}
    assert (case / EXPECTED).exists()
    junit = tmp_path / "junit.xml"
    assert triage("replay", str(case), "--junit", str(junit))["failed"] == 0
    assert 'failures="0"' in junit.read_text()

    # The change is shown, made only with consent, and made once.
    shown = triage("patch", HOST, "--id", PATCH)["patches"][0]
    assert shown["state"] == "applicable"
    assert sum(line.startswith("+") and UPSTREAM in line for line in shown["diff"].splitlines()) == 1
    source = stage.box.run(["cat", triton_backend(crash)]).stdout
    assert stage.run("patch", HOST, "--id", PATCH, "--apply").returncode == 4
    assert stage.box.run(["cat", triton_backend(crash)]).stdout == source
    triage("patch", HOST, "--id", PATCH, "--apply", "--yes")
    patched = stage.box.run(["cat", triton_backend(crash)]).stdout
    assert patched == source.replace(
        "get_value_buffer(0)", "get_value_buffer(model_runner.token_to_kv_pool.start_layer)"
    )
    triage("patch", HOST, "--id", PATCH, "--apply", "--yes")
    assert stage.box.run(["cat", triton_backend(crash)]).stdout == patched
    assert [item["state"] for item in triage("patch", "status", HOST)["changes"]] == ["applied"]

    # Before the restart, the old crash is told from the fixed source.
    between = triage("diagnose", HOST, code=1)["incidents"][-1]["diagnoses"][0]
    assert between["outcome"] == "unproven"
    assert "restart" in [remedy["id"] for remedy in between["remedies"]]

    # It starts, really answers, and is measured.
    brief = ("--requests", "4", "--repeats", "2-2")
    proof = triage("verify", HOST, *brief)
    assert proof["start"]["ready"]
    assert proof["sample"]
    assert proof["patches"] == [PATCH]
    assert [metrics["failed"] for metrics in proof["metrics"]] == [0] * len(proof["metrics"])
    assert {metrics["concurrency"] for metrics in proof["metrics"]} >= {1, 4}
    assert triage("diagnose", HOST)["incidents"] == []
    again = triage("verify", HOST, *brief)
    assert again["verdict"] in ("same", "better", "worse", "inconclusive")
    assert again["sample"] == proof["sample"]

    # Taken back, the source is the old one byte for byte, and the crash the same one.
    triage("patch", "rollback", HOST, "--id", PATCH, "--yes")
    assert stage.box.run(["cat", triton_backend(crash)]).stdout == source
    failed = triage("verify", HOST, code=1)
    assert failed["verdict"] == "failed"
    assert failed["diagnosis"]["incidents"][-1]["diagnoses"][0]["rule"] == RULE
    check_diagnosis(triage("diagnose", HOST, code=1))
    assert (
        triage("diagnose", HOST, code=1)["incidents"][-1]["fingerprint"]
        == crash["incidents"][-1]["fingerprint"]
    )

    # The playbook takes the change back when the proof fails: here a start that may take only a second.
    failed = triage("run", "pp8-bringup", HOST, "--yes", "--var", "timeout=1", code=1)
    assert failed["status"] == "failed"
    assert stage.box.run(["cat", triton_backend(crash)]).stdout == source

    # Given time, it does all of it. A start that was given up may have read either source: it is ended first.
    # One that somebody has just started again is waited for: there is nothing to diagnose before it dies.
    stage.box.run(["systemctl", "stop", UNIT])
    stage.box.run(["systemctl", "start", "--no-block", UNIT])
    run = triage("run", "pp8-bringup", HOST, "--yes", "--var", "most_repeats=3")
    assert run["status"] == "done"
    assert (run["steps"][0]["do"], run["steps"][0]["data"]["died"]) == ("wait", True)
    assert stage.property("ActiveState") == "active"


def check_diagnosis(report):
    deployment = report["deployment"]
    assert (deployment["engine"], deployment["version"], deployment["layout"]["pp"]) == (
        "sglang",
        "0.5.11",
        8,
    )
    assert deployment["exit_status"] == "9/KILL"
    assert deployment["disagreements"] == []
    (incident,) = report["incidents"]
    first = incident["initiator"]
    assert (first["type"], first["message"]) == ("IndexError", "list index out of range")
    assert first["ranks"]
    assert set(first["ranks"]) <= RAISING
    spoke = {rank for fault in incident["faults"] for rank in fault["ranks"]}  # a neighbour's victims too
    assert set(incident["silent_ranks"]) == {f"PP{rank}" for rank in range(8)} - spoke
    assert (first["frame"]["line"], first["frame"]["function"]) == (120, "__init__")
    assert first["frame"]["file"].endswith("/sglang/srt/layers/attention/triton_backend.py")
    sure = {"category": "pp-rank-assumption", "certainty": "confirmed", "basis": "rule"}
    assert incident["verdict"] == sure
    best = incident["diagnoses"][0]
    assert (best["rule"], best["outcome"]) == (RULE, "confirmed")
    assert {item["result"] for item in best["evidence"]} == {"pass"}
    table = next(item["table"] for item in best["evidence"] if item["table"])
    raising = {row[0] for row in table["rows"] if row[2].startswith("IndexError")}
    assert raising == RAISING
    helps = {remedy["id"]: remedy["helps"] for remedy in best["remedies"]}
    assert helps[PATCH] is True
    assert helps["layout-tp2-pp4"] is False  # PP2 and PP3 would raise the same error
    assert helps["layout-tp4-pp2"] is True


def triton_backend(report):
    return report["incidents"][0]["initiator"]["frame"]["file"]


def test_what_cannot_be_reached_or_read(stage):
    """Each is one paragraph with the next command, and its exit code."""
    for arguments, code, says in [
        (("diagnose", "nosuchhost.invalid"), 3, "nosuchhost.invalid"),
        (("diagnose", HOST, "--unit", "nosuch"), 2, "nosuch.service"),
        (("diagnose", f"nobody@{HOST}"), 3, "nobody"),
    ]:
        done = stage.run(*arguments)
        assert done.returncode == code, done.stderr
        assert says in done.stderr
        assert "Next: " in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
