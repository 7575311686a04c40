"""People and machines that evidence names in passing are replaced in a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.evidence.recorded import Recorded
from triage.evidence.redaction.anonymity import Anonymiser, hosts_in, users_in
from triage.evidence.redaction.identities import emails, hardware_addresses, hosts_named, users_named
from triage.evidence.redaction.redactor import Redactor

NAMED = [
    (
        "Nov 03 10:11:12 node-7 sshd[12]: Accepted publickey for mirandolina from 10.1.2.3 port 22",
        "mirandolina",
    ),
    ("pam_unix(sudo:session): session opened for user mirandolina(uid=0)", "mirandolina"),
    ("sudo[41]:  mirandolina : TTY=pts/0 ; USER=root ; COMMAND=/bin/ls", "mirandolina"),
    ("uid=1004(mirandolina) gid=1004(ops)", "mirandolina"),
    ("(to mirandolina) root on pts/1", "mirandolina"),
    ("cache in /data/home/mirandolina/hf", "mirandolina"),
    ("LOGNAME=mirandolina", "mirandolina"),
    ("MASTER_ADDR=frost-gpu-12", "frost-gpu-12"),
    ("--dist-init-addr frost-gpu-12:20000", "frost-gpu-12"),
    ("init_method=tcp://frost-gpu-12:29500", "frost-gpu-12"),
    ('{"_HOSTNAME": "frost-gpu-12"}', "frost-gpu-12"),
    ("Nov 03 10:11:12 frost-gpu-12 kernel: NVRM: loaded", "frost-gpu-12"),
    ("worker on ip-10-1-44-8.ec2.internal died", "ip-10-1-44-8"),
    ("contact m.r+oncall@example-ops.org now", "m.r+oncall@example-ops.org"),
    ("eth0: link/ether 0c:42:a1:2b:3c:4d brd", "0c:42:a1:2b:3c:4d"),
]
STAYS = [
    "sglang@kimi.service: Failed with result 'exit-code'",
    "git@github.com:sgl-project/sglang.git",
    "uv@0.4.18 pip@24.1.2 model@main",
    "NVRM: Xid (PCI:0000:17:00): 79",
    "GID of port 1: index 3, RoCE v2",
    "revision 9f1c2b7a5d3e sha256:0c42a12b3c4d",
    "https://huggingface.co/meta-llama/Llama-3.1-8B",
    "at 10:11:12:13 step 0c:42",
    "MASTER_ADDR=master",
]


@pytest.mark.parametrize(("line", "name"), NAMED)
def test_a_name_goes(line: str, name: str) -> None:
    evidence = [Recorded("journal", "", line)]
    anonymiser = Anonymiser(Redactor(), users_in(evidence), hosts_in(evidence))
    assert name not in anonymiser.text(line)


@pytest.mark.parametrize("line", STAYS)
def test_what_names_nobody_stays(line: str) -> None:
    evidence = [Recorded("journal", "", line)]
    assert Anonymiser(Redactor(), users_in(evidence), hosts_in(evidence)).text(line) == line


def test_ordinary_logs_name_nobody_by_mistake() -> None:
    """Of the corpus, 1.7 million characters: no user, no e-mail or hardware address, twelve machines."""
    hosts: set[str] = set()
    for path in (Path(__file__).parents[1] / "corpus").rglob("*"):
        if path.is_file() and path.name != "expected.yaml":
            text = path.read_text(errors="replace")
            hosts.update(hosts_named(text))
            assert not list(users_named(text))
            assert not [*emails(text), *hardware_addresses(text)]
    assert {name for name in hosts if not name.startswith(("gpu", "hgx-", "mi300-", "ip-"))} == set()
