"""Behaviour over a real sshd on loopback."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bounds import many
from tests.hosts.conftest import Server, free_port, keygen, start_sshd
from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.catalogue import Processes, WhoAmI
from triage.evidence.live import LiveEvidence
from triage.evidence.model import Query
from triage.hosts import Connection, ConnectionOptions, open_connection
from triage.hosts.connection import Command, Joining, LostError
from triage.hosts.ssh.connection import SshConnection

MEGABYTE = 1_000_000


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    opened = open_connection("box")
    yield opened
    opened.close()


def running(marker: str) -> list[int]:
    """Pids of processes whose command line holds the marker."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def gone(marker: str, within: float = 10.0) -> bool:
    deadline = time.monotonic() + within
    while running(marker):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_runs_a_command_and_keeps_both_streams_and_the_status_apart(connection: Connection) -> None:
    output = connection.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (output.code, output.stdout, output.stderr, output.cut) == (3, b"out\n", b"err\n", "")


def test_several_commands_at_once(connection: Connection) -> None:
    assert isinstance(connection, Joining)
    said = ("sh", "-c", 'echo "$1"; echo err >&2; exit 3', "sh", "it's !\\ $HOME")
    asked = [Command(("printf", "a\\0b")), Command(said), Command(("sh", "-c", "kill -9 $$"))]
    one, two, three = connection.run_each(asked)
    assert (one.code, one.stdout, one.stderr) == (0, b"a\0b", b"")
    assert (two.code, two.stdout, two.stderr) == (3, b"it's !\\ $HOME\n", b"err\n")
    assert (three.code, three.stdout) == (-9, b"")
    (read,) = connection.run_each([Command(("cat",), stdin="it's !\\ $HOME\nétwo\n")])
    assert read.stdout.decode() == "it's !\\ $HOME\nétwo\n"


def test_the_list_of_processes_is_without_ours(connection: Connection, server: Server) -> None:
    for others in ((), (WhoAmI(),)):
        evidence = LiveEvidence(connection)
        evidence.foresee((Processes(), *others))
        told = {process.pid: process for process in evidence.ask(Processes()).require()}
        assert os.getpid() in told
        below = {server.process.pid}
        while more := {each.pid for each in told.values() if each.ppid in below} - below:
            below |= more
        assert len(below) > 1
        assert all(told[pid].args.startswith(("sshd", "/usr/sbin/sshd")) for pid in below)


def test_names_and_address(connection: Connection, server: Server) -> None:
    assert connection.name == "box"
    assert connection.address.endswith(f"@127.0.0.1:{server.port}")


def test_commands_find_a_plain_locale_and_utc(connection: Connection) -> None:
    assert connection.run(["sh", "-c", "echo $LC_ALL $TZ"]).stdout == b"C UTC\n"


def test_a_command_that_is_not_there_gives_127(connection: Connection) -> None:
    assert connection.run(["no-such-command-anywhere"]).code == 127


def test_death_by_signal_is_a_negative_code(connection: Connection) -> None:
    assert connection.run(["sh", "-c", "kill -9 $$"]).code == -signal.SIGKILL


def test_ten_megabytes_on_both_streams_at_once_and_in_order(connection: Connection) -> None:
    script = f"head -c {10 * MEGABYTE} /dev/zero & head -c {10 * MEGABYTE} /dev/zero | tr '\\0' e >&2; wait"
    output = connection.run(["sh", "-c", script])
    assert output.code == 0
    assert output.stdout == b"\0" * 10 * MEGABYTE
    assert output.stderr == b"e" * 10 * MEGABYTE


def test_standard_input_and_output_at_once(connection: Connection) -> None:
    data = os.urandom(5 * MEGABYTE)
    assert connection.run(["cat"], stdin=data).stdout == data


def test_a_command_that_does_not_want_its_input_is_no_error(connection: Connection) -> None:
    assert connection.run(["true"], stdin=b"x" * 5 * MEGABYTE).code == 0


def test_the_time_limit_keeps_what_came_and_ends_the_remote_process(connection: Connection) -> None:
    output = connection.run(["sh", "-c", "echo early; sleep 98.7601"], timeout=1)
    assert (output.code, output.stdout, output.cut) == (None, b"early\n", "time")
    assert gone("98.7601")


def test_the_time_limit_ends_a_process_that_ignores_sigterm(connection: Connection) -> None:
    output = connection.run(["sh", "-c", "trap '' TERM; while :; do sleep 0.5; done # 98.7602"], timeout=1)
    assert output.cut == "time"
    assert gone("98.7602")


STUBBORN = "(trap '' TERM HUP PIPE INT; while :; do sleep 0.2; done; : {mark}) & wait"


