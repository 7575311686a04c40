from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.evidence.recorded import Recorded
from triage.evidence.redaction.anonymity import Anonymiser, host_names, users_in
from triage.evidence.redaction.redactor import Redactor


def anonymous(
    text: str, users: tuple[str, ...] = ("mira", "root"), hosts: tuple[str, ...] = ("gpu-node7",)
) -> str:
    return Anonymiser(Redactor(), users, hosts).text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/mira/venv/bin/python", "/home/<user-1>/venv/bin/python"),
        ("user=mira uid", "user=<user-1> uid"),
        ("mira@gpu-node7:22", "<user-1>@<host-1>:22"),
        ("admiral mirage mira-2", "admiral mirage mira-2"),
        ("connect to 10.1.2.3:5000 and 10.1.2.3", "connect to <address-1>:5000 and <address-1>"),
        ("(EngineCore pid=5, ip=192.168.1.20)", "(EngineCore pid=5, ip=<address-1>)"),
        ("tcp://172.16.0.9:29500", "tcp://<address-1>:29500"),
        ("[2001:db8::17]:22", "[<address-1>]:22"),
        ("fe80::1ff:fe23:4567:890a%eth0", "<address-1>%eth0"),
    ],
)
def test_people_machines_and_addresses(text: str, expected: str) -> None:
    assert anonymous(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:30000 127.0.1.7 0.0.0.0 ::1 localhost",
        "root ran python as sglang",
        "nvidia-cudnn-cu12==9.10.2.21 libcudnn.so.9.1.0.70 v1.2.3.4 version 12.4.127.1",
        "nvidia-curand-cu12 10.3.9.90",
        "[2026-05-12 14:03:59 PP3] 2026-11-29T17:15:37+00:00 16:22:57",
        "std::vector c10::Error at::native a::b::c",
        "999.1.2.3 1.2.3 1.2.3.4.5 10.0.0.256",
        "f9d3fa56cc3d4d3eb2bb70319ac98637",
    ],
)
def test_what_tells_nothing_stays(text: str) -> None:
    assert anonymous(text) == text


def test_names_that_mean_other_things_are_not_replaced() -> None:
    text = "/opt/sglang/lib/python3.11/site-packages/sglang/srt run by sglang on model"
    assert anonymous(text, ("sglang", "model", "ai"), ("gpu",)) == text


def test_one_name_one_placeholder() -> None:
    anonymiser = Anonymiser(Redactor(), ("mira", "noor"), ())
    assert anonymiser.text("noor mira") == anonymiser.text("noor mira")
    assert len(set(anonymiser.text("noor mira").split())) == 2


def test_users_are_learned_where_the_evidence_names_them() -> None:
    recorded = (
        Recorded("service-units {}", "", "User=svc-llm\nId=a.service\nExecStart=/home/noor/run\n"),
        Recorded("processes {}", "", json.dumps([5, 1, "mira", "", "x"]) + "\nbroken\n"),
        Recorded("gpu-inventory {}", "", None, "missing"),
    )
    assert set(users_in(recorded)) == {"svc-llm", "noor", "mira"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpu01", {"gpu01"}),
        ("gpu01.fleet.example", {"gpu01.fleet.example", "gpu01"}),
        ("ops@gpu01:2222", {"gpu01"}),
        ("10.0.0.1", set()),
        ("", set()),
    ],
)
def test_names_of_a_machine(name: str, expected: set[str]) -> None:
    assert set(host_names(name)) == expected


@given(st.text(max_size=200), st.ip_addresses(v=4).filter(lambda a: not (a.is_loopback or a.is_unspecified)))
def test_an_address_never_survives(text: str, address: object) -> None:
    assert f" {address} " not in anonymous(f"{text} connect {address} {text}")


@pytest.mark.parametrize("piece", ["1.", "1.2.3.4", ":", "a:", "::", "/home/", "mira", "1.2.3.4-"])
def test_hostile_repetition_does_not_take_for_ever(piece: str) -> None:
    anonymous(piece * (1_000_000 // len(piece)))
