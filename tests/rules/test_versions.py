"""The order of releases, and what goes with a system, a driver and a GPU."""

from __future__ import annotations

import itertools

import pytest

from triage.rules.arithmetic.versions import capability_of, cuda_of, glibc_of, older, satisfies

IN_ORDER = (
    *("0.4.6", "0.4.6.post1", "0.4.6.post2", "0.5.0rc2", "0.5", "0.5.3.post3", "0.5.10", "1.0.dev3", "1.0a1"),
    *("1.0b2", "1.0rc1", "1.0", "1.0.post1", "525.60.13", "580"),
)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(IN_ORDER, 2)))
def test_order(one: str, other: str) -> None:
    assert older(one, other) is True
    assert older(other, one) is False


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.0.0"), ("v2.8", "2.8"), ("2.8.0+cu128", "2.8.0")])
def test_the_same_release(one: str, other: str) -> None:
    assert older(one, other) is False
    assert older(other, one) is False


def test_no_release() -> None:
    assert older("", "1.0") is None
    assert older("unknown", "1.0") is None
    assert satisfies("editable", ">=1") is None


@pytest.mark.parametrize(
    ("version", "conditions", "holds"),
    [
        ("2.1.0", ">=2", True),
        ("1.26.4", ">=2", False),
        ("0.5.11", ">=0.4.6.post2, <0.5.18", True),
        ("0.5.18", ">=0.4.6.post2, <0.5.18", False),
        ("0.4.6", ">=0.4.6.post2,<0.5.18", False),
        ("3", "!=3", False),
        ("3", "==3.0", True),
    ],
)
def test_conditions(version: str, conditions: str, holds: bool) -> None:
    assert satisfies(version, conditions) is holds


@pytest.mark.parametrize(
    ("system", "glibc"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, "2.36"),
        ({"ID": "ubuntu", "VERSION_ID": "20.04"}, "2.31"),
        ({"ID": "rocky", "VERSION_ID": "8.10"}, "2.28"),
        ({"ID": "arch"}, ""),
        ({}, ""),
    ],
)
def test_c_libraries(system: dict[str, str], glibc: str) -> None:
    assert glibc_of(system) == glibc


@pytest.mark.parametrize(
    ("versions", "cuda"),
    [
        ({"torch": "2.8.0+cu128"}, 12),
        ({"torch": "2.11.0", "nvidia-nccl-cu13": "2.28"}, 13),
        ({"torch": "2.11.0", "nvidia-nccl-cu13": "2.28", "nvidia-nccl-cu12": "2.27"}, None),
        ({"torch": "2.11.0+cpu"}, None),
        ({}, None),
    ],
)
def test_cuda(versions: dict[str, str], cuda: int | None) -> None:
    assert cuda_of(versions) == cuda


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA H200", "9.0"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA H20", "9.0"),
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA RTX A6000", "8.6"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA L4", "8.9"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
        ("NVIDIA GeForce RTX 3090", "8.6"),
        ("NVIDIA GeForce RTX 5090", "12.0"),
        ("NVIDIA B200", "10.0"),
        ("NVIDIA B300 SXM6 AC", "10.3"),
        ("NVIDIA GB10", "12.1"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("Tesla T4", "7.5"),
        ("Tesla P40", "6.1"),
        ("something new", ""),
        ("", ""),
    ],
)
def test_capabilities(name: str, capability: str) -> None:
    assert capability_of(name) == capability