@pytest.mark.parametrize("stdin", [b"", b"input"])
@pytest.mark.parametrize("limited", ["time", "bytes"])
def test_a_limit_ends_grandchildren_that_ignore_signals(
    connection: Connection, stdin: bytes, limited: str
) -> None:
    mark = f"98.{limited}{len(stdin)}"
    script = f"{'yes & ' if limited == 'bytes' else ''}{STUBBORN.format(mark=mark)}"
    output = connection.run(
        ["sh", "-c", script], timeout=1 if limited == "time" else 30, limit=1000, stdin=stdin
    )
    assert output.cut == limited
    assert gone(mark)


@pytest.mark.parametrize("stdin", [b"", b"input"])
def test_a_command_that_ends_well_when_it_is_asked_to_leaves_nothing_behind(
    connection: Connection, stdin: bytes
) -> None:
    mark = f"98.well{len(stdin)}"
    script = f"trap 'exit 0' TERM; {STUBBORN.format(mark=mark)}"
    assert connection.run(["sh", "-c", script], timeout=1, stdin=stdin).cut == "time"
    assert gone(mark)


@pytest.mark.parametrize("stdin", [b"", b"input"])
def test_stopping_ends_grandchildren_that_ignore_signals(server: Server, stdin: bytes) -> None:
    stop = threading.Event()
    connection = open_connection("box", ConnectionOptions(stop=stop))
    timer = threading.Timer(1.5, stop.set)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        connection.run(["sh", "-c", STUBBORN.format(mark="98.7607")], stdin=stdin)
    assert gone("98.7607")
    connection.close()


@pytest.mark.parametrize("stdin", [b"", b"input"])
@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_what_runs_on_a_host_ends_with_us(server: Server, signal_: signal.Signals, stdin: bytes) -> None:
    up = server.home / "up"
    script = f"touch {up}; {STUBBORN.format(mark='98.7608')}"
    program = (
        "from triage.hosts import open_connection\n"
        f"open_connection('box').run(['sh', '-c', {script!r}], stdin={stdin!r}, timeout=300)"
    )
    us = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    deadline = time.monotonic() + 30
    while not up.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert up.exists()
    os.kill(us.pid, signal_)
    us.wait(10)
    assert gone("98.7608")


def test_a_command_that_ends_leaves_nothing_behind(connection: Connection) -> None:
    assert connection.run(["true", "98.7609"]).code == 0
    assert not running("98.7609")


def test_the_byte_limit_keeps_exactly_so_much_and_ends_the_remote_process(connection: Connection) -> None:
    output = connection.run(["sh", "-c", "yes; : 98.7603"], limit=MEGABYTE)
    assert (output.code, output.cut, len(output.stdout)) == (None, "bytes", MEGABYTE)
    assert gone("98.7603")


@pytest.mark.parametrize("stdin", [b"", b"input"])
@pytest.mark.parametrize("outputs", ["", ">/dev/null 2>&1"])
def test_what_a_command_has_left_behind_ends_with_it(
    connection: Connection, outputs: str, stdin: bytes
) -> None:
    script = f"(trap '' TERM; sleep 20.5501) {outputs} & echo done"
    output = connection.run(["sh", "-c", script], timeout=15, stdin=stdin)
    assert (output.code, output.stdout, output.cut) == (0, b"done\n", "")
    assert gone("20.5501", within=2)


def test_a_process_that_closes_its_outputs_is_waited_for(connection: Connection) -> None:
    assert connection.run(["sh", "-c", "exec >&- 2>&-; sleep 1; exit 5"]).code == 5


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a; touch pwned",
    "a\ntouch pwned\n",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a && touch pwned || touch pwned",
    "-n",
    "--",
    "",
    " ",
    "*",
    "~root",
    "$HOME",
    "${IFS}",
    "!!",
    "\\",
    "\\n",
    "%s%n",
    "ünïcödé 日本語 🙂",
    "\x1b[31mred\x07",
    "\u202eevil",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_arguments_arrive_as_they_are(connection: Connection, word: str) -> None:
    output = connection.run(["printf", "%s\\0", word, "last"])
    assert output.stdout.decode() == f"{word}\0last\0"


def test_no_hostile_argument_ran_anything(connection: Connection) -> None:
    for word in HOSTILE:
        connection.run(["test", "-e", word])
    assert connection.run(["sh", "-c", "ls pwned ~/pwned"]).code != 0


