from __future__ import annotations

from pathlib import Path

import pytest

from triage.errors import UsageError
from triage.hosts import ConnectionOptions
from triage.hosts.ssh_config import Target, resolve


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "me")
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def resolved(name: str, home: Path, config: str = "") -> Target:
    (home / ".ssh" / "config").write_text(config)
    return resolve(name, ConnectionOptions())


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("gpu01", "me@gpu01:22"),
        ("ops@gpu01", "ops@gpu01:22"),
        ("ops@gpu01:2222", "ops@gpu01:2222"),
        ("ssh://ops@gpu01:2222", "ops@gpu01:2222"),
        ("10.0.0.7:2222", "me@10.0.0.7:2222"),
        ("[2001:db8::1]:2222", "me@[2001:db8::1]:2222"),
        ("2001:db8::1", "me@[2001:db8::1]:22"),
        ("first.last@example.org@gpu01", "first.last@example.org@gpu01:22"),
    ],
)
def test_names(home: Path, name: str, address: str) -> None:
    assert resolved(name, home).address == address


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-oProxyCommand=touch x",
        "a b",
        "a;b",
        "$(touch x)",
        "a@-b",
        "gpu01:99999",
        "gpu01:x",
        "a/b",
        "a\nb",
    ],
)
def test_what_is_no_name(home: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a host name"):
        resolved(name, home)


def test_an_alias(home: Path) -> None:
    config = (
        "Host gpu*\n User ops\n Port 2200\n ConnectTimeout 7\n IdentitiesOnly yes\n"
        " IdentityFile ~/.ssh/fleet\n IdentityFile ~/.ssh/%r\n ServerAliveInterval 5\n Compression yes\n"
        "Host gpu01\n HostName 192.0.2.1\n ProxyJump bastion, inner\n"
    )
    target = resolved("gpu01", home, config)
    assert target.address == "ops@192.0.2.1:2200"
    assert target.key_name == "[192.0.2.1]:2200"
    assert target.identities == (home / ".ssh/fleet", home / ".ssh/ops")
    assert target.identities_only
    assert target.jumps == ("bastion", "inner")
    assert (target.connect_timeout, target.keepalive, target.compression) == (7, 5, True)


def test_what_the_name_says_wins_over_the_configuration(home: Path) -> None:
    assert resolved("root@gpu01:22", home, "Host *\n User ops\n Port 2200\n").address == "root@gpu01:22"


def test_match_and_include(home: Path) -> None:
    (home / ".ssh" / "fleet.d").mkdir()
    (home / ".ssh" / "fleet.d" / "a.conf").write_text("Host gpu01\n  HostName 192.0.2.9\n")
    config = "Include fleet.d/*.conf\nMatch originalhost gpu01 user me\n  Port 2201\n"
    assert resolved("gpu01", home, config).address == "me@192.0.2.9:2201"


def test_an_include_that_includes_itself_is_an_error(home: Path) -> None:
    with pytest.raises(UsageError, match="Include"):
        resolved("gpu01", home, "Include config\n")


def test_another_configuration_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("Host gpu01\n Port 2300\n")
    target = resolve("gpu01", ConnectionOptions(ssh_config=tmp_path / "other"))
    assert target.port == 2300
    with pytest.raises(UsageError, match="no such file"):
        resolve("gpu01", ConnectionOptions(ssh_config=tmp_path / "nowhere"))


@pytest.mark.parametrize("config", ["Host gpu01\n Port many\n", "Host 'gpu01\n", "Match host\n"])
def test_a_broken_configuration_is_an_error_that_names_it(home: Path, config: str) -> None:
    with pytest.raises(UsageError, match="ssh configuration"):
        resolved("gpu01", home, config)


def test_default_identities_are_those_that_exist(home: Path) -> None:
    assert resolved("gpu01", home).identities == ()
    (home / ".ssh" / "id_rsa").touch()
    assert resolved("gpu01", home).identities == (home / ".ssh/id_rsa",)


def test_known_hosts_files(home: Path) -> None:
    assert resolved("gpu01", home).known_hosts[0] == home / ".ssh/known_hosts"
    target = resolved("gpu01", home, "Host *\n UserKnownHostsFile /dev/null\n")
    assert target.known_hosts[0] == home / ".ssh/known_hosts"
    target = resolved("gpu01", home, "Host *\n UserKnownHostsFile ~/.ssh/fleet /etc/fleet\n")
    assert target.known_hosts[:2] == (home / ".ssh/fleet", Path("/etc/fleet"))


def test_proxy_command_none_is_none(home: Path) -> None:
    assert resolved("gpu01", home, "Host *\n ProxyCommand none\n ProxyJump none\n").proxy_command == ""
    assert resolved("gpu01", home, "Host *\n ProxyJump none\n").jumps == ()


def test_what_an_inventory_says_comes_before_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host gpu01 10.0.0.9\n  User ops\n  Port 22\n  IdentityFile ~/.ssh/a\n  ProxyJump jump\n"
    )
    options = ConnectionOptions(
        config, address="10.0.0.9", user="kimi", port=2222, identity_file=Path("~/.ssh/b")
    )
    found = resolve("gpu01", options)
    assert (found.alias, found.address) == ("gpu01", "kimi@10.0.0.9:2222")
    assert [path.name for path in found.identities] == ["b", "a"]
    assert found.jumps == ("jump",)
    assert resolve("me@gpu01:23", options).address == "me@10.0.0.9:23"
