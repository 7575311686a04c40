from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.common.errors import UsageError
from triage.hosts.inventory.load import load_inventory
from triage.hosts.inventory.model import Host, Inventory, Settings, expand

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
        ("h.yaml", "all: &x {children: {b: *x}}", "an alias holds itself"),
        ("h.yaml", "all: {hosts: [a]}", "all.hosts: it is not a mapping"),
        ("h.ini", "[g:nonsense]\na\n", "line 1: [g:nonsense] is not a section"),
        ("h.ini", "a b c\n", "line 1: b is not NAME=VALUE"),
        ("h.ini", "[g:vars]\nx\n", "line 2: x is not NAME=VALUE"),
        ("h.ini", "a ansible_password=hunter2\n", "a password does not stand in a file"),
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


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("ansible_port=x", "line 1: ansible_port=x is not a port"),
        ("ansible_ssh_common_args='-o X=1'", "line 1: ansible_ssh_common_args: X is not followed"),
        ("ansible_ssh_args='-o ProxyCommand=\"touch x\"'", "ansible_ssh_args: ProxyCommand is not followed"),
        ("ansible_ssh_args='-oLocalCommand=x'", "ansible_ssh_args: LocalCommand is not followed"),
        ("ansible_ssh_extra_args='-J b -F x'", "ansible_ssh_extra_args: -F is not known"),
        ("ansible_ssh_extra_args='-J'", "ansible_ssh_extra_args: -J is not known"),
        ("ansible_ssh_extra_args='x.example'", "ansible_ssh_extra_args: x.example is not known"),
        ("ansible_connection=local", "is not known"),
        ("ansible_host='{{ x }}'", "a template"),
        ("ansible_become=perhaps", "neither yes nor no"),
    ],
)
def test_a_host_that_cannot_be_reached_as_it_should_is_alone_unusable(
    tmp_path: Path, variable: str, told: str
) -> None:
    inventory = loaded(tmp_path, f"bad {variable}\ngood ansible_user=ops\n", "hosts")
    assert told in inventory.hosts["bad"].unusable
    assert inventory.hosts["good"] == Host("good", Settings(user="ops"), ("ungrouped",))


def test_what_a_group_says_wrong_a_host_may_put_right(tmp_path: Path) -> None:
    text = "[g]\na ansible_connection=ssh ansible_host=10.0.0.1\nb\n[g:vars]\nansible_connection=local\n"
    inventory = loaded(tmp_path, text + "ansible_host='{{ x }}'\n", "hosts")
    assert inventory.hosts["a"] == Host("a", Settings("10.0.0.1"), ("g",))
    assert "ansible_connection=local" in inventory.hosts["b"].unusable


def test_arguments_of_ssh_are_those_of_the_group_and_the_host(tmp_path: Path) -> None:
    text = (
        "[g]\na\nb ansible_ssh_extra_args='-o ConnectTimeout=3 -C'\n"
        "[g:vars]\nansible_ssh_common_args=-o ProxyJump=ops@bastion:2222 -o 'UserKnownHostsFile /dev/null'\n"
    )
    inventory = loaded(
        tmp_path, text.replace("args=-o Proxy", 'args="-o Proxy').replace("null'", "null'\""), "hosts"
    )
    common = "-o ProxyJump=ops@bastion:2222 -o 'UserKnownHostsFile /dev/null'"
    assert inventory.hosts["a"] == Host("a", Settings(ssh_arguments=common), ("g",))
    assert inventory.hosts["b"].settings.ssh_arguments == f"{common} -o ConnectTimeout=3 -C"


@pytest.mark.parametrize("name", ["hosts", "hosts.yml"])
def test_an_inventory_that_is_encrypted_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="it is encrypted"):
        loaded(tmp_path, "$ANSIBLE_VAULT;1.1;AES256\n6162\n", name)


def test_variables_beside_an_inventory(tmp_path: Path) -> None:
    files = {
        "group_vars/all.yml": "ansible_user: everyone\nrack: 7\n",
        "group_vars/kimi/connection.yaml": "ansible_port: 2222\nansible_become_password: '{{ vault }}'\n",
        "group_vars/kimi/secret.yml": "ansible_password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  00\n",
        "group_vars/models": "ansible_port: 2200\nansible_user: models\n",
        "host_vars/gpu02.yml": "ansible_host: 10.0.0.2\nansible_user: ops\n",
        "host_vars/gpu03.yml": "ansible_connection: local\n",
        "host_vars/other.yml": "ansible_host: 10.9.9.9\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    text = "lone\n[kimi]\ngpu[01:03] ansible_user=own\n[models:children]\nkimi\n[kimi:vars]\nansible_port=1\n"
    inventory = loaded(tmp_path, text, "hosts")
    assert inventory.hosts["lone"].settings == Settings(user="everyone")
    assert inventory.hosts["gpu01"].settings == Settings(user="own", port=2222)
    assert inventory.hosts["gpu02"].settings == Settings("10.0.0.2", "ops", 2222)
    assert "gpu03" in inventory.hosts["gpu03"].unusable
    assert "other" not in inventory.hosts


def test_variables_that_are_encrypted_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    assert loaded(tmp_path, "a\n", "hosts").hosts["a"] == Host("a", groups=("ungrouped",))
    assert "group_vars/all.yml is encrypted and not read" in caplog.text


def test_a_directory_is_all_its_files(tmp_path: Path) -> None:
    directory = tmp_path / "inventory"
    (directory / "group_vars").mkdir(parents=True)
    (directory / "1-static").write_text("[kimi]\ngpu01\n")
    (directory / "2-more.yml").write_text("kimi: {hosts: {gpu02: {ansible_port: 2202}}}\n")
    (directory / "group_vars" / "kimi.yml").write_text("ansible_user: ops\n")
    (directory / "notes.md").write_text("[not an inventory\n")
    (directory / ".git").mkdir()
    (directory / ".git" / "config").write_text("[core]\nx\n")
    inventory = load_inventory(directory)
    assert {name: host.settings for name, host in inventory.hosts.items()} == {
        "gpu01": Settings(user="ops"),
        "gpu02": Settings(user="ops", port=2202),
    }
    assert inventory.groups["kimi"] == ("gpu01", "gpu02")
    (directory / "3-plugin.yml").write_text("plugin: aws_ec2\n")
    with pytest.raises(UsageError, match=r"3-plugin\.yml"):
        load_inventory(directory)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no inventory"):
        load_inventory(tmp_path / "empty")


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