@settings(max_examples=many(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_any_arguments_arrive_as_they_are(connection: Connection, words: list[str]) -> None:
    output = connection.run(["printf", "%s\\0", *words, "end"])
    assert output.stdout.decode() == "".join(f"{word}\0" for word in [*words, "end"])


def test_a_nul_in_an_argument_is_refused(connection: Connection) -> None:
    with pytest.raises(UsageError, match="NUL"):
        connection.run(["echo", "a\0b"])


def test_a_file_with_a_hostile_name_can_be_read(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "$(touch x) 'it''s' \"q\"\nnewline"
    path.write_text("content")
    assert connection.run(["cat", "--", str(path)]).stdout == b"content"


def test_stream_yields_as_it_comes_and_says_when_nothing_does(connection: Connection) -> None:
    pieces = list(connection.stream(["sh", "-c", "echo a; sleep 2; echo b"], timeout=20))
    assert b"".join(pieces) == b"a\nb\n"
    assert b"" in pieces[pieces.index(b"a\n") : pieces.index(b"b\n")]


def test_closing_a_stream_ends_the_command(connection: Connection) -> None:
    stream = connection.stream(["sh", "-c", "echo up; sleep 98.7604"], timeout=500)
    assert next(piece for piece in stream if piece) == b"up\n"
    assert running("98.7604")
    stream.close()  # type: ignore[attr-defined]
    assert gone("98.7604")


def test_a_stream_ends_at_its_time_limit(connection: Connection) -> None:
    pieces = list(connection.stream(["sh", "-c", "echo up; sleep 98.7605"], timeout=1))
    assert b"".join(pieces) == b"up\n"
    assert gone("98.7605")


def test_a_stream_does_not_stop_on_much_standard_error(connection: Connection) -> None:
    script = f"head -c {8 * MEGABYTE} /dev/zero >&2; echo end"
    assert b"".join(connection.stream(["sh", "-c", script], timeout=30)) == b"end\n"


def test_one_connection_carries_many_commands(connection: Connection, server: Server) -> None:
    for number in range(20):
        assert connection.run(["echo", str(number)]).stdout == f"{number}\n".encode()
    accepted = (server.directory / "sshd.log").read_text().count("Accepted publickey")
    assert accepted == 1


def sessions(server: Server) -> list[int]:
    """The sshd processes that serve connections."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.process.pid)], capture_output=True)
    return [int(pid) for pid in listed.stdout.split()]


def test_a_dropped_connection_is_opened_again(connection: SshConnection, server: Server) -> None:
    for pid in sessions(server):
        os.kill(pid, signal.SIGKILL)
    while connection._line.transport.is_active():
        time.sleep(0.01)
    assert connection.run(["echo", "again"]).stdout == b"again\n"


@dataclass(frozen=True)
class Slow(Query[str]):
    """Writes down that it was asked, and answers after the time that `lasts` gives to the count."""

    name: ClassVar[str] = "slow"
    file: str
    lasts: int

    def argv(self) -> tuple[str, ...]:
        script = 'echo asked >>"$1"; [ "$(wc -l <"$1")" -gt "$2" ] || sleep 30; echo answer'
        return ("sh", "-c", script, "sh", self.file, str(self.lasts))

    def parse(self, text: str) -> str:
        return text.strip()


@pytest.mark.parametrize("losses", [1, 2])
def test_a_question_that_the_connection_was_lost_under_is_asked_once_more(
    connection: Connection, server: Server, tmp_path: Path, losses: int
) -> None:
    asked = tmp_path / "asked"

    def lose() -> None:
        for count in range(1, losses + 1):
            while not asked.exists() or asked.read_text().count("asked") < count:
                time.sleep(0.02)
            for pid in sessions(server):
                os.kill(pid, signal.SIGKILL)

    losing = threading.Thread(target=lose)
    losing.start()
    query = Slow(str(asked), losses)
    if losses == 1:
        assert LiveEvidence(connection).ask(query).value == "answer"
    else:
        with pytest.raises(UnreachableError, match="the connection ended before"):
            LiveEvidence(connection).ask(query)
    losing.join()
    assert asked.read_text().count("asked") == 2
    with pytest.raises(LostError):  # a command of any other kind is not repeated
        lose_under(connection, server)


def lose_under(connection: Connection, server: Server) -> None:
    def lose() -> None:
        for pid in sessions(server):
            os.kill(pid, signal.SIGKILL)

    threading.Timer(1.0, lose).start()
    connection.run(["sleep", "20"])


def test_a_server_that_dies_under_a_command_is_an_error_not_a_hang(
    connection: Connection, server: Server
) -> None:
    stream = connection.stream(["cat", "/dev/zero"], timeout=60)
    next(piece for piece in stream if piece)
    serving = sessions(server)
    server.stop()
    for pid in serving:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(UnreachableError):
        for _ in stream:
            pass
    with pytest.raises(UnreachableError, match="connecting to"):
        connection.run(["true"])


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_way_on(server: Server) -> None:
    server.known_hosts.unlink()
    with pytest.raises(RefusedError) as caught:
        open_connection("box")
    assert fingerprint(server.directory / "host_key.pub") in caught.value.happened
    assert "--host-key accept-new" in caught.value.next
    assert not server.known_hosts.exists()


def test_accept_new_adds_the_key_and_says_so(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.known_hosts.write_text("# a comment without a newline at its end")
    with caplog.at_level(logging.WARNING):
        open_connection("box", ConnectionOptions(host_key="accept-new")).close()
    assert fingerprint(server.directory / "host_key.pub") in caplog.text
    assert server.known_hosts.read_text().startswith("# a comment without a newline at its end\n[127.0.0.1]")
    open_connection("box").close()  # known from now on


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_changed_key_is_refused_with_both_fingerprints(server: Server, policy: str, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other")
    words = (tmp_path / "other.pub").read_text().split()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {words[0]} {words[1]}\n")
    before = server.known_hosts.read_bytes()
    with pytest.raises(RefusedError) as caught:
        open_connection("box", ConnectionOptions(host_key=policy))  # type: ignore[arg-type]
    assert fingerprint(other.with_suffix(".pub")) in caught.value.happened
    assert fingerprint(server.directory / "host_key.pub") in caught.value.happened
    assert "ssh-keygen" in caught.value.next
    assert server.known_hosts.read_bytes() == before


def test_a_key_of_another_type_than_the_known_one_is_a_change_too(server: Server, tmp_path: Path) -> None:
    keygen(tmp_path / "other", "ecdsa")
    words = (tmp_path / "other.pub").read_text().split()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {words[0]} {words[1]}\n")
    with pytest.raises(RefusedError, match="CHANGED"):
        open_connection("box", ConnectionOptions(host_key="accept-new"))


def test_strict_host_key_checking_no_does_not_weaken_us(server: Server) -> None:
    server.known_hosts.unlink()
    server.alias("StrictHostKeyChecking no", "UserKnownHostsFile /dev/null")
    with pytest.raises(RefusedError, match="not known"):
        open_connection("box")


def test_a_revoked_key_is_refused(server: Server) -> None:
    line = server.known_hosts.read_text()
    server.known_hosts.write_text(line + f"@revoked * {' '.join(line.split()[1:])}\n")
    with pytest.raises(RefusedError, match="revoked"):
        open_connection("box")


@pytest.mark.parametrize("form", ["lines", "list"])
def test_revoked_host_keys(server: Server, tmp_path: Path, form: str) -> None:
    keygen(tmp_path / "other")
    revoked = server.home / "revoked"
    server.alias("RevokedHostKeys ~/revoked")

    def revoke(*keys: Path) -> None:
        revoked.write_text("# gone\n" + "".join(key.read_text() for key in keys))
        if form == "list":
            subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(revoked), *map(str, keys)], check=True)

    revoke(tmp_path / "other.pub")
    open_connection("box").close()
    revoke(tmp_path / "other.pub", server.directory / "host_key.pub")
    with pytest.raises(RefusedError, match="revoked by"):
        open_connection("box", ConnectionOptions(host_key="accept-new"))
    if form == "list":
        revoked.write_bytes(revoked.read_bytes()[:40])
    else:
        revoked.unlink()
    with pytest.raises(RefusedError, match="cannot be told"):
        open_connection("box")


def test_names_are_hashed_where_the_configuration_says_so(server: Server) -> None:
    server.known_hosts.unlink()
    server.alias("HashKnownHosts yes")
    open_connection("box", ConnectionOptions(host_key="accept-new")).close()
    assert server.known_hosts.read_text().startswith("|1|")
    open_connection("box").close()
    name = f"[127.0.0.1]:{server.port}"
    found = subprocess.run(["ssh-keygen", "-F", name, "-f", str(server.known_hosts)], check=False)
    assert found.returncode == 0


def test_hashed_known_hosts_are_understood(server: Server) -> None:
    subprocess.run(["ssh-keygen", "-H", "-f", str(server.known_hosts)], check=True, capture_output=True)
    assert "127.0.0.1" not in server.known_hosts.read_text()
    open_connection("box").close()


def test_host_key_alias_is_what_known_hosts_is_asked_for(server: Server) -> None:
    words = server.known_hosts.read_text().split()
    server.known_hosts.write_text(f"fleet-node {words[1]} {words[2]}\n")
    server.alias("HostKeyAlias fleet-node")
    open_connection("box").close()


def test_a_key_that_is_known_by_the_name_without_the_port(server: Server, tmp_path: Path) -> None:
    line = server.known_hosts.read_text().replace(f"[127.0.0.1]:{server.port}", "127.0.0.1")
    server.known_hosts.write_text(line)
    open_connection("box").close()
    server.known_hosts.write_text(f"@revoked {line}{line}")
    with pytest.raises(RefusedError, match="revoked"):
        open_connection("box")
    keygen(tmp_path / "other")
    words = (tmp_path / "other.pub").read_text().split()
    server.known_hosts.write_text(f"{line}[127.0.0.1]:{server.port} {words[0]} {words[1]}\n")
    with pytest.raises(RefusedError, match="CHANGED"):
        open_connection("box")


def test_a_command_that_tells_host_keys(server: Server, tmp_path: Path) -> None:
    line, ran = server.known_hosts.read_text(), tmp_path / "ran"
    server.known_hosts.unlink()
    script = tmp_path / "keys"
    script.write_text(
        f"#!/bin/sh\necho \"$@\" >>{ran}\n[ \"$2\" = '[127.0.0.1]:{server.port}' ] && echo '{line}'\n"
    )
    script.chmod(0o755)
    server.alias(f"KnownHostsCommand {script} %I %H '%h %p'", "UserKnownHostsFile none")
    open_connection("box").close()
    assert ran.read_text() == f"ORDER [127.0.0.1]:{server.port} 127.0.0.1 {server.port}\n"
    script.write_text("#!/bin/sh\necho no directory today >&2; exit 3\n")
    server.alias(f"KnownHostsCommand {script} %H", "UserKnownHostsFile none")
    with pytest.raises(UnreachableError, match="KnownHostsCommand ended with 3: no directory today"):
        open_connection("box")


def test_known_hosts_with_several_key_types_takes_the_one_the_host_has(
    server: Server, tmp_path: Path
) -> None:
    keygen(tmp_path / "other", "ecdsa")
    words = (tmp_path / "other.pub").read_text().split()
    server.known_hosts.write_text(
        f"[127.0.0.1]:{server.port} {words[0]} {words[1]}\n" + server.known_hosts.read_text()
    )
    open_connection("box").close()


def test_a_key_that_the_host_does_not_take(server: Server) -> None:
    keygen(server.home / ".ssh" / "id_ed25519")
    with pytest.raises(UnreachableError) as caught:
        open_connection("box")
    assert "authentication failed" in caught.value.happened
    assert "id_ed25519: refused" in caught.value.happened
    assert caught.value.next.startswith("ssh -v")
    assert caught.value.exit_code == 3


def test_a_host_that_takes_few_keys(server: Server, tmp_path: Path) -> None:
    server.stop()
    strict = start_sshd(server.directory, server.home, "MaxAuthTries 1")
    strict.trust()
    strict.alias(f"IdentityFile {keygen(tmp_path / 'wrong')}", "IdentityFile ~/.ssh/id_ed25519")
    try:
        with pytest.raises(UnreachableError, match="name the right one with IdentityFile and IdentitiesOnly"):
            open_connection("box")
    finally:
        strict.stop()


def test_a_key_with_a_passphrase_says_what_to_do(server: Server) -> None:
    keygen(server.home / ".ssh" / "id_ed25519", passphrase="secret words")
    with pytest.raises(UnreachableError, match="passphrase; run ssh-add"):
        open_connection("box")


def test_no_key_at_all(server: Server) -> None:
    for path in (server.home / ".ssh").glob("id_ed25519*"):
        path.unlink()
    with pytest.raises(UnreachableError, match="no key to offer"):
        open_connection("box")


def test_identity_file_of_the_configuration_is_used(server: Server) -> None:
    (server.home / ".ssh" / "id_ed25519").rename(server.home / ".ssh" / "work")
    server.alias("IdentityFile ~/.ssh/work", "IdentitiesOnly yes")
    open_connection("box").close()


@pytest.fixture
def agent(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent that holds the client's key, whose private half is then taken away."""
    path = server.home / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    key = server.home / ".ssh" / "id_ed25519"
    subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=30)
    key.unlink()
    yield
    process.terminate()
    process.wait(10)


@pytest.mark.usefixtures("agent")
def test_a_key_from_the_agent(server: Server) -> None:
    open_connection("box").close()


@pytest.mark.usefixtures("agent")
def test_identities_only_keeps_the_agents_other_keys_back(server: Server) -> None:
    keygen(server.home / ".ssh" / "other")
    server.alias("IdentityFile ~/.ssh/other", "IdentitiesOnly yes")
    with pytest.raises(UnreachableError) as caught:
        open_connection("box")
    assert "agent" not in caught.value.happened


@pytest.mark.usefixtures("agent")
def test_identities_only_uses_the_agent_for_the_key_it_names(server: Server) -> None:
    server.alias("IdentityFile ~/.ssh/id_ed25519", "IdentitiesOnly yes")  # only its .pub is there
    open_connection("box").close()


@pytest.mark.usefixtures("agent")
def test_the_agent_that_the_configuration_names(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK")
    server.alias(f"IdentityAgent {server.home}/agent")
    open_connection("box").close()


@pytest.mark.usefixtures("agent")
def test_an_identity_file_may_be_the_public_half_of_a_key_in_the_agent(server: Server) -> None:
    server.alias("IdentityFile ~/.ssh/id_ed25519.pub", "IdentitiesOnly yes")
    open_connection("box").close()
    server.alias("IdentityFile ~/.ssh/id_ed25519.pub", "IdentitiesOnly yes", "IdentityAgent none")
    with pytest.raises(UnreachableError, match="a public key, whose private half is in no agent"):
        open_connection("box")


@pytest.mark.usefixtures("agent")
def test_a_key_with_a_passphrase_that_is_in_the_agent(server: Server) -> None:
    ssh = server.home / ".ssh"
    key = keygen(ssh / "locked")
    subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=30)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "sesame", "-f", str(key)], check=True, timeout=60)
    (server.directory / "authorized_keys").write_bytes((ssh / "locked.pub").read_bytes())
    (ssh / "locked.pub").unlink()
    server.alias("IdentityFile ~/.ssh/locked", "IdentitiesOnly yes")
    open_connection("box").close()


