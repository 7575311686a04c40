"""Whose rights each command uses on a host whose service's environment belongs to another account than root.

The interpreter, a start-up file and a `.pth` file of the environment note as whom they run; nothing of them
may ever run as root, whoever connects and whatever is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.systemd.machines import HOST, UNIT, Machine, machine

PATCH = "sglang-triton-value-head-dim"
SITE = "/opt/sglang/lib/python3*/site-packages"
NOTES = "/var/tmp/notes"
BACKEND = f"{SITE}/sglang/srt/layers/attention/triton_backend.py"
_NOTE = f"import os; open('{NOTES}', 'a').write('KIND %d\\n' % os.geteuid())\n"
_TROJAN = f"""\
#!/bin/bash
echo "python $(id -u)" >> {NOTES}
exec -a "$0" /usr/bin/python3 "$@"
"""
_SETUP = f"""\
set -e
useradd -m svc
rm -f /opt/sglang/bin/python; cp /opt/trojan /opt/sglang/bin/python; chmod 755 /opt/sglang/bin/python
cp /opt/note.py $(echo {SITE})/sitecustomize.py; cp /opt/note.pth $(echo {SITE})/note.pth
chown -R svc: /opt/sglang
mkdir -p /etc/systemd/system/{UNIT}.d
touch {NOTES}; chmod 666 {NOTES}
"""


@pytest.fixture(scope="module")
def host(rootfs: object) -> Iterator[Machine]:
    files = {
        "/opt/trojan": _TROJAN,
        "/opt/note.py": _NOTE.replace("KIND", "sitecustomize"),
        "/opt/note.pth": _NOTE.replace("KIND", "pth"),
    }
    with machine("", files, calm=100) as running:
        running.box.run(_SETUP, check=True)
        yield running


def ran(host: Machine) -> set[tuple[str, str]]:
    """What ran of the environment since it was asked last, and as which account."""
    said = host.box.run(f"cat {NOTES}; : > {NOTES}", check=True).stdout.split()
    return set(zip(said[::2], said[1::2], strict=True))


def uid(host: Machine, name: str = "svc") -> str:
    return str(host.box.run(["id", "-u", name], check=True).stdout.strip())


READING = [
    (("diagnose", HOST), (0, 1)),
    (("capture", HOST, "--unit", UNIT, "--replace", "-o"), (0,)),
    (("scan", HOST, "--unit", UNIT), (1,)),
    (("patch", HOST, "--unit", UNIT, "--id", PATCH), (0,)),
    (("patch", HOST, "--unit", UNIT, "--id", PATCH, "--export", "diff"), (0,)),
    (("patch", "status", HOST), (0,)),
    (("patch", "rebase", HOST), (0,)),
    (("links", HOST, "--unit", UNIT), (3,)),
    (("hosts", "check", HOST), (0,)),
]


@pytest.mark.parametrize(("user", "become"), [("root", False), ("ops", True)])
@pytest.mark.parametrize(("words", "codes"), READING, ids=lambda value: "-".join(map(str, value[:2])))
def test_nothing_of_the_environment_runs_as_root(
    host: Machine,
    words: tuple[str, ...],
    codes: tuple[int, ...],
    user: str,
    become: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ran(host)
    more = (str(tmp_path_factory.mktemp("case") / "case"),) if words[-1] == "-o" else ()
    done = host.triage(*words, *more, *(("--become",) if become else ()), user=user)
    assert done.returncode in codes, done.stdout + done.stderr
    found = ran(host)
    assert {who for _, who in found} <= {uid(host)}
    assert found or words[0] in ("hosts", "patch")  # what asks the interpreter did ask it


@pytest.mark.parametrize(("user", "become"), [("root", ()), ("ops", ("--become",))])
def test_a_change_is_made_as_the_owner_and_stays_on_roots_record(
    host: Machine, user: str, become: tuple[str, ...]
) -> None:
    ran(host)
    before = host.box.run(f"stat -c '%U %a' {BACKEND}; sha256sum {BACKEND}", check=True).stdout
    done = host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes", *become, user=user)
    assert done.returncode == 0, done.stdout + done.stderr
    assert host.box.run(f"stat -c %U {BACKEND}", check=True).stdout == "svc\n"
    assert host.box.run("stat -c %U /var/lib/triage/changes/*", check=True).stdout.split()[-1] == "root"
    assert f"{PATCH}" in host.triage("patch", "status", HOST, *become, user=user).stdout
    done = host.triage("patch", "rollback", HOST, "--id", PATCH, "--yes", *become, user=user)
    assert done.returncode == 0, done.stdout + done.stderr
    assert host.box.run(f"stat -c '%U %a' {BACKEND}; sha256sum {BACKEND}", check=True).stdout == before
    found = ran(host)
    assert ("python", uid(host)) in found  # compiled with it, at least
    assert {who for _, who in found} == {uid(host)}


def test_a_file_of_root_in_the_owners_directory_is_not_changed(host: Machine) -> None:
    host.box.run(f"chown root: {BACKEND}", check=True)
    try:
        done = host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes")
        assert (done.returncode, "svc, who owns the way to it" in done.stderr) == (4, True), done.stderr
        assert "chown" in done.stderr
    finally:
        host.box.run(f"chown svc: {BACKEND}", check=True)


def test_what_several_accounts_can_change_is_not_changed(host: Machine) -> None:
    host.box.run("chmod 777 /opt/sglang", check=True)
    try:
        ran(host)
        done = host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH)
        assert done.returncode == 0, done.stderr
        done = host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes")
        assert (done.returncode, "/opt/sglang can be changed by more than one" in done.stderr) == (4, True)
        assert "chmod" in done.stderr
        assert {who for _, who in ran(host)} <= {uid(host), uid(host, "nobody")}
    finally:
        host.box.run("chmod 755 /opt/sglang", check=True)


def test_a_link_that_the_owner_made_leads_no_further_than_he_may_go(host: Machine) -> None:
    there = host.box.run(f"echo {BACKEND}", check=True).stdout.strip()
    host.box.run(
        f"cp {there} /root/secret.py; chmod 600 /root/secret.py; mv {there} /opt/kept.py", check=True
    )
    host.box.run(f"runuser -u svc -- ln -s /root/secret.py {there}", check=True)
    try:
        done = host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH)
        assert "Permission denied" in done.stdout, done.stdout + done.stderr
        assert "applicable" not in done.stdout
    finally:
        host.box.run(f"mv -T /opt/kept.py {there}", check=True)


def test_verify_and_the_engines_own_tool(host: Machine) -> None:
    host.box.run(
        f"printf '[Service]\\nUser=svc\\n' > /etc/systemd/system/{UNIT}.d/user.conf; systemctl daemon-reload;"
        f"systemctl reset-failed {UNIT}",
        check=True,
    )
    done = host.triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes")
    assert done.returncode == 0, done.stderr
    ran(host)
    for words in (("--tool",), ("--no-restart", "--tool")):
        done = host.triage("verify", HOST, "--unit", UNIT, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {who for _, who in ran(host)} == {uid(host)}
