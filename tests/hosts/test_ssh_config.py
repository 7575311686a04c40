from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from triage.common.errors import UsageError
from triage.hosts import ConnectionOptions
from triage.hosts.ssh.aliases import aliases
from triage.hosts.ssh.config import SshTarget, resolve

ME = getpass.getuser()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def resolved(name: str, home: Path, config: str = "") -> SshTarget:
    (home / ".ssh" / "config").write_text(config)
    return resolve(name, ConnectionOptions())


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("gpu01", f"{ME}@gpu01:22"),
        ("ops@gpu01", "ops@gpu01:22"),
        ("ops@gpu01:2222", "ops@gpu01:2222"),
        ("ssh://ops@gpu01:2222", "ops@gpu01:2222"),
        ("10.0.0.7:2222", f"{ME}@10.0.0.7:2222"),
        ("[2001:db8::1]:2222", f"{ME}@[2001:db8::1]:2222"),
        ("2001:db8::1", f"{ME}@[2001:db8::1]:22"),
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
        "gpu01:0",
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
        "Host gpu01\n HostName 192.0.2.1\n ProxyJump bastion,inner\n"
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
    config = f"Include fleet.d/*.conf\nMatch originalhost gpu01 user {ME}\n  Port 2201\n"
    assert resolved("gpu01", home, config).address == f"{ME}@192.0.2.9:2201"


def test_an_include_that_includes_itself_is_an_error(home: Path) -> None:
    with pytest.raises(UsageError, match=r"includes|Include"):
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
    target = resolved("gpu01", home, 'Host *\n UserKnownHostsFile ${HOME}/.ssh/fleet "/etc/the fleet"\n')
    assert target.known_hosts[:2] == (home / ".ssh/fleet", Path("/etc/the fleet"))


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


def test_an_include_in_a_host_block_is_for_that_host(home: Path) -> None:
    (home / ".ssh" / "inc").write_text("Host gpu2\n Port 2200\nHost zz\n Port 99\n")
    config = "Host gpu*\n  Include inc\n  User after\nHost *\n User all\n"
    assert resolved("gpu1", home, config).address == "after@gpu1:22"
    assert resolved("gpu2", home, config).address == "after@gpu2:2200"
    assert resolved("zz", home, config).address == "all@zz:22"


def test_match_user_is_the_user_on_the_host(home: Path) -> None:
    config = f"Match user ops\n  Port 2222\nMatch user {ME}\n  Port 2223\nHost gpu\n  User ops\n"
    assert resolved("ops@gpu", home, config).port == 2222
    options = ConnectionOptions(user="ops")
    assert resolve("other", options).port == 2222
    assert resolved("other", home, config).port == 2223


@pytest.mark.parametrize(
    ("criterion", "holds"), [("exec true", True), ("exec false", False), ("!host gpu", False)]
)
def test_match_criteria(home: Path, criterion: str, holds: bool) -> None:
    target = resolved("gpu", home, f"Match {criterion}\n  HostName 10.66.66.66\n")
    assert target.hostname == ("10.66.66.66" if holds else "gpu")


@pytest.mark.parametrize("criterion", ["localnetwork 203.0.113.0/24", "tagged prod", "version no*"])
def test_criteria_that_do_not_hold_or_are_not_known_lead_nowhere(home: Path, criterion: str) -> None:
    try:
        target = resolved("gpu", home, f"Match {criterion}\n  HostName 10.66.66.66\n")
    except UsageError as error:  # of an ssh client that knows no such criterion
        assert criterion.split()[0] in error.happened  # noqa: PT017
    else:
        assert target.hostname == "gpu"


def test_values_are_read_as_ssh_reads_them(home: Path) -> None:
    config = (
        "Host gpu\n  User ops # the usual\n  ConnectTimeout 1m\n  ServerAliveInterval 10s\n"
        '  IdentityFile "${HOME}/my key"\n  CertificateFile %d/c\n  CertificateFile %d/%n.d\n'
        "  HostName 10.0.0.9\n  RevokedHostKeys ~/rev\n  HashKnownHosts yes\n"
        "  ProxyCommand nc %h %p %r %n %%\n"
    )
    target = resolved("gpu", home, config)
    assert target.address == "ops@10.0.0.9:22"
    assert (target.connect_timeout, target.keepalive) == (60, 10)
    assert target.identities == (home / "my key",)
    assert target.certificates == (home / "c", home / "gpu.d")
    assert target.revoked == home / "rev"
    assert target.hash_names
    assert target.proxy_command == "nc 10.0.0.9 22 ops gpu %"


