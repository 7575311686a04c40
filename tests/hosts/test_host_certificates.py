from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.conftest import Server, keygen, start_sshd
from triage.common.errors import RefusedError
from triage.hosts import open_connection
from triage.hosts.ssh.host_certificates import why_not
from triage.hosts.ssh.public_keys import KnownHostKey


@pytest.fixture(params=["ed25519", "rsa", "ecdsa"])
def certified(server: Server, request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """Starts the server anew with a certificate of its key, that `authority` signs."""
    started = []
    keygen(server.directory / "authority", request.param)

    def certify(*options: str, principals: str = "127.0.0.1", kind: str = "-h") -> Server:
        authority, key = server.directory / "authority", server.directory / "host_key.pub"
        names = ("-n", principals) if principals else ()
        words = ["ssh-keygen", "-q", "-s", str(authority), "-I", "the box", *names, *options]
        subprocess.run([*words, *([kind] if kind else []), str(key)], check=True, timeout=60)
        server.stop()
        running = start_sshd(
            server.directory, server.home, f"HostCertificate {server.directory}/host_key-cert.pub"
        )
        started.append(running)
        running.alias()
        trust(running, "@cert-authority *")
        return running

    yield certify
    for each in started:
        each.stop()


def trust(server: Server, *lines: str) -> None:
    words = (server.directory / "authority.pub").read_text().split()
    server.known_hosts.write_text("".join(f"{line} {words[0]} {words[1]}\n" for line in lines))


def reached(server: Server) -> bool:
    connection = open_connection("box", server.options())
    connection.close()
    return True


@pytest.mark.parametrize("pattern", ["*", "127.0.0.1", "[127.0.0.1]:*"])
def test_a_host_that_an_authority_vouches_for(certified: Callable[..., Server], pattern: str) -> None:
    server = certified("-V", "-1h:+1h")
    trust(server, f"@cert-authority {pattern}")
    before = server.known_hosts.read_text()
    assert reached(server)
    assert server.known_hosts.read_text() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"principals": "elsewhere"}, "it is that of elsewhere"),
        ({"kind": ""}, "not a host's"),
    ],
)
def test_a_certificate_that_does_not_fit(
    certified: Callable[..., Server], options: dict[str, str], told: str
) -> None:
    server = certified(**options)
    with pytest.raises(RefusedError, match="its key is not known") as caught:
        reached(server)
    assert told in caught.value.happened


def test_times(certified: Callable[..., Server]) -> None:
    server = certified("-V", "20200101:20200102")
    with pytest.raises(RefusedError, match="it has expired"):
        reached(server)


def test_another_authority_or_a_revoked_one_is_none(certified: Callable[..., Server]) -> None:
    server = certified()
    assert reached(server)
    trust(server, "@cert-authority *", "@revoked *")
    with pytest.raises(RefusedError, match="is not one of this host"):
        reached(server)
    keygen(server.directory / "authority")
    trust(server, "@cert-authority *")
    with pytest.raises(RefusedError, match="is not one of this host"):
        reached(server)
    trust(server, "@cert-authority other.example")
    with pytest.raises(RefusedError, match="its key is not known"):
        reached(server)


def test_a_known_key_needs_no_certificate(certified: Callable[..., Server]) -> None:
    server = certified(principals="elsewhere")
    server.trust()
    assert reached(server)


def test_every_byte_of_a_certificate_counts(tmp_path: Path) -> None:
    keygen(tmp_path / "authority")
    keygen(tmp_path / "key")
    words = ["ssh-keygen", "-q", "-s", str(tmp_path / "authority"), "-I", "x", "-h", "-n", "gpu01"]
    subprocess.run([*words, str(tmp_path / "key.pub")], check=True, timeout=60)
    data = base64.b64decode((tmp_path / "key-cert.pub").read_text().split()[1])
    authority = KnownHostKey(*(tmp_path / "authority.pub").read_text().split()[:2])
    assert why_not(data, "gpu01", [authority]) == ""
    assert why_not(data, "gpu02", [authority]).startswith("it is that of gpu01")
    signed, signature = len(data) - 87, len(data) - 64  # between them stand lengths and a name
    for at in range(signed):
        assert why_not(data[:at], "gpu01", [authority])
    for at in (*range(signed), *range(signature, len(data))):
        assert why_not(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "gpu01", [authority])


@pytest.mark.parametrize("form", ["lines", "list"])
def test_an_authority_that_is_revoked(certified: Callable[..., Server], form: str) -> None:
    server = certified("-V", "-1h:+1h")
    server.alias("RevokedHostKeys ~/revoked")
    authority = server.directory / "authority.pub"
    (server.home / "revoked").write_bytes(authority.read_bytes())
    if form == "list":
        make = ["ssh-keygen", "-q", "-k", "-f", str(server.home / "revoked"), str(authority)]
        subprocess.run(make, check=True, timeout=60)
    with pytest.raises(RefusedError, match="revoked by"):
        reached(server)