def test_the_agents_keys_that_are_configured_come_first(agent: None, server: Server) -> None:
    """sshd hangs up after six: with many keys in the agent the right one would never be tried."""
    ssh = server.home / ".ssh"
    for number in range(8):
        key = keygen(ssh / f"other{number}")
        subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=30)
    right = keygen(ssh / "right")
    subprocess.run(["ssh-add", "-q", str(right)], check=True, timeout=30)
    (server.directory / "authorized_keys").write_bytes((ssh / "right.pub").read_bytes())
    server.alias("IdentityFile ~/.ssh/right")
    open_connection("box").close()


@pytest.fixture
def certified(server: Server, tmp_path: Path) -> Iterator[Server]:
    """A server that takes no key, only certificates of an authority."""
    server.stop()
    keygen(tmp_path / "authority")
    (server.directory / "authorized_keys").unlink()
    started = start_sshd(server.directory, server.home, f"TrustedUserCAKeys {tmp_path}/authority.pub")
    started.trust()
    started.alias()
    yield started
    started.stop()


def certify(public: Path, authority: Path, to: Path, principal: str) -> None:
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", principal, str(public)]
    subprocess.run(sign, check=True, timeout=60)
    public.with_name(f"{public.stem}-cert.pub").rename(to)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_certificates(certified: Server, tmp_path: Path, kind: str) -> None:
    ssh, me = certified.home / ".ssh", getpass.getuser()
    own, other = keygen(ssh / "own", kind), keygen(ssh / "other", kind)
    certify(ssh / "own.pub", tmp_path / "authority", ssh / "wrong", "somebody")
    certify(ssh / "own.pub", tmp_path / "authority", ssh / "right", me)
    certify(ssh / "other.pub", tmp_path / "authority", ssh / "another", me)
    key = f"IdentityFile {own}"
    certified.alias(key, f"CertificateFile {ssh}/another", "IdentitiesOnly yes")
    with pytest.raises(UnreachableError, match="own: refused"):
        open_connection("box")
    certified.alias(
        key, *(f"CertificateFile {ssh}/{name}" for name in ("none-such", "another", "wrong", "right"))
    )
    open_connection("box").close()
    (ssh / "right").rename(ssh / "own-cert.pub")  # beside the key it need not be named
    certified.alias(key)
    open_connection("box").close()
    assert other.exists()


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_certificate_of_a_key_in_the_agent(
    agent: None, certified: Server, tmp_path: Path, kind: str
) -> None:
    ssh = certified.home / ".ssh"
    key = keygen(ssh / "own", kind)
    certify(ssh / "own.pub", tmp_path / "authority", ssh / "certificate", getpass.getuser())
    subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=30)
    key.unlink()
    certified.alias("IdentityFile ~/.ssh/own.pub", "IdentitiesOnly yes", "CertificateFile ~/.ssh/certificate")
    open_connection("box").close()


