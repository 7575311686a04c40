"""The same fault has the same name everywhere, and different faults have different ones."""

from __future__ import annotations

import pytest

from triage.logs import read_incidents
from triage.logs.faults.fingerprint import normal
from triage.logs.model import LogSource


def mark(
    error: str = "IndexError: list index out of range",
    *,
    rank: str = "PP3",
    root: str = "/opt/venv/lib/python3.11",
    line: int = 104,
    function: str = "__init__",
    file: str = "sglang/srt/layers/attention/triton_backend.py",
    stamp: str = "2026-05-12 14:03:59",
) -> str:
    text = (
        f"[{stamp} {rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
        f'  File "{root}/site-packages/{file}", line {line}, in {function}\n    x\n{error}\n'
    )
    (incident,) = read_incidents([LogSource("log", text.encode())])
    return incident.fingerprint


def test_stable_over_hosts_versions_ranks_and_times() -> None:
    assert (
        len(
            {
                mark(),
                mark(rank="PP5 TP1"),
                mark(root="/home/someone/.venv/lib64/python3.12"),
                mark(line=309),
                mark(stamp="2027-01-01 00:00:00"),
            }
        )
        == 1
    )


def test_different_faults_differ() -> None:
    marks = [
        mark(),
        mark("KeyError: 0"),
        mark("IndexError: tuple index out of range"),
        mark(function="forward"),
        mark(file="sglang/srt/layers/attention/wave_backend.py"),
        mark(file="vllm/attention/triton_backend.py"),
    ]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "CUDA out of memory. Tried to allocate 1.96 GiB. GPU 1 has",
            "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 7 has",
        ),
        ("bad magic in /srv/models/a/b.safetensors", "bad magic in /home/x/y/c.safetensors"),
        ("at 0x7f5813b0f528", "at 0x7eff5d81dc88"),
        (
            "request cmpl-9bd3604cd6e884df-0-abe0ca32 failed",
            "request cmpl-ab1f9c8691eaace6-0-0a1b2c3d failed",
        ),
        ("connect to tcp://10.0.0.1:5555 failed", "connect to tcp://10.0.0.2:6666 failed"),
    ],
)
def test_what_differs_from_run_to_run_is_made_equal(one: str, other: str) -> None:
    assert normal(one) == normal(other)


def test_words_stay() -> None:
    assert normal("list index out of range") == "list index out of range"
    assert normal("1 validation error for ModelConfig\n  Value error, no such thing") == (
        "# validation error for ModelConfig Value error, no such thing"
    )
