"""Settings of a host from the ssh configuration, with the keywords of `ssh -G`.

The ssh client reads its own configuration, so that Include, Match, quotes and comments mean what they mean to
ssh. If it is not installed, plain files are read here, and what only the client understands is refused by
name.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from triage.common.errors import UsageError
from triage.common.files import read_plain

MAX_BYTES = 16 << 20
PATIENCE = 20.0  # seconds; `Match exec` and names that are made canonical may take some
NEED_SSH = ("match", "include", "tag", "canonicalizehostname")
# keywords whose value is a number
MOST = {"port": 65535, "connecttimeout": 10**6, "serveraliveinterval": 10**6}

Settings = Mapping[str, tuple[str, ...]]


def settings(host: str, user: str, port: int, file: Path | None, arguments: Sequence[str] = ()) -> Settings:
    """Return the settings of `host` for `user` ("" if not given) and `port` (0 if not given).

    `file` replaces the user's own configuration. `arguments` are further arguments of ssh.

    Raises UsageError for a broken configuration, with ssh's message.
    """
    path = (file or Path("~/.ssh/config")).expanduser()
    if file and not path.exists():
        raise UsageError(
            "reading", f"the ssh configuration {path}", "there is no such file", f"ls -l {path.parent}"
        )
    program = shutil.which("ssh")
    if not program and arguments:
        why, next = "they cannot be read without the ssh client", "install it (openssh-client)"
        raise UsageError("reading", f"the ssh arguments of {host}", why, next)
    if not program:
        return _of_file(host, user, port, path)
    argv = [program, "-G", *(("-l", user) if user else ()), *(("-p", str(port)) if port else ()), *arguments]
    if file or not _is_the_accounts(path):
        argv += ["-F", str(path) if path.exists() else "none"]
    return _of_ssh(host, [*argv, "--", host])


def account_home() -> Path:
    """Return the home directory that ssh uses, whatever the environment says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()


def _is_the_accounts(path: Path) -> bool:
    return path == account_home() / ".ssh" / "config"


def _of_ssh(host: str, argv: list[str]) -> Settings:
    doing = ("reading", f"the ssh configuration of {host}")
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        why = f"ssh had not read it after {PATIENCE:g} s; is it a `Match exec`, or a name server?"
        raise UsageError(*doing, why, shlex.join(argv)) from None
    except OSError as error:
        raise UsageError(*doing, f"{argv[0]}: {error.strerror}", shlex.join(argv)) from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        said = [line for line in lines if not line.startswith("Pseudo-terminal")]
        raise UsageError(*doing, "; ".join(said[:3]) or f"ssh ended with {done.returncode}", shlex.join(argv))
    found: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        key, _, value = line.partition(" ")
        found[key.lower()] = (*found.get(key.lower(), ()), value)
    return found


def _of_file(host: str, user: str, port: int, path: Path) -> Settings:
    import paramiko

    try:
        text = read_plain(path, MAX_BYTES).decode("utf-8", "replace") if path.exists() else ""
        _refuse_what_needs_ssh(text)
        given = f"Host *\n{f'User {user}' if user else ''}\n{f'Port {port}' if port else ''}\n"
        found = paramiko.SSHConfig.from_text(given + text).lookup(host)
    except (paramiko.SSHException, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or repr(error)
        raise UsageError(
            "reading",
            f"the ssh configuration {path}",
            reason,
            "fix that line, or install the ssh client (openssh-client)",
        ) from None
    return {key: tuple(value) if isinstance(value, list) else (value,) for key, value in found.items()}


def _refuse_what_needs_ssh(text: str) -> None:
    """Raise ValueError if the file holds a line that ssh would read differently."""
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = re.split(r"[\s=]+", line.strip(), maxsplit=1)
        key = words[0].lower()
        if not key or key.startswith("#"):
            continue
        if key in NEED_SSH or re.search(r"[\"'#$]", words[-1]) or "%%" in line:
            raise ValueError(f"line {number} ({words[0][:40]}) cannot be read without the ssh client")
        if key in MOST and not (re.fullmatch("[0-9]{1,7}", words[-1]) and int(words[-1]) <= MOST[key]):
            raise ValueError(f"line {number}: {key} takes a number of at most {MOST[key]}")
        if {key} | seen >= {"proxycommand", "proxyjump"} or (key == "certificatefile" and key in seen):
            raise ValueError(f"line {number}: a second {key} cannot be read without the ssh client")
        seen.add(key)