def test_a_certificate_of_another_key_does_not_spoil_the_right_one(server: Server, tmp_path: Path) -> None:
    ssh = server.home / ".ssh"
    keygen(tmp_path / "authority")
    keygen(ssh / "other")
    certify(ssh / "other.pub", tmp_path / "authority", ssh / "another", getpass.getuser())
    server.alias("IdentityFile ~/.ssh/id_ed25519", "CertificateFile ~/.ssh/another")
    open_connection("box").close()


def test_an_agent_that_does_not_answer_is_left_alone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(server.home / "silent"))
        silent.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(server.home / "silent"))
        open_connection("box").close()


def test_an_unknown_host_name(server: Server) -> None:
    with pytest.raises(UnreachableError, match="no such host name") as caught:
        open_connection("no-such-host.invalid")
    assert caught.value.exit_code == 3
    assert caught.value.next


def test_a_refused_connection(server: Server) -> None:
    with pytest.raises(UnreachableError, match="refused") as caught:
        open_connection(f"127.0.0.1:{free_port()}")
    assert caught.value.next.startswith("ssh -v")


def test_a_port_that_accepts_and_says_nothing_is_a_time_out(server: Server) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        name = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=r"banner|no answer"):
            open_connection(name, ConnectionOptions(connect_timeout=1))