def test_none_is_none(home: Path) -> None:
    config = "Host *\n IdentityFile none\n CertificateFile none\n IdentityAgent none\n ConnectTimeout none\n"
    (home / ".ssh" / "id_rsa").touch()
    target = resolved("gpu", home, config)
    assert (target.identities, target.certificates, target.agent, target.connect_timeout) == ((), (), "", 15)


def test_the_agent_of_the_configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved("gpu", home).agent == ""
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/usual")
    monkeypatch.setenv("OTHER", "/run/other")
    assert resolved("gpu", home).agent == "/run/usual"
    assert resolved("gpu", home, "Host *\n IdentityAgent $OTHER\n").agent == "/run/other"
    assert resolved("gpu", home, "Host *\n IdentityAgent ${HOME}/a.sock\n").agent == f"{home}/a.sock"


@pytest.mark.parametrize(
    ("config", "proxy", "jumps"),
    [
        ("Host gpu\n ProxyCommand none\nHost *\n ProxyJump bastion\n", "", ()),
        ("Host gpu\n ProxyCommand nc %h 1\nHost *\n ProxyJump bastion\n", "nc gpu 1", ()),
        ("Host gpu\n ProxyJump a,b:2\nHost *\n ProxyCommand nc\n", "", ("a", "b:2")),
    ],
)
def test_the_first_of_proxy_command_and_proxy_jump_counts(
    home: Path, config: str, proxy: str, jumps: tuple[str, ...]
) -> None:
    target = resolved("gpu", home, config)
    assert (target.proxy_command, target.jumps) == (proxy, jumps)


def test_a_keyword_that_ssh_does_not_know_is_an_error_in_its_words(home: Path) -> None:
    with pytest.raises(UsageError, match=r"line 2: Bad configuration option: foobar"):
        resolved("gpu", home, "Host gpu\n FooBar yes\n")
    assert resolved("gpu", home, "IgnoreUnknown Foo*\nHost gpu\n FooBar yes\n Port 3\n").port == 3


def test_a_variable_or_a_token_that_is_not_known(home: Path) -> None:
    with pytest.raises(UsageError, match="NOWHERE_TO_BE_FOUND"):
        resolved("gpu", home, "Host *\n CertificateFile ${NOWHERE_TO_BE_FOUND}/x\n")


@pytest.fixture
def without_ssh(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))


@pytest.mark.usefixtures("without_ssh")
def test_without_an_ssh_client_a_plain_file_is_read(home: Path) -> None:
    config = (
        "# mine\nHost gpu*\n  User ops\n  IdentityFile ~/k-%r\n  ProxyCommand nc %h %p %n\n"
        "Host gpu1\n  Port 2200\n  HostName 10.0.0.1\n"
    )
    target = resolved("gpu1", home, config)
    assert target.address == "ops@10.0.0.1:2200"
    assert target.identities == (home / "k-ops",)
    assert target.proxy_command == "nc 10.0.0.1 2200 gpu1"
    assert resolved("me@gpu1:3", home, config).identities == (home / "k-me",)


@pytest.mark.usefixtures("without_ssh")
@pytest.mark.parametrize(
    "line",
    [
        *(
            "Match user ops",
            "Include x",
            "User ops # the usual",
            'IdentityFile "a b"',
            "IdentityFile ${HOME}/k",
        ),
        *("Tag x", "ProxyJump a\nProxyCommand b", "CertificateFile a\nCertificateFile b"),
    ],
)
def test_without_an_ssh_client_what_needs_it_is_refused(home: Path, line: str) -> None:
    with pytest.raises(UsageError, match="without the ssh client") as caught:
        resolved("gpu", home, f"Host gpu\n{line}\n")
    assert "openssh-client" in caught.value.next


@pytest.mark.usefixtures("without_ssh")
@pytest.mark.parametrize(
    "line", ["Port abc", "Port 65536", "Port", "ConnectTimeout=1m", "ServerAliveInterval -1"]
)
def test_without_an_ssh_client_a_number_has_to_be_one(home: Path, line: str) -> None:
    with pytest.raises(UsageError, match=r"line 2: [a-z]+ takes a number of at most [0-9]+$") as caught:
        resolved("gpu", home, f"Host gpu\n  {line}\n")
    assert caught.value.next.startswith("fix that line")


def test_aliases(home: Path) -> None:
    (home / ".ssh" / "a b").mkdir()
    (home / ".ssh" / "a b" / "c").write_text("Host inner # here\n")
    (home / ".ssh" / "config").write_text('Host one two *.x !three\nInclude "a b/*"\nhost="one"\n')
    assert aliases(None) == ("one", "two", "inner")
    (home / ".ssh" / "config").write_text("Include config\n")
    with pytest.raises(UsageError, match="Include"):
        aliases(None)
    (home / ".ssh" / "config").unlink()
    assert aliases(None) == ()
