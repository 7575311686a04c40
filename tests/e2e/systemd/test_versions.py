"""Crash, diagnosis, patch, proof and rollback where systemd, sshd and Python are another release's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.box import why_not
from tests.e2e.systemd.machines import HOST, SYSTEMD, UNIT, Machine, machine
from triage.evidence.catalogue import JournalAccess, Processes, UnitRuns
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.log_sources import log_sources
from triage.hosts import ConnectionOptions, open_connection
from triage.logs.formats.journal import GAP

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(300)]
SUITES = os.environ.get("TRIAGE_SUITES", " ".join(SYSTEMD)).split()
RULE = "sglang-pp-value-head-dim"
PATCH = "sglang-triton-value-head-dim"
RAISING = [f"PP{stage}" for stage in range(2, 8)]


@pytest.fixture(scope="module", params=SUITES)
def host(request: pytest.FixtureRequest) -> Iterator[Machine]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with machine(request.param) as running:
        told = running.box.run("systemctl --version", check=True).stdout
        assert told.startswith(f"systemd {SYSTEMD[request.param]} ")
        yield running


def confirmed(report: dict) -> None:
    (incident,) = report["incidents"]
    best = incident["diagnoses"][0]
    assert (best["rule"], best["outcome"]) == (RULE, "confirmed")
    assert incident["initiator"]["ranks"] == RAISING
    assert report["deployment"]["exit_status"] == "9/KILL"
    assert report["deployment"]["disagreements"] == []


@pytest.mark.parametrize("user", ["root", "engineer", "ops"])
def test_the_crash_is_diagnosed(host: Machine, user: str) -> None:
    more = ["--become"] if user == "ops" else []
    confirmed(host.told("diagnose", HOST, "--unit", UNIT, *more, user=user, code=1))


def test_the_journal_comes_in_windows(host: Machine) -> None:
    options = ConnectionOptions(ssh_config=host.box.ssh_config())
    with closing(open_connection(f"engineer@{HOST}", options)) as connection:
        evidence = LiveEvidence(connection)
        (found,) = discover(evidence, UNIT)
        data = log_sources(evidence, found)[0].data[:].decode()
        assert f'"{GAP}"' in data
        assert "x" * 5000 in data
        assert r"bad \\xff" in data
        assert evidence.ask(JournalAccess()).require()
        (run,) = evidence.ask(UnitRuns(UNIT)).require()
        assert (run.invocation, run.result) == (found.invocation, "signal")
        assert next(each for each in evidence.ask(Processes()).require() if each.pid == 1).started


def test_a_users_own_unit_with_the_last_words_of_its_ranks(host: Machine) -> None:
    confirmed(host.told("diagnose", HOST, "--unit", "own-kimi", user="ops", code=1))


def test_what_is_asked_in_vain_is_what_the_machine_does_not_have(host: Machine, tmp_path: Path) -> None:
    host.told("capture", HOST, "--unit", UNIT, "--full", "-o", str(tmp_path / "case"))
    shown = host.told("case", "show", str(tmp_path / "case"))
    missing = [each for each in shown["entries"] if each["missing"] and "No such file" not in each["missing"]]
    gpus = {"gpu-inventory", "gpu-topology", "rocm-inventory"}
    assert {each["query"] for each in missing} == {*gpus, "podman-storage"}


def test_patched_proven_and_taken_back(host: Machine) -> None:
    source = host.box.run(
        "cat /opt/sglang/lib/python3*/site-packages/sglang/srt/layers/attention/*.py"
    ).stdout
    assert host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes").returncode == 0
    proof = host.told("verify", HOST, "--unit", UNIT, "--requests", "2", "--repeats", "1-1")
    assert proof["start"]["ready"]
    assert [metrics["failed"] for metrics in proof["metrics"]] == [0] * len(proof["metrics"])
    assert host.told("diagnose", HOST, "--unit", UNIT)["incidents"] == []
    host.told("patch", "rollback", HOST, "--id", PATCH, "--yes")
    now = host.box.run("cat /opt/sglang/lib/python3*/site-packages/sglang/srt/layers/attention/*.py").stdout
    assert now == source
    failed = host.told("verify", HOST, "--unit", UNIT, code=1)
    assert failed["diagnosis"]["incidents"][-1]["diagnoses"][0]["rule"] == RULE