def test_a_port_that_speaks_something_else(server: Server) -> None:
    command = "printf 'HTTP/1.1 400 Bad Request\\r\\n\\r\\n'; cat"
    server.alias(f"ProxyCommand {command}")
    with pytest.raises(UnreachableError, match="connecting to"):
        open_connection("box", ConnectionOptions(connect_timeout=3))


def test_a_proxy_command(server: Server, tmp_path: Path) -> None:
    relay = (
        "import socket,sys,threading,os\n"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "def up():\n"
        "    while d:=os.read(0,65536): s.sendall(d)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while d:=s.recv(65536): os.write(1,d)\n"
    )
    script = tmp_path / "relay.py"
    script.write_text(relay)
    server.alias(f"ProxyCommand python3 {shlex.quote(str(script))} %h %p 2>/dev/null")
    opened = open_connection("box")
    assert opened.run(["echo", "through"]).stdout == b"through\n"
    opened.close()
    assert gone(str(script))


def test_a_proxy_command_that_hands_over_its_connection(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "pass.py"
    script.write_text(
        "import socket, sys\n"
        "made = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "socket.send_fds(socket.socket(fileno=1), [b'\\0'], [made.fileno()])\n"
    )
    server.alias(f"ProxyCommand python3 {shlex.quote(str(script))} %h %p", "ProxyUseFdpass yes")
    opened = open_connection("box")
    assert opened.run(["echo", "through"]).stdout == b"through\n"
    opened.close()
    server.alias("ProxyCommand sh -c 'echo no route today >&2; exit 1'", "ProxyUseFdpass yes")
    with pytest.raises(UnreachableError, match=r"handed over no connection .*no route today"):
        open_connection("box")


def test_our_own_address_and_the_family_of_addresses(server: Server) -> None:
    server.alias("BindAddress 127.0.0.9")
    open_connection("box").close()
    assert "from 127.0.0.9 port" in (server.directory / "sshd.log").read_text()
    known = server.known_hosts.read_text().replace("127.0.0.1", "localhost")
    server.known_hosts.write_text(known)
    config = f"Host box\n  HostName localhost\n  Port {server.port}\n  AddressFamily "
    server.config.write_text(f"{config} inet\n")
    open_connection("box").close()
    server.config.write_text(f"{config} inet6\n")
    with pytest.raises(UnreachableError, match="connecting to"):
        open_connection("box")


def test_a_proxy_command_that_fails_is_quoted(server: Server) -> None:
    server.alias("ProxyCommand sh -c 'echo no route today >&2; exit 1'")
    with pytest.raises(UnreachableError, match="no route today"):
        open_connection("box")


def test_a_jump_host(server: Server) -> None:
    server.config.write_text(
        f"Host jump\n  HostName 127.0.0.1\n  Port {server.port}\n"
        f"Host box\n  HostName 127.0.0.1\n  Port {server.port}\n  ProxyJump jump\n"
    )
    opened = open_connection("box")
    assert opened.run(["echo", "through"]).stdout == b"through\n"
    opened.close()
    accepted = (server.directory / "sshd.log").read_text().count("Accepted publickey")
    assert accepted == 2


def test_a_jump_host_that_an_argument_names(server: Server) -> None:
    server.config.write_text(f"Host jump box\n  HostName 127.0.0.1\n  Port {server.port}\n")
    options = ConnectionOptions(ssh_arguments=("-o", "ProxyJump=jump", "-oConnectTimeout=7"))
    opened = open_connection("box", options)
    assert opened.run(["echo", "through"]).stdout == b"through\n"
    opened.close()
    assert (server.directory / "sshd.log").read_text().count("Accepted publickey") == 2


def test_many_come_through_a_jump_host_that_lets_few_wait_at_its_door(server: Server) -> None:
    server.stop()
    jump = start_sshd(server.directory, server.home, "MaxStartups 8:100:8")
    words = (server.directory / "host_key.pub").read_text().split()
    server.known_hosts.write_text(f"[127.0.0.1]:{jump.port} {words[0]} {words[1]}\n")
    server.config.write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {jump.port}\nHost box*\n  ProxyJump jump\n"
    )
    try:
        with ThreadPoolExecutor(24) as pool:
            opened = list(pool.map(open_connection, [f"box{number}" for number in range(24)]))
        assert {each.run(["echo", "in"]).stdout for each in opened} == {b"in\n"}
        for each in opened:
            each.close()
    finally:
        jump.stop()


