from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.errors import UsageError
from triage.hosts.inventory import Inventory, Settings, expand, load_inventory

OWN = """\
vars: {user: ops}
hosts:
  gpu[01:03]:
  old: {address: 10.0.0.9, port: 2222, identity_file: ~/.ssh/old, become: true}
groups:
  kimi: {hosts: ["gpu[01:02]"], vars: {user: kimi, port: 22}}
  models: {children: [kimi], hosts: [old], vars: {port: 2200, become: false}}
deployments:
  chat: {hosts: [kimi], unit: sglang-kimi.service}
"""
INI = """\
# where the models are
lone.example.org:5309
[kimi]
gpu[01:03:2] ansible_user=ops rack=7   # and a comment
old ansible_host=10.0.0.9 ansible_port=2222 ansible_ssh_private_key_file="~/my keys/old"

[kimi:vars]
ansible_become=yes
ntp_server=ntp.example.org
[models:children]
kimi
[models:vars]
ansible_user=models
ansible_become=no
"""
YAML = """\
all:
  vars: {ansible_user: everyone}
  children:
    models:
      vars: {ansible_user: models, ansible_become: no}
      children:
        kimi:
          hosts:
            gpu[01:03:2]: {ansible_user: ops, rack: 7}
            old:
              ansible_host: 10.0.0.9
              ansible_port: 2222
              ansible_ssh_private_key_file: ~/my keys/old
          vars: {ansible_become: yes}
  hosts:
    lone.example.org: {ansible_port: 5309}
"""


def loaded(directory: Path, text: str, name: str = "hosts.yaml") -> Inventory:
    path = directory / name
    path.write_text(text)
    return load_inventory(path)


def names(inventory: Inventory, words: str) -> list[str]:
    return [host.name for host in inventory.select(words)]


def test_a_file_of_our_own(tmp_path: Path) -> None:
    inventory = loaded(tmp_path, OWN)
    assert inventory.hosts["gpu03"].settings == Settings(user="ops")
    assert inventory.hosts["gpu01"].settings == Settings(user="kimi", port=22, become=False)
    assert inventory.hosts["old"].settings == Settings("10.0.0.9", "ops", 2222, "~/.ssh/old", True)
    assert inventory.hosts["gpu01"].groups == ("models", "kimi")
    assert {name: sorted(each) for name, each in inventory.groups.items()} == {
        "kimi": ["gpu01", "gpu02"],
        "models": ["gpu01", "gpu02", "old"],
    }


def test_the_example_is_read() -> None:
    inventory = load_inventory(Path(__file__).parents[2] / "examples" / "inventory" / "hosts.yaml")
    page = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()
    assert len(inventory.select("chat")) == 8
    text = (Path(__file__).parents[2] / "examples" / "inventory" / "hosts.yaml").read_text()
    assert text.partition("\n")[2] in page


def test_choosing(tmp_path: Path) -> None:
    inventory = loaded(tmp_path, OWN)
    assert names(inventory, "models") == ["old", "gpu01", "gpu02"]
    assert names(inventory, "gpu03, kimi,gpu01") == ["gpu03", "gpu01", "gpu02"]
    assert names(inventory, "all") == ["gpu01", "gpu02", "gpu03", "old"]
    assert names(inventory, "gpu[02:03],me@elsewhere:22") == ["gpu02", "gpu03", "me@elsewhere:22"]
    assert [host.settings.unit for host in inventory.select("chat")] == ["sglang-kimi.service"] * 2
    assert [inventory.is_several(words) for words in ("kimi", "chat", "all", "a,b", "gpu01", "x")] == [
        *(True, True, True, True),
        *(False, False),
    ]
    assert names(Inventory(), "all") == ["all"]  # without an inventory it is a host's name like any other
    with pytest.raises(UsageError, match="not a host name"):
        inventory.select(",")


@pytest.mark.parametrize(("name", "text"), [("hosts", INI), ("hosts.ini", INI), ("hosts.yml", YAML)])
def test_an_ansible_inventory(tmp_path: Path, name: str, text: str) -> None:
    inventory = loaded(tmp_path, text, name)
    everyone = "everyone" if text is YAML else ""
    assert {host.name: host.settings for host in inventory.hosts.values()} == {
        "lone.example.org": Settings(user=everyone, port=5309),
        "gpu01": Settings(user="ops", become=True),
        "gpu03": Settings(user="ops", become=True),
        "old": Settings("10.0.0.9", "models", 2222, "~/my keys/old", True),
    }
    assert sorted(inventory.groups["models"]) == ["gpu01", "gpu03", "old"]


