"""Releases and what goes with them: their order, the C library of a distribution, the driver that CUDA needs,
the compute capability of a GPU."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

_VERSION = re.compile(
    r"v?(\d{1,9}(?:\.\d{1,9}){0,5})(?:[._-]?(dev|a|alpha|b|beta|rc|post)[._-]?(\d{0,9}))?", re.ASCII
)
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "": 0, "post": 1}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(r"(>=|<=|==|!=|>|<) ?(\S+)")

Key = tuple[tuple[int, ...], int, int]


def version_key(text: str) -> Key | None:
    """What orders releases as Python's packaging does, of the forms in use; None for another form."""
    found = _VERSION.match(text.strip())
    if found is None:
        return None
    release = [int(part) for part in found[1].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    return tuple(release), _STAGES[found[2] or ""], int(found[3] or 0)


def older(one: str, other: str) -> bool | None:
    """Whether one release comes before another; None where the form of either is not known."""
    first, second = version_key(one), version_key(other)
    return None if first is None or second is None else first < second


def satisfies(version: str, conditions: str) -> bool | None:
    """Whether a release meets `>=2, <3`; None where its form is not known."""
    key = version_key(version)
    if key is None:
        return None
    wanted = [_CONDITION.fullmatch(part.strip()) for part in conditions.split(",")]
    return all(each is not None and _COMPARE[each[1]](key, version_key(each[2])) for each in wanted)


_GLIBC = {
    ("debian", "10"): "2.28",
    ("debian", "11"): "2.31",
    ("debian", "12"): "2.36",
    ("debian", "13"): "2.41",
    ("ubuntu", "18.04"): "2.27",
    ("ubuntu", "20.04"): "2.31",
    ("ubuntu", "22.04"): "2.35",
    ("ubuntu", "24.04"): "2.39",
    ("rhel", "7"): "2.17",
    ("rhel", "8"): "2.28",
    ("rhel", "9"): "2.34",
    ("rhel", "10"): "2.39",
    ("amzn", "2"): "2.26",
    ("amzn", "2023"): "2.34",
    ("sles", "15"): "2.31",
}
_LIKE_RHEL = ("centos", "rocky", "almalinux", "ol", "rhel")


def glibc_of(system: Mapping[str, str]) -> str:
    """The C library of a distribution as /etc/os-release names it, "" where that is not known."""
    name, version = system.get("ID", ""), system.get("VERSION_ID", "")
    if name in _LIKE_RHEL or name == "sles":
        name, version = "sles" if name == "sles" else "rhel", version.partition(".")[0]
    return _GLIBC.get((name, version), "")


DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for each CUDA, minor version compatibility counted in. Source: NVIDIA's release notes."""


def cuda_of(versions: Mapping[str, str]) -> int | None:
    """The major CUDA version that the installed torch was built for: `2.8.0+cu128`, or the NCCL beside it."""
    local = re.search(r"\+cu(1[0-9])\d{1,2}$", versions.get("torch", ""))
    if local:
        return int(local[1])
    found = [major for major in DRIVERS if f"nvidia-nccl-cu{major}" in versions]
    return found[0] if len(found) == 1 else None


# More exact names first. Source: NVIDIA's list of GPUs by compute capability.
_CAPABILITIES = (
    (r"GB300|B300", "10.3"),
    (r"GB10\b", "12.1"),
    (r"GB200|B[12]00", "10.0"),
    (r"RTX PRO \d{4}|RTX 50\d\d|Blackwell", "12.0"),
    (r"Thor", "11.0"),
    (r"GH200|H100|H200|H800|H20\b", "9.0"),
    (r"L4\b|L40S?\b|L20\b|L2\b|RTX 40\d\d|Ada Generation", "8.9"),
    (r"Orin", "8.7"),
    (r"A100|A800|A30\b", "8.0"),
    (r"A10G?\b|A16\b|A2\b|A40\b|RTX A\d{4}|RTX 30\d\d", "8.6"),
    (r"\bT4G?\b|RTX 20\d\d|TITAN RTX|Quadro RTX|GTX 16\d\d", "7.5"),
    (r"V100|TITAN V", "7.0"),
    (r"P100", "6.0"),
    (r"\bP4\b|\bP40\b|GTX 10\d\d", "6.1"),
)


def capability_of(gpu: str) -> str:
    """The compute capability of a GPU by its name, "" where that is not known."""
    return next((found for pattern, found in _CAPABILITIES if re.search(pattern, gpu)), "")