def test_a_jump_that_leads_to_itself(server: Server) -> None:
    server.alias("ProxyJump box")
    with pytest.raises(UsageError, match="too many jumps"):
        open_connection("box")


@pytest.fixture
def forced(server: Server, tmp_path: Path) -> Iterator[Callable[[str], Connection]]:
    """A connection to an account that runs this instead of what is asked for."""
    server.stop()
    directory = tmp_path / "forced"
    directory.mkdir()
    for name in ("host_key", "host_key.pub", "authorized_keys"):
        (directory / name).write_bytes((server.directory / name).read_bytes())
    (directory / "host_key").chmod(0o600)
    with contextlib.ExitStack() as stack:

        def connect(command: str) -> Connection:
            started = start_sshd(directory, server.home, f"ForceCommand {command}")
            stack.callback(started.stop)
            started.trust()
            started.alias()
            return stack.enter_context(closing(open_connection("box")))

        yield connect


@pytest.mark.parametrize("code", [0, 1])
def test_an_account_whose_shell_does_not_run_commands(forced: Callable[[str], Connection], code: int) -> None:
    connection = forced(f"echo This account is not available; exit {code}")
    with pytest.raises(UnreachableError, match="This account is not available"):
        connection.run(["true"])


NOISE = 'printf "Welcome!\\n\\nlast line without an end"; echo "insufficient permissions" >&2; '


