"""The stand-in's crash on hosts with less: busybox's tools, no Python, old systemd, odd accounts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.old_systemd import tools
from tests.e2e.systemd.machines import HOST, UNIT, Machine, machine

RULE = "sglang-pp-value-head-dim"
OLD = (219, 237, 245)
SHELLS = ("ksh93", "mksh", "yash", "zsh")
_SETUP = """\
set -e
chmod 755 /opt/busybox/busybox /opt/systemd-*/*
for tool in systemctl journalctl busctl ssh-keygen; do ln -sf /usr/bin/$tool /opt/busybox/; done
for applet in $(/opt/busybox/busybox --list); do ln -sf busybox /opt/busybox/$applet; done
rm -f /opt/busybox/zstd /opt/busybox/gzip
for user in poor loud closed old219 old237 old245; do useradd -m -s /bin/bash -G systemd-journal $user; done
usermod -s /usr/sbin/nologin closed
printf 'echo "Welcome to $HOSTNAME, 3 updates"; echo "insufficient permissions" >&2\\n' > /home/loud/.bashrc
printf 'Match User poor\\n  SetEnv PATH=/opt/busybox\\n' >> /etc/ssh/sshd_config.d/box.conf
for version in 219 237 245; do
    echo "Match User old$version"; echo "  SetEnv PATH=/opt/systemd-$version:/usr/bin:/bin:/usr/sbin"
done >> /etc/ssh/sshd_config.d/box.conf
for shell in ksh93 mksh yash zsh; do
    [ ! -e /opt/sh-$shell/sh ] || chmod 755 /opt/sh-$shell/sh
    useradd -m -s /bin/bash -G systemd-journal $shell
    echo "Match User $shell"; echo "  SetEnv PATH=/opt/sh-$shell:/usr/bin:/bin:/usr/sbin"
done >> /etc/ssh/sshd_config.d/box.conf
sed -i 's/^Match User old245/&,ops/' /etc/ssh/sshd_config.d/box.conf
systemctl reload ssh
systemctl start sglang-kimi; until systemctl is-failed -q sglang-kimi; do sleep 0.1; done  # a second run
"""


@pytest.fixture(scope="module")
def host(rootfs: Path) -> Iterator[Machine]:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox not found: apt-get install busybox")
    files: dict[str, Any] = {"/opt/busybox/busybox": Path(busybox).read_bytes()}
    for shell in filter(shutil.which, SHELLS):
        files[f"/opt/sh-{shell}/sh"] = Path(shutil.which(shell) or "").read_bytes()
    for version in OLD:
        files |= tools(version)
    with machine("", files, calm=100) as running:
        running.box.run(_SETUP, check=True)
        yield running


def diagnosis(report: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Of the one incident of the last run, its rule and outcome, and the ranks that it began on."""
    (incident,) = report["incidents"]
    assert incident["count"] == 1
    best = incident["diagnoses"][0]
    return best["rule"], best["outcome"], incident["initiator"]["ranks"]


CONFIRMED = (RULE, "confirmed", [f"PP{stage}" for stage in range(2, 8)])


@pytest.mark.parametrize("user", ["poor", "loud", "old219", "old237", "old245", *SHELLS])
def test_the_diagnosis_is_that_of_any_host(host: Machine, user: str) -> None:
    if user in SHELLS and host.box.run(f"/opt/sh-{user}/sh -c :").returncode:
        pytest.skip(f"{user} does not run there: apt-get install ksh93u+m mksh yash zsh")
    report = host.told("diagnose", HOST, "--unit", UNIT, user=user, code=1)
    assert diagnosis(report) == CONFIRMED
    assert report["deployment"]["version"] == "0.5.11"
    assert report["deployment"]["disagreements"] == []


def test_a_users_own_unit_on_systemd_245(host: Machine) -> None:
    assert diagnosis(host.told("diagnose", HOST, "--unit", "own-kimi", user="ops", code=1)) == CONFIRMED


def test_an_account_without_a_shell(host: Machine) -> None:
    done = host.triage("diagnose", HOST, user="closed")
    assert done.returncode == 3
    assert "login shell does not run them: This account is currently not available" in done.stderr


def test_the_check_says_what_is_not_there(host: Machine) -> None:
    (row,) = host.told("hosts", "check", HOST, user="poor")["hosts"]
    found = row["access"]
    assert (found["user"], found["journal"], found["python"], found["sudo"]) == ("poor", True, "", "no")
    assert found["group_tool"] == "timeout"
    host.box.run("cd /opt/busybox; rm timeout setsid", check=True)
    try:
        (row,) = host.told("hosts", "check", HOST, user="poor")["hosts"]
        assert row["access"]["group_tool"] == ""
        assert "no timeout, no setsid" in host.triage("hosts", "check", HOST, user="poor").stdout
        assert diagnosis(host.told("diagnose", HOST, "--unit", UNIT, user="poor", code=1)) == CONFIRMED
    finally:
        host.box.run("cd /opt/busybox; ln -s busybox timeout; ln -s busybox setsid", check=True)


@pytest.mark.systemd
def test_a_case_for_a_bug_report_also_a_second_time(host: Machine, tmp_path: Path) -> None:
    case = str(tmp_path / "case")
    run = ("run", "capture-for-bug-report", HOST, "--var", f"unit={UNIT}", "--var", f"output={case}")
    assert host.told(*run, user="poor")["status"] == "done"
    assert host.told(*run, user="poor", code=4)["status"] == "failed"  # it is there
    assert host.told(*run, "--var", "replace=true", user="poor")["status"] == "done"
    answers = {each["query"]: each for each in host.told("case", "show", case)["entries"]}
    for query in ("processes", "listening-ports", "list-directory", "journal", "memory", "disk-free"):
        assert not answers[query]["missing"], answers[query]


def test_without_python_the_tree_is_that_of_the_traceback(host: Machine) -> None:
    host.box.run("mv /opt/sglang/bin/python /opt/sglang/bin/gone", check=True)
    try:
        report = host.told("diagnose", HOST, "--unit", UNIT, user="poor", code=1)
        assert diagnosis(report) == CONFIRMED
        (said,) = report["deployment"]["disagreements"]
        assert said.startswith("what /opt/sglang/bin/python would import is not known: ")
        done = host.triage("patch", HOST, "--unit", UNIT, "--id", "sglang-triton-value-head-dim", user="poor")
        assert done.returncode == 3
        assert "there is no /opt/sglang/bin/python on the host" in done.stderr
    finally:
        host.box.run("mv /opt/sglang/bin/gone /opt/sglang/bin/python", check=True)