@pytest.mark.parametrize(
    ("name", "expanded"),
    [
        ("gpu", ["gpu"]),
        ("gpu[9:11]", ["gpu9", "gpu10", "gpu11"]),
        ("gpu[09:11]x", ["gpu09x", "gpu10x", "gpu11x"]),
        ("n[a:c]", ["na", "nb", "nc"]),
        ("r[1:2]n[0:4:2]", ["r1n0", "r1n2", "r1n4", "r2n0", "r2n2", "r2n4"]),
        ("[::1]", ["[::1]"]),
    ],
)
def test_ranges(name: str, expanded: list[str]) -> None:
    assert list(expand(name)) == expanded


@pytest.mark.parametrize(
    "name", ["g[2:1]", "g[a:3]", "g[1:5:0]", "g[01:100]", "g[0:99999]", "g[0:999][0:999]"]
)
def test_ranges_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"range|empty|digits|hosts"):
        list(expand(name))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("h.yaml", "hosts: {a: {adress: x}}", "hosts.a.adress: there is no such key"),
        ("h.yaml", "hosts: {a: {port: 70000}}", "hosts.a.port: "),
        ("h.yaml", "host: {a: {}}", "host: there is no such key"),
        ("h.yaml", "hosts: {a: }\ngroups: {g: {hosts: [aa]}}", "there is no host aa; is it a?"),
        ("h.yaml", "hosts: {a: }\ngroups: {g: {children: [h]}}", "there is no group h"),
        ("h.yaml", "groups: {g: {children: [h]}, h: {children: [g]}}", "a child of itself"),
        ("h.yaml", "hosts: {a: }\ngroups: {a: {}}", "the name of a host and of a group"),
        (
            "h.yaml",
            "hosts: {a: }\ndeployments: {d: {hosts: [b], unit: x}}",
            "deployments.d.hosts: there is no host",
        ),
        ("h.yaml", "hosts: {'a b': }", "not a host name"),
        ("h.yaml", "hosts: {a: {address: '$(touch x)'}}", "is no address"),
        ("h.yaml", "all: &x {children: {b: *x}}", "deep"),
        ("h.yaml", "all: {hosts: [a]}", "all.hosts: it is not a mapping"),
        ("h.ini", "[g:nonsense]\na\n", "line 1: [g:nonsense] is not a section"),
        ("h.ini", "a b c\n", "line 1: b is not NAME=VALUE"),
        ("h.ini", "[g:vars]\nx\n", "line 2: x is not NAME=VALUE"),
        ("h.ini", "a ansible_port=x\n", "line 1: ansible_port=x is not a port"),
        ("h.ini", "a ansible_password=hunter2\n", "a password does not stand in a file"),
        ("h.ini", "a ansible_ssh_common_args='-o X'\n", "line 1: ansible_ssh_common_args=-o X is not known"),
        ("h.ini", "a ansible_connection=local\n", "is not known"),
        ("h.ini", "a ansible_host='{{ x }}'\n", "a template"),
        ("h.ini", "a ansible_user='x;y'\n", "'x;y' is no user"),
        ("h.ini", "[g:children]\nnone\n", "there is no group none"),
        ("h.ini", "#!/bin/sh\n", "it is a program"),
        ("h.ini", "a 'b\n", "line 1: No closing quotation"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, text, name)
    assert told in caught.value.happened
    assert str(tmp_path / name) in caught.value.to
    assert "hunter2" not in str(caught.value)
    assert caught.value.next


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("none", "none.yaml"):
        with pytest.raises(UsageError, match="No such file"):
            load_inventory(tmp_path / name)


@given(st.text(alphabet=st.sampled_from("ab=[]:#;'\" \n\\,{}0-"), max_size=80))
def test_no_text_does_worse_than_be_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    directory = tmp_path_factory.getbasetemp()
    for name in ("any.ini", "any.yaml"):
        try:
            loaded(directory, text, name)
        except UsageError as error:
            assert error.next  # noqa: PT017