@pytest.mark.parametrize("shell", ["bash", "dash", "tcsh", "fish"])
def test_any_login_shell_and_what_its_start_up_files_print(
    forced: Callable[[str], Connection], shell: str
) -> None:
    """As a .bashrc does that greets. A C shell sees `!` in quotes, too, and fish a backslash."""
    if shutil.which(shell) is None:
        refuse = pytest.fail if os.environ.get("TRIAGE_REQUIRE_E2E") == "1" else pytest.skip
        refuse(f"{shell} not found: apt-get install {shell}")
    connection = forced(f'{NOISE} exec {shell} -c "$SSH_ORIGINAL_COMMAND"')
    told = connection.run(["sh", "-c", "cat; echo own >&2; exit 3"], stdin=b"\ntriage: pid 7 timeout\nanswer")
    assert (told.code, told.stdout, told.stderr) == (3, b"\ntriage: pid 7 timeout\nanswer", b"own\n")
    assert b"".join(connection.stream(["printf", "a b"], timeout=10)) == b"a b"
    assert connection.run(["head", "-c", "70000", "/dev/zero"], limit=69_999).stdout == bytes(69_999)
    words = [
        "",
        "a b",
        "$HOME",
        "it's",
        "\\",
        "\\\\",
        "a!b",
        "!",
        "`id`",
        "{a,b}",
        '"q"',
        "*",
        "~",
        "\\n",
        "\\'",
    ]
    assert connection.run(["printf", "%s|", *words]).stdout.decode().split("|") == [*words, ""]


def test_an_account_whose_environment_makes_tools_speak_otherwise(
    forced: Callable[[str], Connection],
) -> None:
    connection = forced('export POSIXLY_CORRECT=1 GREP_OPTIONS=-v; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    told = connection.run(["sh", "-c", "echo ${POSIXLY_CORRECT-unset} ${GREP_OPTIONS-unset}"])
    assert told.stdout == b"unset unset\n"


def test_start_up_files_that_wait(forced: Callable[[str], Connection], tmp_path: Path) -> None:
    connection = forced("printf 'Continue? '; cat >/dev/null")
    with pytest.raises(UnreachableError, match=r"Continue\?, nothing within 1 s"):
        connection.run(["true"], timeout=1)


def test_a_host_that_becomes_slow_is_none_whose_start_up_files_wait(
    forced: Callable[[str], Connection], tmp_path: Path
) -> None:
    once = shlex.quote(str(tmp_path / "once"))
    connection = forced(f'mkdir {once} 2>/dev/null || exec sleep 60; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    assert connection.run(["echo", "a"]).stdout == b"a\n"
    assert connection.run(["echo", "b"], timeout=1).cut == "time"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_start_up_files_that_take_the_output_away(forced: Callable[[str], Connection], stream: str) -> None:
    connection = forced(f'exec {stream}>/dev/null; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    with pytest.raises(UnreachableError, match="login shell does not run them: exit status 0") as caught:
        connection.run(["sh", "-c", "echo answer; echo answer >&2"])
    assert "answer" not in str(caught.value)


def test_start_up_files_that_print_without_end(forced: Callable[[str], Connection]) -> None:
    connection = forced("yes")
    told = connection.run(["id", "-u"], limit=100)
    assert (told.code, told.stdout, told.cut) == (None, b"", "bytes")
    tracemalloc.start()
    assert b"".join(connection.stream(["id", "-u"], timeout=2)) == b""
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def fingerprint(public_key: Path) -> str:
    out = subprocess.run(["ssh-keygen", "-lf", str(public_key)], check=True, capture_output=True).stdout
    return out.split()[1].decode()


def test_a_passphrase_is_asked_for_where_a_person_can_be(server: Server) -> None:
    path = server.home / ".ssh" / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "open sesame", "-f", str(path)], check=True, timeout=60)
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "open sesame"

    connection = open_connection("box", server.options(ask=ask))
    connection.close()
    assert asked == [f"Passphrase of {path}: "]
    for answer in ("wrong", None):
        with pytest.raises(UnreachableError, match=r"id_ed25519: ") as caught:
            open_connection("box", server.options(ask=lambda prompt, answer=answer: answer))
        assert "sesame" not in str(caught.value)
    server.alias("BatchMode yes")
    with pytest.raises(UnreachableError, match="it has a passphrase; run ssh-add"):
        open_connection("box", server.options(ask=ask))
    assert len(asked) == 1
