"""Establishes the transport to a host: socket, proxy command or jumps, then host key check and log-in."""

from __future__ import annotations

import contextlib
import logging
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import BoundedSemaphore, Event

import paramiko

from triage.common.errors import UnreachableError, UsageError
from triage.hosts.options import ConnectionOptions
from triage.hosts.options import check as check_stop
from triage.hosts.ssh.auth import authenticate
from triage.hosts.ssh.config import SshTarget, resolve
from triage.hosts.ssh.host_keys import authorities, check, expected_keys
from triage.hosts.ssh.public_keys import CERTIFICATE, KnownHostKey

MAX_JUMPS = 8
# connections being opened at a time through one sshd; of more than 10 it turns some away (MaxStartups)
HANDSHAKES = 6
TICK = 0.5  # longest wait in seconds before `stop` is checked
AUTH_TIMEOUT = 60.0  # seconds for one key, because somebody may have to touch it
# algorithms by which a known key type may be negotiated
KEY_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}

FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}

_doors: dict[tuple[str, int], BoundedSemaphore] = {}

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its messages reach us as exceptions


@dataclass(frozen=True)
class Route:
    """An authenticated transport. `close` ends it and everything that it runs through."""

    transport: paramiko.Transport
    close: Callable[[], None]


def dial(target: SshTarget, options: ConnectionOptions, via: Route | None = None, depth: int = 0) -> Route:
    """Connect, check the host key, and log in. Takes ownership of `via`.

    Raises UnreachableError or RefusedError, after closing everything.
    """
    if depth > MAX_JUMPS:
        raise UsageError(
            "connecting to",
            target.alias,
            "too many jumps; does a ProxyJump lead back to itself?",
            f"ssh -G {shlex.quote(target.alias)} | grep -i proxyjump",
        )
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as entering:
        if via is not None:
            stack.callback(via.close)
        else:
            of_jumps = replace(options, address="", user="", port=0, identity_file=None, ssh_arguments=())
            for jump in target.jumps:
                via = dial(resolve(jump, of_jumps), of_jumps, via, depth + 1)
                stack.pop_all()
                stack.callback(via.close)
        entering.enter_context(_at_the_door(target, options.stop))
        complaints = stack.enter_context(tempfile.TemporaryFile())
        try:
            carrier: socket.socket | paramiko.Channel
            if via is not None:
                where, here = (target.hostname, target.port), ("127.0.0.1", 0)
                carrier = via.transport.open_channel(
                    "direct-tcpip", where, here, timeout=target.connect_timeout
                )
            elif target.proxy_command:
                carrier, process = _run_proxy(target.proxy_command, complaints.fileno())
                stack.callback(_end_proxy, process)
                if target.passes_socket:
                    carrier = _passed(carrier, target.connect_timeout)
            else:
                carrier = _connected(target)
                carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # commands are small packets
            stack.callback(carrier.close)
            transport = paramiko.Transport(carrier)
            stack.callback(transport.close)
            _negotiate(transport, target)
        except (paramiko.SSHException, OSError, EOFError, UnicodeError) as error:
            complaints.seek(0)
            said = complaints.read(2000).decode("utf-8", "replace").strip()
            raise _unreachable(target, error, said) from None
        shown = transport.get_remote_server_key()
        certificate = shown.public_blob.key_blob if shown.public_blob else b""
        check(target, KnownHostKey(shown.get_name(), shown.get_base64()), options.host_key, certificate)
        authenticate(transport, target, options.ask)
        if target.keepalive > 0:
            transport.set_keepalive(target.keepalive)
        return Route(transport, stack.pop_all().close)


@contextlib.contextmanager
def _at_the_door(target: SshTarget, stop: Event | None) -> Iterator[None]:
    """Wait while too many of our connections are being opened through the same sshd."""
    door = _doors.setdefault((target.hostname, target.port), BoundedSemaphore(HANDSHAKES))
    while not door.acquire(timeout=TICK):
        check_stop(stop)
    try:
        yield
    finally:
        door.release()


def _negotiate(transport: paramiko.Transport, target: SshTarget) -> None:
    """Exchange keys. Asks for a certificate if one would count, else for a key of a known type."""
    transport.banner_timeout = target.connect_timeout
    transport.auth_timeout = AUTH_TIMEOUT
    transport.use_compression(target.compression)
    security = transport.get_security_options()
    known = [name for key in expected_keys(target) for name in KEY_ALGORITHMS.get(key.type, (key.type,))]
    plain = sorted(security.key_types, key=lambda name: name not in known)
    certified = [f"{name}{CERTIFICATE}" for name in plain] if authorities(target) else []
    security.key_types = [*certified, *plain]
    transport.start_client(timeout=target.connect_timeout)
    if not transport.is_active() or not transport.initial_kex_done:
        raise TimeoutError("no key exchange")


def _connected(target: SshTarget) -> socket.socket:
    """Return a socket to the first address of the host that answers. Raises OSError."""
    family, ours = FAMILIES.get(target.family, socket.AF_UNSPEC), (target.bind_address, 0)
    found = socket.getaddrinfo(target.hostname, target.port, family, socket.SOCK_STREAM)
    error: OSError | None = None
    for family, _, _, _, address in found:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(target.connect_timeout)
            if target.bind_address:
                connection.bind(ours)
            connection.connect(address)
            return connection
        except OSError as failed:
            connection.close()
            error = failed
    raise error or OSError("it has no address")


def _passed(carrier: socket.socket, patience: float) -> socket.socket:
    """Return the socket that a proxy command hands over (ProxyUseFdpass)."""
    with carrier:
        carrier.settimeout(patience)
        _, passed, _, _ = socket.recv_fds(carrier, 1, 1)
    if not passed:
        raise OSError("the proxy command handed over no connection")
    return socket.socket(fileno=passed[0])


def _run_proxy(command: str, complaints: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a ProxyCommand as OpenSSH does, `exec`ed by a shell, with a socket for both its streams."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=complaints,
            start_new_session=True,
        )
    return ours, process


def _end_proxy(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unreachable(target: SshTarget, error: Exception, said: str) -> UnreachableError:
    probe = f"ssh -v -p {target.port} {target.user}@{target.hostname} true"
    if isinstance(error, (socket.gaierror, UnicodeError)):
        happened, next_ = (
            f"no such host name: {target.hostname}",
            "check the spelling, or add it to ~/.ssh/config",
        )
    elif isinstance(error, TimeoutError):
        happened, next_ = f"no answer within {target.connect_timeout:g} s", probe
    elif isinstance(error, ConnectionRefusedError):
        happened, next_ = "connection refused; is sshd running there, on that port?", probe
    else:
        happened, next_ = str(error) or type(error).__name__, probe
    if said:
        happened += f" (the proxy command said: {said.splitlines()[-1]})"
    return UnreachableError("connecting to", target.address, happened, next_)
