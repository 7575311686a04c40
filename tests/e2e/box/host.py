"""What a box needs of the machine it runs on, and what that machine says of itself."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

TOOLS = ("debootstrap", "systemd-nspawn", "ssh", "ssh-keygen", "strace", "unshare")
PACKAGES = Path(__file__).with_name("packages.txt")  # Debian packages that bring TOOLS, one a line
CGROUPS = Path("/sys/fs/cgroup")


def why_not() -> str:
    """Why no box can run here; empty when boxes can."""
    if os.geteuid() != 0:
        return "boxes need root"
    if _os_release().get("ID") != "debian":
        return "boxes need Debian"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        packages = " ".join(PACKAGES.read_text().split())
        return f"{', '.join(missing)} not found: apt-get install {packages}"
    if not all(os.access(group, os.W_OK) for group in cgroups()):
        return "cgroups are read-only here"
    allowed = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "box", "/mnt"], capture_output=True, text=True
    )
    return f"mounting is not allowed here: {allowed.stderr.strip()}" if allowed.returncode else ""


def suite() -> str:
    """The Debian suite of this machine, `bookworm`."""
    return _os_release().get("VERSION_CODENAME", "stable")


def mirror(wanted: str) -> str:
    """Where apt here gets `wanted` from, or else this machine's own suite: a mirror has them all.

    Empty when apt does not say, and debootstrap's own default serves.
    """
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(CODENAME) $(COMPONENT) $(REPO_URI)"],
        capture_output=True,
        text=True,
    )
    found: dict[str, str] = {}
    for line in targets.stdout.splitlines():
        release, _, rest = line.partition(" ")
        codename, _, rest = rest.partition(" ")
        component, _, uri = rest.partition(" ")
        if component == "main" and uri.startswith(("http://", "https://")):
            for name in (release, codename):
                found.setdefault(name, uri)
    return found.get(wanted) or found.get(suite(), "")


def cgroups() -> list[Path]:
    """Our own group in each hierarchy that systemd manages: v2, or v1's `name=systemd`, or both."""
    hybrid = CGROUPS / "unified"
    roots = {"": hybrid if hybrid.is_dir() else CGROUPS, "name=systemd": CGROUPS / "systemd"}
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in roots:
            found.append(roots[controllers] / path.lstrip("/"))
    return found


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}
