"""Many hosts at once, without any."""

from __future__ import annotations

from threading import Event, get_ident

import pytest

from triage.common.errors import ExitCode, UnreachableError
from triage.hosts.inventory.model import Host
from triage.workflows.fleet import HostOutcome, on_each
from triage.workflows.prompts import Prompts

HOSTS = tuple(Host(f"gpu{number:02}") for number in range(1, 33))
PATIENCE = 20  # seconds


def nobody(question: str) -> None:
    """Answers nothing."""


def test_a_host_that_hangs_keeps_none_of_the_others_waiting() -> None:
    others = Event()
    ended: list[str] = []

    def work(host: Host) -> str:
        return str(others.wait(PATIENCE)) if host is HOSTS[0] else host.name

    def told(host: Host, outcome: HostOutcome[str] | None) -> None:
        if outcome is not None:
            ended.append(host.name)
        if len(ended) == len(HOSTS) - 1:
            others.set()

    outcomes = on_each(HOSTS, work, 2, Prompts(Event(), nobody), told)
    assert ended[-1] == "gpu01"
    assert [each.value for each in outcomes] == ["True", *(host.name for host in HOSTS[1:])]


def test_an_error_is_of_one_host() -> None:
    def work(host: Host) -> str:
        if host is HOSTS[1]:
            raise UnreachableError("connecting to", host.name, "no answer", "try again")
        if host is HOSTS[2]:
            raise ZeroDivisionError
        return host.name

    outcomes = on_each(HOSTS, work, 8, Prompts(Event(), nobody))
    assert [each.failure for each in outcomes[:4]] == [ExitCode.OK, ExitCode.UNREACHABLE, 70, ExitCode.OK]
    assert [each.value for each in outcomes[3:]] == [host.name for host in HOSTS[3:]]


def test_after_ctrl_c_no_other_host_begins() -> None:
    stop = Event()
    begun: list[str] = []

    def work(host: Host) -> None:
        begun.append(host.name)
        if host is not HOSTS[0]:
            assert stop.wait(PATIENCE)

    def told(host: Host, outcome: HostOutcome[None] | None) -> None:
        if outcome is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_each(HOSTS, work, 2, Prompts(stop, nobody), told)
    assert set(begun) <= {"gpu01", "gpu02", "gpu03"}


def test_a_question_is_asked_once_in_the_calling_thread() -> None:
    asked: list[tuple[str, int]] = []

    def answer(question: str) -> str:
        asked.append((question, get_ident()))
        return "sesame"

    questions = Prompts(Event(), answer)
    outcomes = on_each(HOSTS, lambda host: questions.ask("password"), 8, questions)
    assert {each.value for each in outcomes} == {"sesame"}
    assert asked == [("password", get_ident())]


def test_ctrl_c_at_a_question_ends_those_that_wait_for_the_answer() -> None:
    def answer(question: str) -> str:
        raise KeyboardInterrupt

    questions = Prompts(Event(), answer)
    with pytest.raises(KeyboardInterrupt):
        on_each(HOSTS, lambda host: questions.ask("password"), 8, questions)
