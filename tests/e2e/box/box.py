"""A Debian system of its own, booted in systemd-nspawn and reached over ssh."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from . import registry
from .errors import BoxError
from .registry import Entry
from .rootfs import rootfs

LAUNCH = Path(__file__).with_name("launch.sh")
BOOT = 60.0  # seconds; about 1 is needed
UNIFIED = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}  # systemd 258 and newer run on no other control groups
BOOTED = {"running", "degraded"}
UNPACK = "tar --extract --no-overwrite-dir --keep-directory-symlink --directory=/"

Content = str | bytes | Path  # text, bytes, or a file or tree on this machine


@dataclass(frozen=True)
class Bind:
    """A path of this machine that the box sees, at the same path unless `target` says another."""

    source: str | Path
    target: str | Path = ""
    writable: bool = False

    @property
    def argument(self) -> str:
        option = "--bind" if self.writable else "--bind-ro"
        return f"{option}={_escape(self.source)}:{_escape(self.target or self.source)}"


@dataclass(frozen=True)
class Overlay:
    """A tree of this machine that the box sees and may write; what it writes ends with it."""

    lower: str | Path
    target: str | Path = ""


def interpreter() -> list[Bind]:
    """The running Python, virtual environment and base, so that the box can run it without a copy.

    A base of the system itself (/usr) is left out: the box has the same one.
    """
    base = Path(sys.executable).resolve().parent.parent
    prefixes = dict.fromkeys([Path(sys.prefix), Path(sys.base_prefix), base])
    return [Bind(prefix) for prefix in prefixes if prefix != Path("/usr")]


class Box:
    """A box on its own loopback address; as a context manager it boots on entry and is gone on exit.

    `name` is its host name and its ssh alias. `address` is one of 127.0.1.1 to 127.0.1.254, by default the
    first that is free. `files` are put in place before it boots, as `put` does it. `suite` is Debian's, by
    default this machine's own. It has the users root, `ops` (sudo without a password) and `engineer` (none,
    but may read the journal); one key opens all three.
    A `kept` box outlives this process. Whatever it writes is held in memory and ends with it. `capabilities`
    are further ones: CAP_NET_ADMIN, which is one over this machine's network.
    """

    def __init__(
        self,
        name: str = "box",
        *,
        address: str | None = None,
        binds: Iterable[str | Path | Bind] = (),
        overlays: Iterable[str | Path | Overlay] = (),
        files: Mapping[str, Content] | None = None,
        kept: bool = False,
        suite: str = "",
        capabilities: str = "",
    ) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
            raise BoxError(f"{name!r} is no host name")
        self.name = name
        self._wanted = address
        self._overlays = [Overlay(o) if isinstance(o, str | Path) else o for o in overlays]
        self._binds = [Bind(b) if isinstance(b, str | Path) else b for b in binds]
        self._files = dict(files or {})
        self._kept = kept
        self._suite = suite
        self._capabilities = capabilities
        self._entry: Entry | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Box:
        """Boot it, and come back when systemd says that it is up. Raises BoxError with its last words."""
        base = rootfs(self._suite)
        self._entry = registry.claim(self.name, self._wanted, kept=self._kept)
        try:
            self._prepare(self._entry)
            self._launch(self._entry, base)
            self._wait_booted()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Shut it down and leave nothing behind. Does nothing when it does not run."""
        entry, self._entry = self._entry, None
        process, self._process = self._process, None
        try:
            if entry:
                registry.stop(entry)
        finally:
            if process:
                process.kill()
                process.wait()

    def __enter__(self) -> Box:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def entry(self) -> Entry:
        if self._entry is None:
            raise BoxError(f"box {self.name} does not run")
        return self._entry

    @property
    def address(self) -> str:
        return self.entry.address

    @property
    def port(self) -> int:
        """Where its sshd listens: 22, or 2222 where this machine's own sshd has 22 on every address."""
        return self.entry.port

    @property
    def pid(self) -> int:
        """Its systemd, as this machine numbers it."""
        nspawn = self.entry.nspawn
        init = nspawn.child() if nspawn else None
        if init is None:
            raise BoxError(f"box {self.name} has ended")
        return init.pid

    @property
    def directory(self) -> Path:
        """Its keys, ssh_config, known_hosts and console.log on this machine."""
        return self.entry.directory

    def ssh_config(self) -> Path:
        """An ssh_config that knows `name`: address, user root, key, and the box's host key as known."""
        return self.directory / "ssh_config"

    def run(
        self,
        command: str | Sequence[str],
        *,
        user: str = "root",
        stdin: str | bytes = b"",
        timeout: float = 60.0,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run an argv, or a line of shell, over ssh(1). Raises as `subprocess.run` does; 255 is ssh's own."""
        line = command if isinstance(command, str) else shlex.join(command)
        argv = ["ssh", "-F", str(self.ssh_config()), f"{user}@{self.name}", "--", line]
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(argv, input=data, capture_output=True, timeout=timeout)
        result = subprocess.CompletedProcess(
            argv, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if check and result.returncode != 0:
            raise BoxError(
                f"box {self.name}: {line!r} ended with {result.returncode}: {result.stderr.strip()}"
            )
        return result

    def put(self, target: str, content: Content) -> None:
        """Write one file or tree, owned by root; mode 0755 for a script (`#!`), else 0644 or its own."""
        self.run(UNPACK, stdin=pack({target: content}), check=True)

    def _prepare(self, entry: Entry) -> None:
        here = entry.directory
        (here / "layer").mkdir()
        for key in ("id_ed25519", "host_ed25519"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(here / key)],
                check=True,
            )
        host_key = " ".join((here / "host_ed25519.pub").read_text().split()[:2])
        known_as = entry.address if entry.port == 22 else f"[{entry.address}]:{entry.port}"
        (here / "known_hosts").write_text(f"{known_as} {host_key}\n")
        (here / "ssh_config").write_text(
            f"Host {self.name}\n"
            f"  HostName {entry.address}\n"
            f"  Port {entry.port}\n"
            "  User root\n"
            f"  IdentityFile {here}/id_ed25519\n"
            "  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {here}/known_hosts\n"
            "  GlobalKnownHostsFile none\n"
            "  StrictHostKeyChecking yes\n"
            "  BatchMode yes\n"
            "  LogLevel ERROR\n"
        )
        own: dict[str, Content] = {
            "/etc/hostname": f"{self.name}\n",
            "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{entry.address} {self.name}\n",
            "/etc/ssh/ssh_host_ed25519_key": here / "host_ed25519",
            "/etc/ssh/ssh_host_ed25519_key.pub": (here / "host_ed25519.pub").read_text(),
            "/etc/ssh/authorized_keys": (here / "id_ed25519.pub").read_text(),
            "/etc/ssh/sshd_config.d/box.conf": (
                f"ListenAddress {entry.address}:{entry.port}\n"
                "HostKey /etc/ssh/ssh_host_ed25519_key\n"
                "AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/authorized_keys\n"
            ),
        }
        (here / "files.tar").write_bytes(pack({**own, **self._files}))

    def _launch(self, entry: Entry, base: Path) -> None:
        for group in entry.cgroups:
            group.mkdir()
        binds = {str(bind.target or bind.source): bind for bind in self._binds}
        for number, overlay in enumerate(self._overlays):
            target = str(overlay.target or overlay.lower)
            binds[target] = Bind(entry.directory / "layer" / str(number) / "merged", target, writable=True)
        argv = [
            "unshare",
            "--mount",
            "--propagation=private",
            "sh",
            str(LAUNCH),
            str(entry.directory),
            str(base),
        ]
        argv += [*map(str, entry.cgroups), "--", *(str(overlay.lower) for overlay in self._overlays), "--"]
        # No system bus may be there to register with, and the group that we made is the unit to keep.
        argv += ["--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe", "--link-journal=no"]
        argv += ["--resolv-conf=off", "--timezone=off"]
        argv += [f"--machine=triage-box-{entry.address.replace('.', '-')}", f"--hostname={self.name}"]
        argv += [f"--capability={self._capabilities}"] if self._capabilities else []
        argv += [bind.argument for bind in binds.values()]
        with (entry.directory / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                env=os.environ | (UNIFIED if self._suite else {}),
            )

    def _wait_booted(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + BOOT
        said = ""
        while self._process.poll() is None and (left := deadline - time.monotonic()) > 0:
            try:
                answer = self.run(["systemctl", "is-system-running", "--wait"], timeout=left)
            except subprocess.TimeoutExpired:
                break
            if answer.stdout.strip() in BOOTED:
                return
            said = answer.stderr.strip()
            time.sleep(0.05)
        console = (self.directory / "console.log").read_text(errors="replace").splitlines()[-10:]
        raise BoxError("\n".join([f"box {self.name} did not come up", *console, said]))


def pack(files: Mapping[str, Content]) -> bytes:
    """A tar of absolute paths, to be unpacked over /; all owned by root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for target, content in files.items():
            name = target.lstrip("/")
            if isinstance(content, Path):
                tar.add(content, name, filter=_owned_by_root)
                continue
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o755 if data.startswith(b"#!") else 0o644
            info.mtime = int(time.time())
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def _escape(path: str | Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:")
